"""A framed text over the screen that can be scrolled: help and why.

It must not know what it shows. The trap: the last line of the frame tells how to close it, so it is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.tui import draw
from opsconsole.tui.cells import Cell, Line, fit
from opsconsole.tui.layout import Size
from opsconsole.tui.theme import Glyphs
from opsconsole.tui.viewmodel.frame import Frame


def view(title: str, body: Sequence[Line], size: Size, top: int, glyphs: Glyphs, foot: str) -> Frame:
    """The frame, scrolled to `top` as far as there is text."""
    room = max(1, size.height - 3)
    top = max(0, min(top, len(body) - room))
    more = f"  {top + room}/{len(body)}" if len(body) > room else ""
    inside = [(Cell(" "), *line) for line in body[top : top + room]]
    inside += [()] * (room - len(inside))
    inside.append((Cell(f" {foot}{more}", "dim"),))
    lines = draw.framed(title, inside, size.width, size.height, glyphs)
    return Frame(tuple(fit(line, size.width) for line in lines), top=top, rows=len(body))
