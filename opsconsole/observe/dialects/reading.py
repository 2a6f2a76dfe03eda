"""What was read of one page in canonical words: more than a `Sample` carries, since doctor shows all of it.

It must not know any engine. Absent, blank, damaged and implausible are all None in `values`, each with its reason in
`unknown`. The trap: a field whose family is absent has no entry in `values` at all; ask with `get`, which says None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from opsconsole.domain.records import Buckets, RankLoad, Sample


@dataclass(slots=True)
class Reading:
    """One page, normalised. `engine` None means: nothing of any engine we know."""

    engine: str | None = None
    title: str = ""
    versions: str = ""  # what the names found say of the engine's version
    model: str | None = None
    ranks: int | None = None  # data-parallel ranks told apart
    wrapped_by: str | None = None  # ray, kserve, dynamo
    values: dict[str, Any] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # field -> the family it was read from
    auxiliary: tuple[str, ...] = ()  # what else speaks on the page
    by_rank: tuple[RankLoad, ...] = ()  # where there are two or more

    def number(self, name: str) -> float | None:
        value = self.values.get(name)
        return value if isinstance(value, float | int) else None

    def buckets(self, name: str) -> Buckets | None:
        value = self.values.get(name)
        return value if isinstance(value, Buckets) else None

    def mapping(self, name: str) -> Mapping[str, float] | None:
        value = self.values.get(name)
        return value if isinstance(value, dict) else None

    def forget(self, name: str, why: str) -> None:
        """What was read is not believed."""
        self.values.pop(name, None)
        self.unknown[name] = why

    def flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)


# Sample's field -> the reading's, where the words differ
_RENAMED = {
    "output_tokens": "generation_tokens",
    "requests_started": "arrivals",
    "requests_finished": "finished_total",
    "requests_failed": "failed_total",
    "requests_rejected": "rejected_total",
    "queue_time": "queue",
    "prefill_time": "prefill",
    "decode_time": "decode",
}
_SAME = (
    "process_start", "waiting", "running", "swapped", "kv_usage", "kv_usage_mean", "kv_capacity_tokens", "max_running",
    "preemptions", "prompt_tokens", "prompt_tokens_computed", "prefix_hits", "prefix_queries", "prefix_hit_rate",
    "spec_drafts", "spec_draft_tokens", "spec_accepted_tokens", "ttft", "tpot", "itl", "e2e",
)  # fmt: skip
_SAMPLE_FIELDS = tuple((name, name) for name in _SAME) + tuple(_RENAMED.items())
_FAILURE_WORDS = ("abort", "error", "cancel", "fail")


@lru_cache(maxsize=256)  # the engines' reasons are few
def is_failure(reason: str) -> bool:
    """Whether a finish reason means that the client did not get its answer."""
    return any(word in reason.lower() for word in _FAILURE_WORDS)


def to_sample(reading: Reading, at: float, replica: str) -> Sample:
    """The part of a reading that crosses borders."""
    get = reading.values.get
    told: dict[str, Any] = {sample: get(name) for sample, name in _SAMPLE_FIELDS}
    reasons = reading.mapping("finished")
    if told["requests_failed"] is None and reasons is not None:
        told["requests_failed"] = sum(n for reason, n in reasons.items() if is_failure(reason))
    awake, ready, draining = get("awake"), get("engine_ready"), get("engine_draining")
    return Sample(
        replica,
        at,
        engine=reading.engine,
        engine_version=reading.versions or None,
        model=reading.model,
        finished_by_reason=reasons,
        slo_outcomes=reading.mapping("slo_outcomes"),
        asleep=None if awake is None else awake == 0,
        ready=None if ready is None else ready == 1,
        draining=None if draining is None else draining == 1,
        gpus=_gpus(reading),
        flags=tuple(reading.flags),
        unknown=tuple(reading.unknown.items()),
        ranks=reading.by_rank,
        **told,
    )


def _gpus(reading: Reading) -> dict[str, float] | None:
    """`0/util`, `0/memory_used`...: one entry for each fact of each GPU."""
    found = {
        f"{gpu}/{name.removeprefix('gpu_')}": value
        for name, values in reading.values.items()
        if name[:4] == "gpu_" and isinstance(values, dict)
        for gpu, value in values.items()
    }
    return found or None
