"""What only several pages tell: gauges that froze, a rank that hangs, an engine that changed, workers that alternate.

Pure folds over samples of one replica. It must not judge health; it only adds flags to a sample. The trap: load
without movement is normal for a few seconds (one long prefill), so a gauge is called frozen by scrapes and by time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opsconsole.domain.counters import alternates, restarted
from opsconsole.domain.ranks import Standing, stalled, stood
from opsconsole.domain.records import Sample

FROZEN_FLAG = "stale_or_stalled"
RANK_FLAG = "rank_stalled"
WORKERS_FLAG = "multi_worker_registry"
CHANGED_FLAG = "engine_changed"
FROZEN_SCRAPES = 2  # pages that show the same counters
_STARTS_KEPT = 8
DEFAULT_FREEZE_S = 15.0

# what an engine's own steps move; arrivals and rejections are counted in front of an engine that hangs
_COUNTERS = (
    "preemptions", "prompt_tokens", "output_tokens", "requests_finished", "requests_failed", "prefix_hits",
    "prefix_queries", "spec_drafts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Continuity:
    """What is remembered of one replica between its pages."""

    engine: str | None = None
    counters: tuple[float | None, ...] | None = None
    unmoved_since: float | None = None
    unmoved_pages: int = 0
    starts: tuple[float, ...] = ()
    changed_at: float | None = None
    changed_from: str | None = None
    ranks: Mapping[str, Standing] = field(default_factory=dict)


def follow(memory: Continuity, sample: Sample, freeze_s: Mapping[str, float]) -> tuple[Continuity, Sample]:
    """One more page of the same address. `freeze_s` gives each engine's patience."""
    memory = _engine(memory, sample)
    memory = _movement(memory, sample)
    memory = _starts(memory, sample)
    if sample.ranks or memory.ranks:
        memory = replace(memory, ranks=stood(memory.ranks, sample))
    flags = list(sample.flags)
    if is_frozen(memory, sample, freeze_s):
        flags.append(FROZEN_FLAG)
    if memory.ranks and stalled(memory.ranks, sample.at, _patience(sample, freeze_s)):
        flags.append(RANK_FLAG)
    if alternates(memory.starts):
        flags.append(WORKERS_FLAG)
    if memory.changed_at == sample.at:
        flags.append(CHANGED_FLAG)
    return memory, sample if len(flags) == len(sample.flags) else replace(sample, flags=tuple(flags))


def is_frozen(memory: Continuity, sample: Sample, freeze_s: Mapping[str, float]) -> bool:
    """Load is shown, no counter moves: neither idle nor routable."""
    loaded = any((gauge or 0.0) > 0 for gauge in (sample.running, sample.waiting))
    if not loaded or memory.unmoved_since is None or memory.unmoved_pages < FROZEN_SCRAPES:
        return False
    return sample.at - memory.unmoved_since >= _patience(sample, freeze_s)


def _patience(sample: Sample, freeze_s: Mapping[str, float]) -> float:
    return freeze_s.get(sample.engine or "", DEFAULT_FREEZE_S)


def _engine(memory: Continuity, sample: Sample) -> Continuity:
    if sample.engine is None or memory.engine == sample.engine:
        return memory
    if memory.engine is None:
        return replace(memory, engine=sample.engine)
    return Continuity(engine=sample.engine, changed_at=sample.at, changed_from=memory.engine)


def _movement(memory: Continuity, sample: Sample) -> Continuity:
    counters = tuple(getattr(sample, name) for name in _COUNTERS)
    if all(value is None for value in counters):
        return replace(memory, counters=None, unmoved_since=None, unmoved_pages=0)
    if counters == memory.counters and memory.unmoved_since is not None:
        return replace(memory, unmoved_pages=memory.unmoved_pages + 1)
    return replace(memory, counters=counters, unmoved_since=sample.at, unmoved_pages=1)


def _starts(memory: Continuity, sample: Sample) -> Continuity:
    start = sample.process_start
    if start is None or (memory.starts and not restarted(memory.starts[-1], start)):
        return memory
    return replace(memory, starts=(*memory.starts, start)[-_STARTS_KEPT:])
