"""Many series to one value: labels are collapsed in a fixed order, and what is not whole is unknown.

Order: totals told beside their parts, then copies of one fact (`pid`, tensor ranks), then ranks. It must not know
engines; the dialect's table names the labels. The trap: adding copies. Eight API servers each repeat the gauge, and
every tensor-parallel rank may export the same requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from opsconsole.domain.records import Buckets
from opsconsole.observe.dialects.table import Dialect, Kind
from opsconsole.observe.exposition import Series

T = TypeVar("T")
Row = tuple[Series, float]
SENTINEL = 1e15  # above any count of ours; blanks of DCGM in 64 bits and broken exporters live there
SENTINEL_32 = range(2147483632, 2147483648)  # blanks of DCGM in 32 bits


class Scalar(NamedTuple):
    """A collapsed value; `value` None with the reason. `mean` only for occupancies."""

    value: float | None
    why: str = ""
    mean: float | None = None


def undivided(rows: Sequence[tuple[Series, T]], labels: tuple[str, ...]) -> Sequence[tuple[Series, T]]:
    """Where a label's empty value is the sum of the others, that one alone."""
    for label in labels:
        totals = [row for row in rows if row[0].labels.get(label) == ""]
        if totals:
            rows = totals
    return rows


def may_repeat(rows: Sequence[tuple[Series, T]], labels: tuple[str, ...]) -> bool:
    """Whether some may tell the same fact again; the series of one family bear the same labels."""
    return len(rows) > 1 and not all(row[0].labels.keys().isdisjoint(labels) for row in (rows[0], rows[-1]))


def without_copies(rows: Sequence[Row], labels: tuple[str, ...]) -> Sequence[Row]:
    """One row for each fact, the greatest of its copies."""
    if not may_repeat(rows, labels):
        return rows
    best: dict[frozenset[tuple[str, str]], Row] = {}
    for row in rows:
        key = frozenset(item for item in row[0].labels.items() if item[0] not in labels)
        kept = best.get(key)
        if kept is None or not row[1] <= kept[1]:  # NaN wins: an unknown copy is not silently dropped
            best[key] = row
    return list(best.values())


def parts_of(rows: Sequence[Row], dialect: Dialect) -> Sequence[Row]:
    """The rows that are parts of one whole, none told twice."""
    return without_copies(undivided(rows, dialect.total_labels), dialect.copy_labels)


def scalar(values: Sequence[float], kind: Kind, scale: float = 1.0) -> Scalar:
    """One number for a gauge or counter of its parts."""
    if not values:
        return Scalar(None, "no samples")
    if scale != 1.0:
        values = [value * scale for value in values]
    total = sum(values)
    if not total < math.inf or min(values) < 0:  # one that is not a number makes the sum so, too
        return Scalar(None, next(filter(None, map(_no_quantity, values)), "beyond all numbers"))
    if kind is Kind.MEAN:
        return Scalar(total / len(values))
    if kind is Kind.OCCUPANCY or kind is Kind.RATIO:
        if max(values) > 1.001:
            return Scalar(None, f"{max(values):g} is not a share between 0 and 1")
        mean = total / len(values)
        return Scalar(max(values), "", mean) if kind is Kind.OCCUPANCY else Scalar(mean)
    if kind is Kind.LEVEL:
        return Scalar(max(values))
    if kind is Kind.GAUGE and total >= SENTINEL:
        return Scalar(None, f"{total:g} stands for unknown")
    return Scalar(total)


def _no_quantity(value: float) -> str:
    if value != value:
        return "not a number"
    return f"{value:g} stands for unknown" if value < 0 or value == math.inf else ""


def totals(keys: Sequence[str | None], values: Sequence[float]) -> dict[str, float] | None:
    """Values added up by key; None where a key or a value is unknown, or nothing is there."""
    found: dict[str, float] = {}
    for key, value in zip(keys, values, strict=True):
        if key is None or value != value or value < 0:
            return None
        found[key] = found.get(key, 0.0) + value
    return found or None


def each(
    keys: Sequence[str | None], values: Sequence[float], scale: float, limit: float | None
) -> tuple[dict[str, float], int]:
    """A gauge for each value of a label, and how many were blank: those have no entry."""
    found: dict[str, float] = {}
    blank = 0
    for key, value in zip(keys, values, strict=True):
        scaled = value * scale
        told = 0 <= value < SENTINEL and value not in SENTINEL_32 and (limit is None or scaled <= limit)
        if key is None or not told:
            blank += 1
        else:
            found[key] = found.get(key, 0.0) + scaled
    return found, blank


def key_of(series: Series, labels: tuple[str, ...]) -> str | None:
    """What stands in the first of the labels that is there."""
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
    rows, sums, counts = (parts_of(found, dialect) for found in (rows, sums, counts))
    return _aligned(rows, total_of([v for _, v in counts]), total_of([v for _, v in sums]))


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


def total_of(values: Sequence[float]) -> float | None:
    """Their sum; None where there are none, or one of them cannot be a total."""
    total = sum(values)
    return total if values and 0 <= total < math.inf else None
