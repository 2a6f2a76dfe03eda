"""Requests of a pool by SLO outcome over the last hour, in bins: what burn rates and budgets are read from.

It must not know replicas; they come and go while the budget of their pool stays. The trap: from marginal histograms the
joint share may only be bounded over a span long against a request, so bins keep the histograms and not the shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsconsole.domain import slo
from opsconsole.domain.histogram import merge
from opsconsole.domain.records import Buckets
from opsconsole.domain.track import Track

BIN_S = 60.0
_NOTHING = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Bin:
    """What one span saw: joint outcomes where told, the two marginals, and requests that never got an answer."""

    start: float = 0.0
    outcomes: Mapping[str, float] = field(default_factory=dict)
    told: bool = False  # joint counters were read
    ttft: Buckets | None = None
    tpot: Buckets | None = None
    failed: float = 0.0
    rejected: float = 0.0

    def __add__(self, other: Bin) -> Bin:
        return Bin(
            start=self.start,
            outcomes=_added((self.outcomes, other.outcomes)),
            told=self.told or other.told,
            ttft=merge((self.ttft, other.ttft)),
            tpot=merge((self.tpot, other.tpot)),
            failed=self.failed + other.failed,
            rejected=self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """The bins of one pool, oldest first, each `width` seconds wide."""

    bins: tuple[Bin, ...] = ()
    width: float = BIN_S

    def add(self, at: float, bin_: Bin, keep_s: float) -> Ledger:
        start = at - at % self.width
        stamped = replace(bin_, start=start)
        kept = tuple(b for b in self.bins if b.start > at - keep_s - self.width)
        if kept and kept[-1].start == start:
            return Ledger((*kept[:-1], kept[-1] + stamped), self.width)
        return Ledger((*kept, stamped), self.width)

    def over(self, at: float, seconds: float) -> Bin:
        """All bins that reach into the last `seconds`, as one."""
        found = Bin()
        for bin_ in self.bins:
            if bin_.start > at - seconds - self.width:
                found = found + bin_
        return found


def width_for(short_s: float) -> float:
    """Bins a fifth as wide as the short burn window, a minute at most: a window that has passed must be over."""
    return min(BIN_S, max(1.0, short_s / 5))


def observed(spans: Sequence[tuple[Track, float]]) -> Bin:
    """What replicas saw together, each since an instant of its own."""
    told = [outcomes for track, since in spans if (outcomes := track.outcomes(since)) is not None]
    return Bin(
        outcomes=_added(told),
        told=bool(told),
        ttft=merge([track.window("ttft", since) for track, since in spans]),
        tpot=merge([track.window("tpot", since) for track, since in spans]),
        failed=sum((track.amount("requests_failed", since) or _NOTHING)[0] for track, since in spans),
        rejected=sum((track.amount("requests_rejected", since) or _NOTHING)[0] for track, since in spans),
    )


def _added(many: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted({name for each in many for name in each})
    return {name: sum(each.get(name, 0.0) for each in many) for name in names}


def tally(bin_: Bin, name: str, ttft: float | None, tpot: float | None) -> slo.Tally | None:
    """How many requests of a class were offered and met. Exact where the joint counters are told; from marginals
    every class of a pool is judged on the same requests, for they carry no class."""
    if bin_.told:
        return slo.exact(bin_.outcomes.get(f"{name}/met", 0.0), bin_.outcomes.get(f"{name}/missed", 0.0))
    return slo.from_marginals(bin_.ttft, bin_.tpot, ttft, tpot, bin_.failed + bin_.rejected)
