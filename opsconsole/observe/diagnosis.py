"""What doctor says of one replica: its pages in order, what was recognised, what is missing, and why.

Pure: pages and times in, one value out. Uses the scanner, tables and folds that the agent uses, so that doctor cannot
see what the agent does not. The trap: rates need the times of the scrapes; without them they are unknown, not zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opsconsole.domain import histogram
from opsconsole.domain.counters import advance, alternates, restarted
from opsconsole.domain.records import Buckets
from opsconsole.errors import SourceErrorKind
from opsconsole.observe.continuity import FROZEN_FLAG, RANK_FLAG, WORKERS_FLAG, Continuity, follow
from opsconsole.observe.dialects import DIALECTS
from opsconsole.observe.dialects.normalise import read
from opsconsole.observe.dialects.reading import Reading, to_sample
from opsconsole.observe.dialects.table import Dialect, Field, Kind
from opsconsole.observe.exposition import BadLine, SeriesMemo
from opsconsole.observe.fetch import FetchFailed
from opsconsole.observe.layout import Layouts, PageReader
from opsconsole.observe.page import open_page

_TIME = re.compile(r"^#.*?\b(?:scrape\s+t|now)\s*=\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)", re.M)
_FREEZE_S = {d.engine: d.freeze_s for d in DIALECTS}
_UNTIMED_GAP_S = 3600.0  # successive pages without times: far enough apart for every patience

HISTOGRAMS = ("ttft", "tpot", "itl", "e2e", "queue", "prefill", "decode")
NUMBERS = (
    "waiting", "running", "swapped", "active", "before_first_token", "generating", "streams", "kv_usage",
    "kv_usage_mean", "block_size", "num_blocks", "kv_capacity_tokens", "max_running", "max_model_len", "occupancy",
    "utilization", "preemptions", "prompt_tokens", "prompt_tokens_computed", "generation_tokens", "prompt_seconds",
    "generation_seconds", "arrivals", "finished_total", "failed_total", "rejected_total", "prefix_hits",
    "prefix_queries", "prefix_hit_rate", "process_start",
)  # fmt: skip
MAPPINGS = ("waiting_by_reason", "finished", "failed", "rejected", "lora", "slo_outcomes")
ESSENTIAL = (
    "waiting",
    "running",
    "kv_usage",
    "preemptions",
    "prompt_tokens",
    "generation_tokens",
    "ttft",
    "tpot",
    "e2e",
)
RATES = {
    "arrival_rate": "arrivals",
    "completion_rate": "finished_total",
    "generation_tokens_per_s": "generation_tokens",
    "prompt_tokens_per_s": "prompt_tokens",
    "preemptions_per_s": "preemptions",
}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
GPU_FACTS = ("gpu_util", "gpu_memory_used", "gpu_memory_free", "gpu_power_w", "gpu_temperature_c", "gpu_xid")
DUPLICATE_FLAG, SKEW_FLAG = "duplicate", "clock_skew"
_ERROR_WORDS = {SourceErrorKind.NOT_METRICS: "not_exposition"}


@dataclass(slots=True)
class Reads:
    """One page as doctor saw it: a reading or an error, and when it was scraped (None: unknown)."""

    at: float | None
    reading: Reading | None = None
    error: str | None = None
    detail: str | None = None
    bad: Sequence[BadLine] = ()
    bad_count: int = 0


@dataclass(slots=True)
class Movement:
    """What several pages tell together."""

    increases: dict[str, float | None] = field(default_factory=dict)
    restarts: int = 0
    seconds: float | None = None
    flags: list[str] = field(default_factory=list)


def time_in(data: bytes) -> float | None:
    """The time of a scrape from a `# scrape t=` or `now =` comment of the page."""
    found = _TIME.search(data.decode("utf-8", "replace"))
    return float(found.group(1)) if found else None


def read_page(data: bytes, at: float | None, memo: SeriesMemo, *, complete: bool | None = None) -> Reads:
    """One page, or why it is none. `complete` None: judge by its end, as for a file that somebody saved."""
    try:
        is_whole = ends_whole(data) if complete is None else complete
        page = open_page(data, PageReader(Layouts(memo)), complete=is_whole, cut_is_fine=True)
    except FetchFailed as failed:
        return failure(failed, at)
    return Reads(at, read(page, at), bad=page.bad, bad_count=page.bad_count)


def ends_whole(data: bytes) -> bool:
    """Whether the last line may be believed: it has an end, or its value is written like all the others.

    `... 1` where every other value has a point is `... 12.0` cut short.
    """
    if data.endswith(b"\n"):
        return True
    lines = [line for line in data.split(b"\n") if line.strip() and not line.startswith(b"#")]
    values = [line.rpartition(b" ")[2] for line in lines]
    if not values or values[-1].endswith((b".", b"e", b"-", b"+")):
        return False
    return len(values) < 3 or b"." in values[-1] or not all(b"." in value for value in values[:-1])


def failure(failed: FetchFailed, at: float | None) -> Reads:
    return Reads(at, error=_ERROR_WORDS.get(failed.kind, failed.kind.value.replace("-", "_")), detail=failed.detail)


def diagnose(subject: str, reads: Sequence[Reads], notices: Sequence[str] = ()) -> dict[str, Any]:
    """Everything known of one replica, in the canonical names; the newest page gives the levels.

    `notices` are flags that no page tells: of its address and of its server's clock.
    """
    last = reads[-1]
    reading = last.reading or Reading()
    movement = _movement(reads)
    report: dict[str, Any] = {
        "target": subject,
        "pages": len(reads),
        "engine": reading.engine,
        "title": reading.title or None,
        "versions": reading.versions or None,
        "model": reading.model,
        "ranks": reading.ranks,
        "wrapped_by": reading.wrapped_by,
        "beside": list(reading.auxiliary),
        "error": last.error,
        "error_detail": last.detail,
        "errors": [r.error for r in reads],
    }
    report |= {name: reading.number(name) for name in NUMBERS}
    report |= {name: reading.values.get(name) for name in MAPPINGS}
    report["failed"] = report["failed"] or report["failed_total"]
    report["spec"] = _spec(reading)
    sample = to_sample(reading, 0.0, subject)
    report |= {"asleep": sample.asleep, "ready": False if sample.asleep else sample.ready, "draining": sample.draining}
    report["gpus"] = sample.gpus
    report |= {name: reading.mapping(name) for name in GPU_FACTS}
    report |= _latencies(reads, reading)
    report |= _rates(movement, reads)
    at_least = [f"{name}_lower_bound" for name in HISTOGRAMS if report[f"{name}_lower_bound"]]
    report["flags"] = [*dict.fromkeys((*reading.flags, *movement.flags, *at_least, *notices))]
    report["unknown"] = dict(reading.unknown)
    report["missing"] = _missing(reading)
    report["read_from"] = dict(reading.names)
    report["bad_lines"] = [{"line": b.number, "text": b.text, "family": b.family} for b in last.bad]
    return report


def _spec(reading: Reading) -> dict[str, float | None] | None:
    """Speculative decoding: rate = accepted / drafted, length = 1 + accepted / drafts."""
    drafts, drafted = reading.number("spec_drafts"), reading.number("spec_draft_tokens")
    accepted = reading.number("spec_accepted_tokens")
    rate = accepted / drafted if accepted is not None and drafted else reading.number("spec_acceptance")
    length = 1 + accepted / drafts if accepted is not None and drafts else reading.number("spec_mean_length")
    if rate is None and length is None:
        return None
    return {"acceptance_rate": rate, "mean_acceptance_length": length}


def _latencies(reads: Sequence[Reads], reading: Reading) -> dict[str, Any]:
    """Histograms as read, and their quantiles over the span of the pages (over all time with one page)."""
    found: dict[str, Any] = {}
    for name in HISTOGRAMS:
        newest = reading.buckets(name)
        window = _window(reads, name, newest)
        found[name] = None if newest is None else _plain(newest)
        found[f"{name}_mean"] = (
            None if window is None or window.sum is None or not window.count else window.sum / window.count
        )
        at_least = False
        for label, share in QUANTILES.items():
            quantile = None if window is None else histogram.quantile(window, share)
            found[f"{name}_{label}"] = None if quantile is None else quantile.value
            at_least |= quantile is not None and quantile.lower_bound
        found[f"{name}_lower_bound"] = at_least if window is not None else None
    found["itl_basis"] = reading.values.get("itl_basis")
    return found


def _window(reads: Sequence[Reads], name: str, newest: Buckets | None) -> Buckets | None:
    first = next((b for r in reads[:-1] if r.reading and (b := r.reading.buckets(name))), None)
    if newest is None or first is None:
        return newest
    return histogram.difference(first, newest)


def _plain(buckets: Buckets) -> dict[str, Any]:
    bounds = ["+Inf" if bound == float("inf") else f"{bound:g}" for bound in buckets.bounds]
    return {"count": buckets.count, "sum": buckets.sum, "buckets": dict(zip(bounds, buckets.counts, strict=True))}


def _rates(movement: Movement, reads: Sequence[Reads]) -> dict[str, Any]:
    seconds, increases = movement.seconds, movement.increases
    rates: dict[str, Any] = {}
    for name, counter in RATES.items():
        amount = increases.get(counter)
        rates[name] = amount / seconds if amount is not None and seconds else None
    hits, queries = increases.get("prefix_hits"), increases.get("prefix_queries")
    rates["prefix_hit_rate_window"] = hits / queries if hits is not None and queries else None
    known = [amount for amount in increases.values() if amount is not None]
    rates["increases"] = increases
    # with one counter on the pages there is no doubt which is meant
    rates["increase"] = known[0] if len(known) == 1 else None
    rates["restarts"] = movement.restarts if len(reads) > 1 else None
    rates["seconds"] = seconds
    return rates


def _movement(reads: Sequence[Reads]) -> Movement:
    """Counters over the pages: restarts, increases, frozen gauges, workers that alternate."""
    moved = Movement()
    good = [r for r in reads if r.reading is not None and r.reading.engine is not None]
    if len(good) < 2:
        return moved
    starts = [r.reading.number("process_start") for r in good if r.reading]
    per_worker = alternates(starts)
    for name in _counter_fields():
        values = [r.reading.number(name) for r in good if r.reading]
        if all(value is None for value in values) or (name == "prompt_tokens_computed"):
            continue
        moved.increases[name] = _per_worker(values, starts) if per_worker else _increase(values, starts)
    if not per_worker:
        moved.restarts = _restarts(good, starts)
    times = [r.at for r in good]
    if times[0] is not None and times[-1] is not None and times[-1] > times[0]:
        moved.seconds = times[-1] - times[0]
    moved.flags = _followed_flags(good, [t for t in times if t is not None])
    return moved


def _counter_fields() -> list[str]:
    names = {
        f"{row.name}_total" if row.by else row.name for d in DIALECTS for row in d.fields if row.kind is Kind.COUNTER
    }
    return sorted(names & set(NUMBERS))


def _increase(values: Sequence[float | None], starts: Sequence[float | None]) -> float | None:
    counter, before = None, None
    for value, start in zip(values, starts, strict=True):
        counter = advance(counter, value, restart=restarted(before, start))
        before = start if start is not None else before
    return None if counter is None or sum(v is not None for v in values) < 2 else counter.total


def _per_worker(values: Sequence[float | None], starts: Sequence[float | None]) -> float:
    """Several processes behind one address: each is its own counter, and none of them restarted."""
    workers: dict[float | None, list[float]] = {}
    for value, start in zip(values, starts, strict=True):
        if value is not None:
            workers.setdefault(start, []).append(value)
    return sum(max(0.0, seen[-1] - seen[0]) for seen in workers.values())


def _restarts(good: Sequence[Reads], starts: Sequence[float | None]) -> int:
    count = 0
    for index in range(1, len(good)):
        before, after = good[index - 1].reading, good[index].reading
        if before is None or after is None:
            continue
        fell = any(
            (old := before.number(name)) is not None and (new := after.number(name)) is not None and new < old
            for name in _counter_fields()
        )
        count += fell or restarted(starts[index - 1], starts[index])
    return count


def _followed_flags(good: Sequence[Reads], times: Sequence[float]) -> list[str]:
    memory, flags = Continuity(), []
    timed = len(times) == len(good)
    for index, page in enumerate(good):
        at = times[index] if timed else index * _UNTIMED_GAP_S
        if page.reading is not None:
            memory, sample = follow(memory, to_sample(page.reading, at, ""), _FREEZE_S)
            flags = list(sample.flags)
    return [flag for flag in flags if flag in (FROZEN_FLAG, RANK_FLAG, WORKERS_FLAG)] + (
        ["engine_changed"] if memory.changed_at is not None else []
    )


def _missing(reading: Reading) -> dict[str, str]:
    """Essential facts that are not there, and which families would have told them."""
    dialect = next((d for d in DIALECTS if d.engine == reading.engine), None)
    if dialect is None:
        return {}
    return {
        name: _families(dialect, name)
        for name in ESSENTIAL
        if name not in reading.values and name not in reading.unknown
    }


def _families(dialect: Dialect, name: str) -> str:
    rows: list[Field] = [row for row in dialect.fields if row.name == name]
    names = [f"{n.family} ({n.versions})" if n.versions else n.family for row in rows for n in row.names]
    return "looked for " + ", ".join(names) if names else f"{dialect.title} does not tell it"


def hints(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What an operator can do about what is missing."""
    dialect = next((d for d in DIALECTS if d.engine == report["engine"]), None)
    return dialect.hints if dialect is not None and report["missing"] else ()
