"""Many series to one value: labels are collapsed in a fixed order, and what is not whole is unknown.

Order: totals told beside their parts, then copies of one fact (`pid`, tensor ranks), then ranks. It must not know
engines; the dialect's table names the labels. The trap: adding copies. Eight API servers each repeat the gauge, and
every tensor-parallel rank may export the same requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opsconsole.domain.records import Buckets
from opsconsole.observe.dialects.table import Dialect, Kind
from opsconsole.observe.exposition import Series

Row = tuple[Series, float]
SENTINEL = 1e15  # above any count of ours; blanks of DCGM in 64 bits and broken exporters live there
SENTINEL_32 = range(2147483632, 2147483648)  # blanks of DCGM in 32 bits


class Scalar(NamedTuple):
    """A collapsed value; `value` None with the reason. `mean` only for occupancies."""

    value: float | None
    why: str = ""
    mean: float | None = None


def undivided(rows: Sequence[Row], labels: tuple[str, ...]) -> Sequence[Row]:
    """Where a label's empty value is the sum of the others, that one alone."""
    for label in labels:
        totals = [row for row in rows if row[0].labels.get(label) == ""]
        if totals:
            rows = totals
    return rows


def without_copies(rows: Sequence[Row], labels: tuple[str, ...]) -> Sequence[Row]:
    """One row for each fact, the greatest of its copies."""
    if not rows or (rows[0][0].labels.keys().isdisjoint(labels) and rows[-1][0].labels.keys().isdisjoint(labels)):
        return rows  # the series of one family bear the same labels
    best: dict[frozenset[tuple[str, str]], Row] = {}
    for row in rows:
        key = frozenset(item for item in row[0].labels.items() if item[0] not in labels)
        kept = best.get(key)
        if kept is None or not row[1] <= kept[1]:  # NaN wins: an unknown copy is not silently dropped
            best[key] = row
    return list(best.values())


def scalar(rows: Sequence[Row], kind: Kind, dialect: Dialect, scale: float = 1.0) -> Scalar:
    """One number for a gauge or counter over every series of its family."""
    if not rows:
        return Scalar(None, "no samples")
    if len(rows) > 1:
        rows = without_copies(undivided(rows, dialect.total_labels), dialect.copy_labels)
    values = [value * scale for _, value in rows]
    for value in values:
        if value != value:
            return Scalar(None, "not a number")
        if value < 0 or value == math.inf:
            return Scalar(None, f"{value:g} stands for unknown")
    if kind is Kind.MEAN:
        return Scalar(sum(values) / len(values))
    if kind is Kind.OCCUPANCY or kind is Kind.RATIO:
        if max(values) > 1.001:
            return Scalar(None, f"{max(values):g} is not a share between 0 and 1")
        mean = sum(values) / len(values)
        return Scalar(max(values), "", mean) if kind is Kind.OCCUPANCY else Scalar(mean)
    if kind is Kind.LEVEL:
        return Scalar(max(values))
    total = sum(values)
    if kind is Kind.GAUGE and total >= SENTINEL:
        return Scalar(None, f"{total:g} stands for unknown")
    return Scalar(total)


def breakdown(rows: Sequence[Row], labels: tuple[str, ...], dialect: Dialect) -> dict[str, float] | None:
    """Totals for each value of a label; `labels` are alternatives, `a+b` joins two by a slash."""
    rows = without_copies(undivided(rows, dialect.total_labels), dialect.copy_labels)
    totals: dict[str, float] = {}
    for series, value in rows:
        key = _key(series, labels)
        if key is None or value != value or value < 0:
            return None
        totals[key] = totals.get(key, 0.0) + value
    return totals or None


def each(
    rows: Sequence[Row], labels: tuple[str, ...], dialect: Dialect, scale: float, limit: float | None
) -> tuple[dict[str, float], int]:
    """A gauge for each value of a label, and how many were blank: those have no entry."""
    found: dict[str, float] = {}
    blank = 0
    for series, value in without_copies(undivided(rows, dialect.total_labels), dialect.copy_labels):
        key = _key(series, labels)
        scaled = value * scale
        told = 0 <= value < SENTINEL and value not in SENTINEL_32 and (limit is None or scaled <= limit)
        if key is None or not told:
            blank += 1
        else:
            found[key] = found.get(key, 0.0) + scaled
    return found, blank


def _key(series: Series, labels: tuple[str, ...]) -> str | None:
    for label in labels:
        parts = [series.labels.get(part) for part in label.split("+")]
        if None not in parts:
            return "/".join(part for part in parts if part is not None)
    return None


_BOUNDS: dict[tuple[float, ...], tuple[float, ...]] = {}
_BOUNDS_KEPT = 1000


def shared_bounds(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """The one tuple of this layout: layouts repeat over replicas and scrapes."""
    return _BOUNDS.setdefault(bounds, bounds) if len(_BOUNDS) < _BOUNDS_KEPT else _BOUNDS.get(bounds, bounds)


def buckets(
    rows: Sequence[Row], sums: Sequence[Row], counts: Sequence[Row], dialect: Dialect
) -> tuple[Buckets | None, str]:
    """One cumulative histogram: aligned by the value of `le`, added over ranks; None with the reason."""
    rows = without_copies(undivided(rows, dialect.total_labels), dialect.copy_labels)
    sums = without_copies(undivided(sums, dialect.total_labels), dialect.copy_labels)
    counts = without_copies(undivided(counts, dialect.total_labels), dialect.copy_labels)
    return _aligned(rows, total_of(v for _, v in counts), total_of(v for _, v in sums))


def _aligned(rows: Sequence[Row], count: float | None, total: float | None) -> tuple[Buckets | None, str]:
    """Buckets in any order and of several groups, by the value of their bound."""
    by_bound: dict[float, float] = {}
    groups: dict[float, int] = {}
    for series, value in rows:
        bound = series.le
        if bound is None or bound != bound or value != value or value < 0:
            return None, "a bucket without a readable bound or count"
        by_bound[bound] = by_bound.get(bound, 0.0) + value
        groups[bound] = groups.get(bound, 0) + 1
    if math.inf not in by_bound:
        if count is None:
            return None, "neither a +Inf bucket nor a count"
        by_bound[math.inf] = count
        groups[math.inf] = max(groups.values(), default=1)
    bounds = tuple(sorted(by_bound)) if len(rows) == len(groups) else _shared(groups, groups[math.inf])
    return checked(shared_bounds(bounds), tuple([by_bound[bound] for bound in bounds]), count, total)


def checked(
    bounds: tuple[float, ...], found: tuple[float, ...], count: float | None, total: float | None
) -> tuple[Buckets | None, str]:
    """Cumulative counts that are whole: known, never falling, and no other than the count told."""
    whole = sum(found)
    if whole != whole or found[0] < 0:
        return None, "a bucket without a readable bound or count"
    if list(found) != sorted(found):
        return None, "cumulative counts fall"
    if count is not None and abs(count - found[-1]) > max(2.0, 0.01 * count):  # a scrape may fall between the two
        return None, "its count is not its +Inf bucket"
    return Buckets(bounds, found, total), ""


def rescaled(found: Buckets, scale: float) -> Buckets:
    """The same histogram in another unit."""
    bounds = tuple(bound * scale for bound in found.bounds)
    return Buckets(bounds, found.counts, None if found.sum is None else found.sum * scale)


def _shared(groups: dict[float, int], most: int) -> tuple[float, ...]:
    """The bounds every group has; layouts differ between versions and are never merged by index."""
    return tuple(sorted(bound for bound, n in groups.items() if n == most))


def total_of(values: Iterable[float]) -> float | None:
    """Their sum; None where there are none, or one of them cannot be a total."""
    known = list(values)
    total = sum(known)
    return total if known and total == total and total >= 0 and total != math.inf else None
