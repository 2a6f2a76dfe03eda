"""What cold starts cost: the time replicas of a pool spent in each start-up phase over the last day.

A pure fold over ticks, in bins of a quarter of an hour. It must not know GPUs; a reader multiplies by how many a
replica holds. The trap: a gap between ticks (an agent that slept) is not time in a phase, so one tick credits a minute
at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsconsole.domain.records import PoolView

BIN_S = 900.0
KEEP_S = 86_400.0
LONGEST_TICK_S = 60.0


@dataclass(frozen=True, slots=True)
class Starts:
    """Replica-seconds by phase; bins are (start, phase -> seconds), oldest first."""

    bins: tuple[tuple[float, Mapping[str, float]], ...] = ()
    since: float | None = None
    last: float | None = None
    _total: Mapping[str, float] = field(default_factory=dict)

    def add(self, at: float, phases: Sequence[str]) -> Starts:
        """One tick: every starting replica spent the time since the last one in its phase."""
        since = at if self.since is None else max(self.since, at - KEEP_S)
        elapsed = 0.0 if self.last is None else min(LONGEST_TICK_S, max(0.0, at - self.last))
        kept = tuple(b for b in self.bins if b[0] > at - KEEP_S - BIN_S)
        if not phases or not elapsed:
            return Starts(kept, since, at, self._total if len(kept) == len(self.bins) else _summed(kept))
        start = at - at % BIN_S
        spent = dict(kept[-1][1]) if kept and kept[-1][0] == start else {}
        for phase in phases:
            spent[phase] = spent.get(phase, 0.0) + elapsed
        older = kept[:-1] if kept and kept[-1][0] == start else kept
        bins = (*older, (start, spent))
        return Starts(bins, since, at, _summed(bins))

    def told(self, view: PoolView) -> PoolView:
        """The pool with what its starts cost."""
        return replace(view, start_s=self._total, start_since=self.since)


def _summed(bins: Sequence[tuple[float, Mapping[str, float]]]) -> Mapping[str, float]:
    total: dict[str, float] = {}
    for _, spent in bins:
        for phase, seconds in spent.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total
