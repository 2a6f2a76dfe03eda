"""What a changed frame is to a terminal: moves, colours and text, no more of them than it takes.

It must not know widgets. A frame differs from the one before in some cells of some lines, and neighbours share most of
their colours; so only cells that differ are sent, and only what changes from one to the next. The trap: cells are in
the same place only in lines whose cells have the same widths; any others are sent from the first that differs on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.color import ColorSystem
from rich.style import Style

from opsconsole.tui.cells import Cell, Line, width

SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}
FRAME, FRAMED = "\x1b[?2026h", "\x1b[?2026l"  # what is between them is shown at once
BRIDGED = 6  # equal cells between two that differ, as columns: sending them again is shorter than a move over them


@dataclass(frozen=True, slots=True)
class Ink:
    """A style as the numbers a terminal takes."""

    marks: str
    front: str
    back: str

    @classmethod
    def of(cls, style: Style, system: str | None) -> Ink:
        """For a terminal that knows so many colours, named as Rich does."""
        known = SYSTEMS.get(system or "truecolor", ColorSystem.TRUECOLOR)
        plain = style.without_color.render("|", color_system=known)
        front = style.color.downgrade(known).get_ansi_codes(True) if style.color else ("39",)
        back = style.bgcolor.downgrade(known).get_ansi_codes(False) if style.bgcolor else ("49",)
        return cls(plain[2 : plain.index("m")] if plain[0] == "\x1b" else "", ";".join(front), ";".join(back))

    def after(self, held: Ink | None) -> str:
        """What turns the terminal's style into this one."""
        if held is not None and held.marks == self.marks:
            numbers = [self.front] * (held.front != self.front) + [self.back] * (held.back != self.back)
        else:
            numbers = ["0", *([self.marks] if self.marks else ()), self.front, self.back]
        return f"\x1b[{';'.join(numbers)}m" if numbers else ""

    def shows_blank_like(self, other: Ink) -> bool:
        """Whether a blank looks the same in both."""
        return self.back == other.back and self.marks == other.marks == ""


class Painter:
    """Turns lines that differ into what a terminal is sent; `look_up` says how a style looks on this terminal."""

    def __init__(self, look_up: Callable[[str], Ink]) -> None:
        self._look_up = look_up
        self._inks: dict[str, Ink] = {}
        self._turns: dict[tuple[Ink | None, Ink], str] = {}

    def patch(self, changes: list[tuple[int, Line, Line]], across: int) -> str:
        """What makes of a terminal that shows the lines that were one that shows those that are, by row."""
        out: list[str] = []
        held: Ink | None = None
        for y, before, after in changes:
            for x, cells in spans(before, after, across):
                out.append(f"\x1b[{y + 1};{x + 1}H")
                held = self._run(cells, held, out)
        out.append("\x1b[0m")
        return "".join(out)

    def _run(self, cells: Line, held: Ink | None, out: list[str]) -> Ink | None:
        for text, style in cells:
            if not text:
                continue
            ink = self._inks.get(style)
            if ink is None:
                ink = self._inks[style] = self._look_up(style)
            if ink is not held and not (held is not None and text.isspace() and ink.shows_blank_like(held)):
                turn = self._turns.get((held, ink))
                if turn is None:
                    turn = self._turns[held, ink] = ink.after(held)
                out.append(turn)
                held = ink
            out.append(text)
        return held


def spans(before: Line, after: Line, across: int) -> Iterator[tuple[int, Line]]:
    """Columns and cells of a line that have to be sent."""
    if not before or not after:
        yield 0, after or (Cell(" " * across),)
        return
    if len(before) != len(after) or any(width(a[0]) != width(b[0]) for a, b in zip(before, after, strict=True)):
        x = first = 0
        while first < min(len(before), len(after)) and before[first] == after[first]:
            x += width(after[first].text)
            first += 1
        yield x, after[first:]
        return
    start: int | None = None  # of the span that is open
    x = begun = equal = gap = 0
    for place, cell in enumerate(after):
        size = width(cell[0])
        if cell != before[place]:
            if start is None:
                start, begun = place, x
            gap, equal = 0, place + 1
        elif start is not None:
            gap += size
            if gap > BRIDGED:
                yield begun, after[start:equal]
                start = None
        x += size
    if start is not None:
        yield begun, after[start:equal]
