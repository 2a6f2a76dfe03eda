"""Small drawings in cells: sparklines, bars, rules, framed panels, charts over time.

It must not know what the numbers mean. A missing value is a gap, never a zero. The trap: a scale taken from the data
alone makes a flat line of noise look like a storm, so callers give the scale wherever a natural one exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opsconsole.tui.cells import Cell, Line, cut, fit, left, line_width, width
from opsconsole.tui.format import known
from opsconsole.tui.memo import kept_by
from opsconsole.tui.theme import Glyphs

Series = Sequence[float | None]


def bounds(values: Iterable[float | None], low: float | None = None, high: float | None = None) -> tuple[float, float]:
    """The scale of a chart: what is given, else what is seen; never of zero height."""
    seen = [v for v in map(known, values) if v is not None]
    bottom = low if low is not None else min(seen, default=0.0)
    top = high if high is not None else max(seen, default=1.0)
    return (bottom, top) if top > bottom else (bottom, bottom + 1.0)


def resample(values: Series, cells: int) -> list[float | None]:
    """The newest values in `cells` columns: the last ones when there are too few, means of groups when too many."""
    if cells <= 0:
        return []
    if len(values) <= cells:
        return [None] * (cells - len(values)) + list(values)
    out: list[float | None] = []
    for column in range(cells):
        group = values[column * len(values) // cells : (column + 1) * len(values) // cells]
        seen = [v for v in map(known, group) if v is not None]
        out.append(sum(seen) / len(seen) if seen else None)
    return out


def stretched(values: Series, cells: int) -> list[float | None]:
    """The same for a chart that spans all there is: few values fill the columns up to the next one."""
    if not 1 < len(values) < cells:
        return resample(values, cells)
    return [values[column * len(values) // cells] for column in range(cells)]


def spark(values: Series, cells: int, glyphs: Glyphs, low: float | None = 0.0, high: float | None = None) -> str:
    """One row of heights; a gap where nothing is known."""
    columns = resample(values, cells)
    bottom, top = bounds(columns, low, high)
    out = []
    for raw in columns:
        value = known(raw)
        if value is None:
            out.append(glyphs.gap)
            continue
        level = int((value - bottom) / (top - bottom) * 7.999)
        out.append(glyphs.levels[max(0, min(7, level))])
    return "".join(out)


def bar(fraction: float | None, cells: int, glyphs: Glyphs) -> str:
    """A horizontal bar of at most `cells`, in eighths where the font has them; empty when unknown."""
    fraction = known(fraction)
    if fraction is None or cells <= 0:
        return " " * max(0, cells)
    eighths = round(max(0.0, min(1.0, fraction)) * cells * 8)
    full, rest = divmod(eighths, 8)
    text = glyphs.bar[-1] * full
    if rest and glyphs is not None and glyphs.name != "ascii":
        text += glyphs.bar[rest - 1]
    elif rest >= 4:
        text += glyphs.bar[0]
    return left(text, cells)


def rule(title: str, cells: int, right_title: str = "", style: str = "dim") -> Line:
    """A titled line between sections: `--[title]------[right]-`."""
    start = f"--[{title}]" if title else ""
    end = f"[{right_title}]-" if right_title else ""
    middle = cells - width(start) - width(end)
    if middle < 1:
        return fit((Cell(cut(start, cells), style),), cells)
    return (Cell(start + "-" * middle + end, style),)


def framed(title: str, lines: Sequence[Line], cells: int, rows: int, glyphs: Glyphs, style: str = "box") -> list[Line]:
    """A panel of exactly `cells` x `rows` with a frame and a title; what does not fit is cut."""
    return list(_framed(title, tuple(lines), cells, rows, glyphs, style))


@kept_by(lambda *given: given)
def _framed(title: str, lines: Sequence[Line], cells: int, rows: int, glyphs: Glyphs, style: str) -> tuple[Line, ...]:
    if rows <= 0 or cells <= 0:
        return ()
    if cells < 4 or rows < 3:
        return (*(fit(line, cells) for line in lines[:rows]), *([fit((), cells)] * max(0, rows - len(lines))))
    inner = cells - 2
    head = cut(f" {title} " if title else "", inner - 2)
    a, b, c, d = tuple(glyphs.corners)
    dashes = inner - 1 - width(head)
    out: list[Line] = [
        (Cell(a + glyphs.flat, style), Cell(head, "head"), Cell(glyphs.flat * dashes + b, style)),
    ]
    for row in range(rows - 2):
        body = lines[row] if row < len(lines) else ()
        out.append((Cell(glyphs.upright, style), *fit(body, inner), Cell(glyphs.upright, style)))
    out.append((Cell(c + glyphs.flat * inner + d, style),))
    return tuple(out)


def beside(*blocks: Sequence[Line]) -> list[Line]:
    """Blocks of lines next to each other; shorter ones are padded with blanks of their own width."""
    return list(_beside(tuple(map(tuple, blocks))))


@kept_by(lambda blocks: blocks)
def _beside(blocks: tuple[tuple[Line, ...], ...]) -> tuple[Line, ...]:
    rows = max((len(block) for block in blocks), default=0)
    widths = [line_width(block[0]) if block else 0 for block in blocks]
    out: list[Line] = []
    for row in range(rows):
        line: list[Cell] = []
        for block, cells in zip(blocks, widths, strict=True):
            line.extend(block[row] if row < len(block) else (Cell(" " * cells),))
        out.append(tuple(line))
    return tuple(out)


def area(
    values: Series,
    cells: int,
    rows: int,
    glyphs: Glyphs,
    low: float | None = 0.0,
    high: float | None = None,
    label: str = "",
    style: str = "spark",
    percent: bool = False,
    spans: bool = False,
) -> list[Line]:
    """A filled chart over time with its scale at the left; `label` stands at the right of the first row.

    One that `spans` is all of the past there is; others end now and begin with what is not known yet.
    """
    if rows <= 0 or cells <= 6:
        return []
    gutter = 5
    room = max(1, cells - gutter - (width(label) + 1 if label else 0))
    columns = stretched(values, room) if spans else resample(values, room)
    bottom, top = bounds(columns, low, high)
    out: list[Line] = []
    for row in range(rows):
        floor = rows - 1 - row
        text = "".join(_column(known(value), bottom, top, rows, floor, glyphs) for value in columns)
        at = top if row == 0 else bottom if floor == 0 else None
        scale = "" if at is None else _scale(at * 100 if percent else at)
        axis = glyphs.axis if scale else glyphs.upright
        line = [Cell(scale.rjust(gutter - 1) + axis, "dim"), Cell(text, style)]
        if row == 0 and label:
            line.append(Cell(" " + label, "text"))
        out.append(fit(line, cells))
    return out


def _column(value: float | None, bottom: float, top: float, rows: int, floor: int, glyphs: Glyphs) -> str:
    if value is None:
        return glyphs.gap if floor == 0 else " "
    filled = max(0.0, min(1.0, (value - bottom) / (top - bottom))) * rows - floor
    if filled <= 0:
        return glyphs.levels[0] if floor == 0 else " "
    return glyphs.levels[7] if filled >= 1 else glyphs.levels[max(0, min(7, int(filled * 8)))]


def _scale(value: float) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.0f}M"
    if size >= 1e3:
        return f"{value / 1e3:.0f}k"
    return f"{value:.0f}" if size >= 10 or value == int(value) else f"{value:.1f}"


class Plot:
    """A grid of characters for lines, bands and marks over one time axis; later layers lie over earlier ones."""

    def __init__(self, cells: int, rows: int, start: float, end: float, low: float, high: float) -> None:
        self.cells, self.rows = max(1, cells), max(1, rows)
        self._start, self._span = start, max(1e-9, end - start)
        self._low, self._height = low, max(1e-9, high - low)
        self._grid: list[list[Cell]] = [[Cell(" ")] * self.cells for _ in range(self.rows)]

    def column(self, at: float) -> int | None:
        """The column of a time, or None when it is outside."""
        place = (at - self._start) / self._span
        return min(self.cells - 1, int(place * self.cells)) if 0 <= place <= 1 else None

    def row(self, value: float) -> int | None:
        """The row of a value, or None when it is outside."""
        place = (value - self._low) / self._height
        return min(self.rows - 1, int((1 - place) * self.rows)) if 0 <= place <= 1 else None

    def half(self, value: float) -> bool:
        """Whether a value lies in the upper half of its row; two heights a row make a line smoother."""
        place = (1 - (value - self._low) / self._height) * self.rows
        return place - int(place) < 0.5

    def put(self, column: int | None, row: int | None, char: str, style: str) -> None:
        """One character; a place outside is ignored."""
        if column is not None and row is not None:
            self._grid[row][column] = Cell(char, style)

    def points(self, pairs: Iterable[tuple[float, float | None]], chars: str, style: str) -> None:
        """One mark for each known value, the values in between drawn too so that a line reads as one.

        `chars` is one character, or two: for the upper and the lower half of a row.
        """
        last: tuple[int, float] | None = None
        for at, raw in pairs:
            value, column = known(raw), self.column(at)
            if value is None or column is None:
                last = None
                continue
            if last is not None and column > last[0] + 1:
                for step in range(last[0] + 1, column):
                    part = (step - last[0]) / (column - last[0])
                    between = last[1] + (value - last[1]) * part
                    self.put(step, self.row(between), chars[0 if self.half(between) else -1], style)
            self.put(column, self.row(value), chars[0 if self.half(value) else -1], style)
            last = (column, value)

    def level(self, value: float, char: str, style: str) -> None:
        """A horizontal line across the whole chart, under what is drawn later."""
        row = self.row(value)
        if row is not None:
            for column in range(0, self.cells, 2):
                self.put(column, row, char, style)

    def upright(self, at: float, char: str, style: str) -> None:
        """A vertical line at a time."""
        column = self.column(at)
        if column is not None:
            for row in range(self.rows):
                self.put(column, row, char, style)

    def text(self, column: int, row: int, words: str, style: str) -> None:
        """A label; what does not fit at the right is moved left."""
        column = max(0, min(column, self.cells - len(words)))
        for offset, char in enumerate(words[: self.cells]):
            self.put(column + offset, row, char, style)

    def lines(self) -> list[Line]:
        """The drawing, neighbours of one style joined."""
        out: list[Line] = []
        for row in self._grid:
            line: list[Cell] = []
            for cell in row:
                if line and line[-1].style == cell.style:
                    line[-1] = Cell(line[-1].text + cell.text, cell.style)
                else:
                    line.append(cell)
            out.append(tuple(line))
        return out
