"""What could be reused if the prompt were put in order: shared text first in one order, volatile text last.

Works on rows of one family. It is an upper bound: no claim that a model answers the same. The trap: cold starts of
variants that return (tenants, profiles) are the price of having variants and no defect.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass

from opsconsole.lint.reuse import EngineRule, RadixTree
from opsconsole.lint.rows import Row

SHARES = (0.9, 0.5, 0.05)
MAX_ROWS = 3000
MAX_VARIANTS = 6  # more of them (users, say) are values in the wrong place, not variants of a prompt


@dataclass(frozen=True, slots=True)
class Gains:
    """Tokens that could be reused per row (those looked at), and which rows gain enough to count."""

    rows: list[Row]
    possible: list[int]
    gaining: list[int]  # positions in rows
    scale: float = 1.0  # requests of the family per row looked at

    @property
    def share(self) -> float:
        return len(self.gaining) / len(self.rows) if self.rows else 0.0

    @property
    def tokens(self) -> int:
        return int(
            self.scale * sum(max(0, best - row.reused) for best, row in zip(self.possible, self.rows, strict=True))
        )

    @property
    def touched(self) -> int:
        """Requests of the whole family that gain, extrapolated from the rows looked at."""
        return round(len(self.gaining) * self.scale)


def counterfactual(family: list[Row], rule: EngineRule, min_tokens: int, min_share: float) -> Gains:
    """Reuse of a family's rows in their best order among three."""
    rows = family[:MAX_ROWS]
    counts: Counter[int] = Counter()
    first: dict[int, int] = {}
    sizes: dict[int, int] = {}
    numbered = [_numbered(row.units) for row in rows]
    for row, units in zip(rows, numbered, strict=True):
        counts.update(units)
        for unit, size in zip(units, row.tokens, strict=True):
            if unit not in first:
                first[unit] = len(first)
                sizes[unit] = size
    best = [row.reused for row in rows]
    best_total = sum(best)
    best_share = SHARES[0]
    for share in SHARES:
        floor = max(2.0, share * len(rows))
        shared = {unit for unit, count in counts.items() if count >= floor}
        made = _reuse(rows, numbered, shared, first, sizes, rule)
        if sum(made) > best_total:
            best, best_total, best_share = made, sum(made), share
    gaining = [
        at
        for at, row in enumerate(rows)
        if best[at] - row.reused >= min_tokens and best[at] - row.reused >= min_share * row.total
    ]
    returning = _returning(rows, counts, set(gaining))
    if len(returning) <= MAX_VARIANTS or best_share == SHARES[-1]:
        gaining = [at for at in gaining if _variant(rows[at]) not in returning]
    return Gains(rows, best, gaining, len(family) / len(rows))


def _reuse(
    rows: list[Row],
    numbered: list[array[int]],
    shared: set[int],
    first: dict[int, int],
    sizes: dict[int, int],
    rule: EngineRule,
) -> list[int]:
    tree = RadixTree(rule._replace(ttl_s=None))
    made: list[int] = []
    for row, units in zip(rows, numbered, strict=True):
        front = sorted((unit for unit in units if unit in shared), key=first.__getitem__)
        ordered = array("q", front)
        ordered.extend(unit for unit in units if unit not in shared)
        common = tree.add(ordered, row.total, row.request.salt or "")
        made.append(rule.reused(sum(map(sizes.__getitem__, ordered[:common])), row.total))
    return made


def _numbered(units: array[int]) -> array[int]:
    """Units with repeats told apart, so that a line said twice keeps both its places in the order."""
    if len(set(units)) == len(units):
        return units
    times: Counter[int] = Counter()
    made = array("q")
    for unit in units:
        made.append(unit if not times[unit] else hash((unit, times[unit])))
        times[unit] += 1
    return made


def _variant(row: Row) -> int | None:
    return row.units[row.common] if row.common < len(row.units) else None


def _returning(rows: list[Row], counts: Counter[int], gaining: set[int]) -> set[int]:
    """Diverging units that come back after another one was seen in between: variants, not volatile values."""
    candidates = {_variant(row) for row in rows if row.common < len(row.units)} - {None}
    last_seen: dict[int, int] = {}
    returned: set[int] = set()
    for at, row in enumerate(rows):
        for unit in candidates.intersection(row.units):
            assert unit is not None
            if unit in last_seen and at - last_seen[unit] > 1 and at not in gaining:
                returned.add(unit)
            last_seen[unit] = at
    # A unit of nearly every row returns trivially: it is stable text, and divergence there says nothing.
    return {unit for unit in returned if counts[unit] <= 0.7 * len(rows)}
