"""Where things go, as a pure function of the terminal's size; any size from 1x1 has an answer.

It must not know what is drawn. The trap: a width of 0 or 1 is a real size while a window is being dragged, so every
result is at least zero and no caller may divide by one without looking.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Size(NamedTuple):
    """Cells across and down."""

    width: int
    height: int


class Form(IntEnum):
    """The four forms every screen comes in."""

    TINY = 0  # below 60x15: totals and the worst three
    SMALL = 1  # the 80x24 layouts
    WIDE = 2  # from 100 columns: trend and token columns
    PANELS = 3  # from 140 columns and 36 rows: framed panels side by side


def form(size: Size) -> Form:
    """Which form fits a terminal of this size."""
    if size.width < 60 or size.height < 15:
        return Form.TINY
    if size.width >= 140 and size.height >= 36:
        return Form.PANELS
    return Form.WIDE if size.width >= 100 else Form.SMALL


def shares(total: int, weights: Sequence[float], minimums: Sequence[int] = ()) -> tuple[int, ...]:
    """`total` cells divided by weight, each at least its minimum while they fit, summing to exactly `total`."""
    if not weights:
        return ()
    least = list(minimums) or [0] * len(weights)
    total = max(0, total)
    if sum(least) >= total:
        out, left = [], total
        for want in least:
            out.append(min(want, left))
            left -= out[-1]
        return tuple(out)
    spare, whole = total - sum(least), sum(weights) or 1
    out = [low + int(spare * weight / whole) for low, weight in zip(least, weights, strict=True)]
    out[-1] += total - sum(out)
    return tuple(out)


def scrolled(top: int, cursor: int | None, rows: int, visible: int) -> int:
    """The first visible row, moved as little as possible so that the cursor is seen and no space is wasted."""
    last = max(0, rows - max(0, visible))
    if cursor is not None and visible > 0:
        if cursor < top:
            top = cursor
        elif cursor >= top + visible:
            top = cursor - visible + 1
    return max(0, min(top, last))
