"""What a view hands to the screen: lines, what lies where, and how far a list was scrolled.

It must not know colours or widgets. The trap: a frame always has exactly as many lines as the size it was made for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsconsole.tui.cells import Line, fit
from opsconsole.tui.layout import Size


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole screen as cells."""

    lines: tuple[Line, ...]
    targets: Mapping[int, str] = field(default_factory=dict)  # line -> name of what is on it, for the mouse
    top: int = 0  # first visible row of the list
    order: tuple[str, ...] = ()  # names of the list's rows, all of them
    rows: int = 0  # rows of the list, for the cursor


def framed_to(
    lines: Sequence[Line], foot: Line, size: Size, *, targets: Mapping[int, str] | None = None, top: int = 0,
    order: tuple[str, ...] = (), rows: int = 0,
) -> Frame:  # fmt: skip
    """Lines cut or padded to the size, the foot on the last one."""
    body = max(0, size.height - 1)
    fitted = [fit(line, size.width) for line in lines[:body]]
    fitted += [fit((), size.width)] * (body - len(fitted))
    if size.height > 0:
        fitted.append(fit(foot, size.width))
    seen = {y: name for y, name in (targets or {}).items() if y < body}
    return Frame(tuple(fitted), seen, top, order, rows)
