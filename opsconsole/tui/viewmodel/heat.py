"""A heat map of latency: time across, histogram buckets upwards, how many of a moment's requests fell into each.

It must not interpolate: rows are ranges between edges the engine counts at. The trap: edges may change with an engine's
version, so a past histogram whose edges differ from the newest is left out as a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from opsconsole.domain.records import Buckets
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, right
from opsconsole.tui.world import Look

LABEL = 8
Moments = Sequence[tuple[float, Buckets | None]]


def heat(moments: Moments, bound: float | None, cells: int, rows: int, look: Look) -> list[Line]:
    """The map, slowest at the top; the edge of the objective carries the word slo."""
    room = cells - LABEL - 1
    newest = next((b for _, b in reversed(moments) if b is not None and b.count > 0), None)
    if newest is None or room < 4 or rows < 3:
        return [(Cell(" no histogram of TTFT has come yet", "dim"),)] if newest is None else []
    columns = _columns(moments, newest.bounds, room)
    edges = _edges(columns, newest.bounds, bound, rows - 1)
    out: list[Line] = []
    for low, high in reversed(list(pairwise((-1, *edges, len(newest.bounds) - 1)))):
        if low == high:
            continue
        text = "".join(_shade(column, low, high, look) for column in columns)
        label, style = _label(newest.bounds, low, high, bound)
        over = bound is not None and low >= 0 and newest.bounds[low] >= bound
        out.append((Cell(right(label, LABEL) + look.glyphs.upright, style), Cell(text, "warn" if over else "spark")))
    return out


def _columns(moments: Moments, bounds: tuple[float, ...], room: int) -> list[list[float] | None]:
    """Cumulative shares by column; None where nothing was counted."""
    if not moments:
        return []
    start, end = moments[0][0], moments[-1][0]
    step = max(1e-9, (end - start) / room)
    spacing = 2 * (end - start) / max(1, len(moments) - 1)  # few moments: each fills the columns up to the next
    sums: list[list[float] | None] = [None] * room
    blank: set[int] = set()  # where a moment came and had nothing to show
    for at, buckets in moments:
        place = min(room - 1, int((at - start) / step))
        if buckets is None or buckets.bounds != bounds or buckets.count <= 0:
            blank.add(place)
            continue
        held = sums[place]
        sums[place] = (
            list(buckets.counts) if held is None else [a + b for a, b in zip(held, buckets.counts, strict=True)]
        )
    shown: list[list[float] | None] = [None if s is None else [value / s[-1] for value in s] for s in sums]
    age = 0.0
    for place in range(1, room):
        age = spacing if place in blank else age + step
        age = age if sums[place] is None else 0.0
        if shown[place] is None and age < spacing and step < spacing / 2:
            shown[place] = shown[place - 1]
    return shown


def _edges(
    columns: Sequence[list[float] | None], bounds: tuple[float, ...], bound: float | None, most: int
) -> list[int]:
    """Indices of the edges to draw: those inside which something moved, thinned to fit, the objective's always kept."""
    seen = [column for column in columns if column is not None]
    inside = [
        i for i in range(len(bounds) - 1)
        if any(column[i] > 0.001 for column in seen) and any(column[i] < 0.999 for column in seen)
    ]  # fmt: skip
    first = inside[0] if inside else 0
    last = min(len(bounds) - 2, (inside[-1] + 1) if inside else len(bounds) - 2)
    wanted = list(range(first, last + 1))
    kept = next((i for i in range(len(bounds) - 1) if bound is not None and bounds[i] >= bound), None)
    if kept is not None and kept not in wanted:
        wanted = sorted([*wanted, kept])
    while len(wanted) > max(1, most):
        gaps = [
            (wanted[j + 1] - wanted[j - 1] if 0 < j < len(wanted) - 1 else len(bounds), j) for j in range(len(wanted))
        ]
        victims = [(gap, j) for gap, j in gaps if wanted[j] != kept] or gaps
        wanted.pop(min(victims)[1])
    return wanted


def _shade(column: list[float] | None, low: int, high: int, look: Look) -> str:
    if column is None:
        return " "
    share = column[high] - (column[low] if low >= 0 else 0.0)
    shades = look.glyphs.shades
    return shades[0] if share < 0.005 else shades[min(4, 1 + int(share * 6))]


def _label(bounds: tuple[float, ...], low: int, high: int, bound: float | None) -> tuple[str, str]:
    if high == len(bounds) - 1:
        return f">{fmt.bound(bounds[low])}" if low >= 0 else "all", "dim"
    text = fmt.bound(bounds[high])
    if bound is not None and bounds[high] == bound:
        return f"slo {text}", "warn"
    return text, "dim"
