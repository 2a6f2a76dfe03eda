"""Cumulative histograms: differences, merges, quantiles, and the share of requests under a bound as an interval.

It must not know what is measured. The traps: bucket layouts differ by engine version, so buckets are matched by their
bound and never by position; a quantile that falls beyond the last finite bound is only known to be at least that.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add as plus
from operator import lt, sub

from opsconsole.domain.records import Buckets, Interval, LatencyView

P99_NEEDS = 100  # observations below which a p99 is one request's story


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile in the histogram's unit; `lower_bound` when it lies beyond the last finite bucket."""

    value: float
    lower_bound: bool


def is_sound(buckets: Buckets) -> bool:
    """Whether the bounds ascend to +Inf and the counts never fall."""
    bounds, counts = buckets.bounds, buckets.counts
    return bool(bounds) and len(bounds) == len(counts) and _ascends_to_infinity(bounds) and _never_falls(counts)


@lru_cache(maxsize=512)  # layouts are few, and every page of every replica has them
def _ascends_to_infinity(bounds: tuple[float, ...]) -> bool:
    return math.isinf(bounds[-1]) and all(map(lt, bounds, bounds[1:]))


def _never_falls(counts: tuple[float, ...]) -> bool:
    """Cumulative, known and not negative. Sorting what is sorted is the quickest way to see that it is."""
    total = sum(counts)
    return counts[0] >= 0 and total == total and [*counts] == sorted(counts)


def discard_reason(buckets: Buckets, finished: float | None = None) -> str | None:
    """Why a histogram cannot be believed, or None. `finished` is the number of requests it should have counted."""
    if not is_sound(buckets):
        return "its buckets are not cumulative"
    return _implausible(buckets) or _unlike(buckets, finished)


def _implausible(buckets: Buckets) -> str | None:
    if buckets.count > 0 and buckets.sum is not None and buckets.sum / buckets.count < 1e-7:
        return f"it counts {buckets.count:g} observations that sum to nothing"
    return None


def _unlike(buckets: Buckets, finished: float | None) -> str | None:
    if finished is not None and finished >= 10 and not 0.5 <= buckets.count / finished <= 2.0:
        return f"it counts {buckets.count:g} observations for {finished:g} finished requests"
    return None


def difference(old: Buckets, new: Buckets) -> Buckets | None:
    """What was observed between two readings of one process; all of `new` after a reset; None if layouts differ."""
    if old.bounds != new.bounds:
        return None
    counts = tuple(map(sub, new.counts, old.counts))
    if min(counts, default=0.0) < 0:
        return new
    total = None if old.sum is None or new.sum is None else max(0.0, new.sum - old.sum)
    return Buckets(new.bounds, counts, total)


def observed_between(old: Buckets, new: Buckets) -> Buckets | None:
    """`difference` of two sound readings, or None where no process can have observed it."""
    found = difference(old, new)
    return found if found is not None and _never_falls(found.counts) and _implausible(found) is None else None


def add(one: Buckets, other: Buckets) -> Buckets:
    """Both together, on the bounds they share. Cumulative counts at a shared bound add exactly."""
    total = None if one.sum is None or other.sum is None else one.sum + other.sum
    if one.bounds == other.bounds:
        return Buckets(one.bounds, tuple(map(plus, one.counts, other.counts)), total)
    mine = dict(zip(one.bounds, one.counts, strict=True))
    theirs = dict(zip(other.bounds, other.counts, strict=True))
    shared = tuple(bound for bound in one.bounds if bound in theirs)
    return Buckets(shared, tuple(mine[b] + theirs[b] for b in shared), total)


def merge(many: Iterable[Buckets | None]) -> Buckets | None:
    """One histogram of many replicas; unknown ones are left out, None if nothing is left."""
    known = [buckets for buckets in many if buckets is not None]
    if len(known) < 2:
        return known[0] if known else None
    bounds = known[0].bounds
    if any(buckets.bounds != bounds for buckets in known):
        return reduce(add, known)
    sums = [buckets.sum for buckets in known if buckets.sum is not None]
    counts = tuple(map(sum, zip(*(buckets.counts for buckets in known), strict=True)))
    return Buckets(bounds, counts, sum(sums) if len(sums) == len(known) else None)


def quantile(buckets: Buckets, q: float) -> Quantile | None:
    """Linear inside the bucket, as Prometheus does it; None when nothing was observed."""
    total = buckets.count
    return Quantile(*_at_rank(buckets, q * total)) if total > 0 and 0 <= q <= 1 else None


def _at_rank(buckets: Buckets, rank: float) -> tuple[float, bool]:
    """The value below which `rank` observations lie, and whether it is only known to be at least that."""
    counts, bounds = buckets.counts, buckets.bounds
    at = bisect_left(counts, rank) if rank > 0 else bisect_right(counts, 0.0)
    below, start = (counts[at - 1], bounds[at - 1]) if at else (0.0, 0.0)
    if math.isinf(bounds[at]):
        return start, True
    return start + (bounds[at] - start) * (rank - below) / (counts[at] - below), False


def share_under(buckets: Buckets, bound: float) -> Interval | None:
    """The share of observations <= bound: exact at a bucket's edge, else between its two neighbours."""
    counts, total = buckets.counts, buckets.count
    if total <= 0:
        return None
    above = bisect_left(buckets.bounds, bound)  # the first edge not below it
    high = counts[above] / total if above < len(counts) else 1.0
    if above < len(counts) and buckets.bounds[above] == bound:
        return Interval(high, high)
    return Interval(counts[above - 1] / total if above else 0.0, high)


def latency(buckets: Buckets | None) -> LatencyView:
    """The quantiles a screen shows; p99 only from enough observations."""
    count = 0.0 if buckets is None else buckets.count
    if buckets is None or count <= 0:
        return LatencyView()
    p50, p95 = _at_rank(buckets, 0.5 * count), _at_rank(buckets, 0.95 * count)
    p99 = _at_rank(buckets, 0.99 * count) if count >= P99_NEEDS else None
    return LatencyView(p50[0], p95[0], None if p99 is None else p99[0], count, p95[1] or (p99 is not None and p99[1]))
