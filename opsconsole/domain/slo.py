"""Service levels: attainment as an interval, burn rate, budget and goodput.

It must not know where the counts come from. The trap: attainment is joint. The product of the share inside TTFT and the
share inside TPOT is not attainment; from two marginal shares only a bound exists, and it is shown as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opsconsole.domain.histogram import share_under
from opsconsole.domain.records import Buckets, Interval

SMALLEST_BUDGET = 1e-4  # a target of 100 % is judged as 99.99 %, or one miss would burn infinitely


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests of one class in some span: offered, and how many met every bound, at least and at most."""

    offered: float = 0.0
    met_low: float = 0.0
    met_high: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.offered + other.offered, self.met_low + other.met_low, self.met_high + other.met_high)

    @property
    def attainment(self) -> Interval | None:
        """None when nothing was offered: no traffic is not a perfect score, and not a bad one."""
        if self.offered <= 0:
            return None
        return Interval(_share(self.met_low / self.offered), _share(self.met_high / self.offered))


def exact(met: float, missed: float) -> Tally:
    """From the joint counters, which count a failed or refused request as missed."""
    return Tally(met + missed, met, met)


def joint_bound(one: Interval, other: Interval) -> Interval:
    """What two marginal shares say of the joint one: [max(0, a + b - 1), min(a, b)]."""
    return Interval(max(0.0, one.low + other.low - 1.0), min(one.high, other.high))


def from_marginals(
    ttft: Buckets | None,
    tpot: Buckets | None,
    ttft_bound: float | None,
    tpot_bound: float | None,
    failed: float = 0.0,
) -> Tally | None:
    """A bound from separate histograms. None when a bounded latency has no histogram; failures did not meet.

    Approximate by nature: TTFT is counted at the first token and TPOT at the end. Requests of one token have no TPOT;
    the interval of the TTFT alone then stands.
    """
    shares: list[Interval] = []
    counts: list[float] = []
    for buckets, bound in ((ttft, ttft_bound), (tpot, tpot_bound)):
        if bound is None:
            continue
        if buckets is None:
            return None
        share = share_under(buckets, bound)
        if share is not None:
            shares.append(share)
            counts.append(buckets.count)
    if not shares:
        return Tally(failed, 0.0, 0.0) if ttft_bound is not None or tpot_bound is not None else None
    joint = shares[0] if len(shares) == 1 else joint_bound(shares[0], shares[1])
    count = max(counts)
    return Tally(count + failed, joint.low * count, joint.high * count)


def burn_rate(tally: Tally, target: float) -> float | None:
    """How many times faster than evenly the budget is spent, from the upper end: an alarm must be sure of itself."""
    share = tally.attainment
    if share is None:
        return None
    return (1.0 - share.high) / max(SMALLEST_BUDGET, 1.0 - target)


def budget_left(tally: Tally, target: float) -> float | None:
    """The fraction of allowed misses not yet used, 0 when overspent."""
    burned = burn_rate(tally, target)
    return None if burned is None else max(0.0, 1.0 - burned)


def goodput(tally: Tally, seconds: float) -> float | None:
    """Requests a second that met every bound, the sure part."""
    return tally.met_low / seconds if seconds > 0 else None


def total(tallies: Iterable[Tally | None]) -> Tally | None:
    """Several tallies as one; None if none is known."""
    known = [t for t in tallies if t is not None]
    if not known:
        return None
    sum_ = Tally()
    for tally in known:
        sum_ = sum_ + tally
    return sum_


def _share(x: float) -> float:
    return min(1.0, max(0.0, x))
