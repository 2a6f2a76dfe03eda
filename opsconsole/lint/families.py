"""Groups requests that share a prompt, by the segments they share and not by their first tokens.

Works on rows. A clock at the first character therefore does not split a family, and two tenants with prompts of their
own are two. The trap: histories differ between conversations, so heads (tools and system text) decide where they are
long enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from opsconsole.lint.rows import Row

MIN_HEAD_TOKENS = 64
MAX_FAMILIES = 400


@dataclass(slots=True)
class _Core:
    segments: frozenset[int]
    weight: int
    merges: int = 0


def _features(row: Row) -> tuple[frozenset[int], dict[int, int]]:
    end = row.head if sum(row.tokens[: row.head]) >= MIN_HEAD_TOKENS else len(row.units)
    least = 0 if row.request.tokens is not None else 3  # headers say nothing; single token ids are all there is
    weights = {unit: size for unit, size in zip(row.units[:end], row.tokens[:end], strict=True) if size > least}
    return frozenset(weights), weights


def group(rows: list[Row]) -> list[list[Row]]:
    """Families in order of their first request; every row is in exactly one."""
    cores: list[_Core] = []
    owners: dict[int, int] = {}
    families: list[list[Row]] = []
    memo: dict[tuple[int, bytes], int] = {}
    for row in rows:
        key = (row.head, row.units[: row.head].tobytes()) if row.head else (0, b"")
        known = memo.get(key) if row.head else None
        if known is None:
            known = _place(row, cores, owners)
            if known == len(families):
                families.append([])
            if row.head and len(memo) < 50_000:
                memo[key] = known
        row.family = known
        families[known].append(row)
    return families


def _place(row: Row, cores: list[_Core], owners: dict[int, int]) -> int:
    segments, weights = _features(row)
    votes: Counter[int] = Counter()
    for unit in segments:
        owner = owners.get(unit)
        if owner is not None:
            votes[owner] += weights[unit]
    total = sum(weights.values())
    for at, _ in sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:3]:
        core = cores[at]
        common = core.segments & segments
        weight = sum(weights[unit] for unit in common)
        if weight and weight >= 0.5 * min(core.weight, total):
            if core.merges < 3 and weight >= MIN_HEAD_TOKENS // 2:
                core.segments, core.weight = common, weight
            core.merges += 1
            return at
    if len(cores) >= MAX_FAMILIES:
        return 0
    cores.append(_Core(segments, total))
    for unit in segments:
        owners.setdefault(unit, len(cores) - 1)
    return len(cores) - 1
