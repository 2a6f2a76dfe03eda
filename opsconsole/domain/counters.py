"""Counters to increases: resets, restarts, gaps and first samples, so that a rate is right or unknown.

It must not know which counter it folds. The traps: a reset is a drop in value *or* a changed process start, and what
was counted since the reset is added, not thrown away; the first sample of a series is a baseline, never an increase;
two start times that alternate are two processes behind one address, which no arithmetic can repair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SAME_START_S = 1.0  # exporters round the process start


class Counter(NamedTuple):
    """One counter made monotone: `total` is the increase since it was first seen, across restarts."""

    total: float = 0.0
    raw: float | None = None  # last known reading
    resets: int = 0


def is_same(before: float | None, after: float | None) -> bool:
    """Whether two process starts are known to name one process."""
    return before is not None and after is not None and not restarted(before, after)


def restarted(before: float | None, after: float | None) -> bool:
    """Whether two process starts name two processes; unknown is not a restart."""
    return before is not None and after is not None and abs(after - before) > SAME_START_S


def alternates(starts: Iterable[float | None]) -> bool:
    """Whether an earlier process came back: several workers answer behind one address."""
    seen: list[float] = []
    for start in starts:
        if start is None or (seen and not restarted(seen[-1], start)):
            continue
        if any(not restarted(old, start) for old in seen):
            return True
        seen.append(start)
    return False


def advance(
    counter: Counter | None, value: float | None, *, restart: bool = False, same: bool = False
) -> Counter | None:
    """Fold one reading in. An unknown reading changes nothing; the first known one is the baseline.

    A worker that restarts between two readings has counted `value` since: 100 -> 130 (restart) -> adds 130, not 30.
    Where it is known to be the `same` process a drop is a part of a sum that left (a label, a rank), and what is left
    was counted before.
    """
    return counter if value is None else advanced(counter, value, restart=restart, same=same)


def advanced(counter: Counter | None, value: float, *, restart: bool = False, same: bool = False) -> Counter:
    """`advance` by a reading that is known."""
    if counter is None or counter.raw is None:
        return Counter(0.0 if counter is None else counter.total, value, 0 if counter is None else counter.resets)
    if restart or value < counter.raw:
        since = 0.0 if same and not restart else value
        return Counter(counter.total + since, value, counter.resets + 1)
    return Counter(counter.total + (value - counter.raw), value, counter.resets)


class Point(NamedTuple):
    """A counter's monotone total at one instant."""

    at: float
    total: float


def increase(ends: tuple[Point, Point] | None) -> tuple[float, float] | None:
    """(amount, seconds) between the oldest and the newest known point of a window; None where there are not two."""
    if ends is None or ends[1].at <= ends[0].at:
        return None
    return ends[1].total - ends[0].total, ends[1].at - ends[0].at
