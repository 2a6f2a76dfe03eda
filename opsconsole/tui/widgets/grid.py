"""The one widget that draws: lines of cells by Textual's Line API, repainting only lines that changed.

It must not know what the cells say. The trap: a style is resolved once per name and theme; a theme change must drop
the resolved lines, or the old colours stay until the text changes.
"""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from opsconsole.tui.cells import Line, plain
from opsconsole.tui.theme import THEMES
from opsconsole.tui.viewmodel.frame import Frame


@lru_cache(maxsize=1024)
def resolve(theme: str, name: str) -> Style:
    """The colours of a style name; `HOT|sel` is one laid over the other."""
    table = THEMES[theme]
    base, _, over = name.partition("|")
    style = Style.parse(table.get(base, table["text"]))
    if not over or style.bgcolor is not None:
        return style  # a word with a ground of its own keeps it, or it could not be read on the selection's
    return style + Style.parse(table.get(over, ""))


class Grid(Widget, can_focus=True):
    """A screenful of lines."""

    DEFAULT_CSS = "Grid { width: 1fr; height: 1fr; }"

    class Picked(Message):
        """A row was clicked; twice when it was clicked again."""

        def __init__(self, name: str, twice: bool) -> None:
            super().__init__()
            self.picked, self.twice = name, twice

    class Scrolled(Message):
        """The wheel turned by so many rows."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, theme_name: str = "dark", takes_keys: bool = True) -> None:
        super().__init__()
        self.can_focus = takes_keys
        self._look = theme_name
        self.frame = Frame(())
        self._strips: dict[int, Strip] = {}

    def show(self, frame: Frame) -> int:
        """Take a new frame; how many lines have to be painted again."""
        old, self.frame = self.frame.lines, frame
        changed = [y for y, line in enumerate(frame.lines) if y >= len(old) or old[y] != line]
        changed += range(len(frame.lines), len(old))
        for y in changed:
            self._strips.pop(y, None)
        if changed and self.is_attached:
            across = self.size.width
            self.refresh(*(Region(0, y, across, 1) for y in changed))
        return len(changed)

    def set_theme(self, name: str) -> None:
        """Other colours for the same lines."""
        self._look = name
        self._strips.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        lines = self.frame.lines
        if y >= len(lines):
            return Strip.blank(self.size.width)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = _strip(lines[y], self._look)
        return strip.adjust_cell_length(self.size.width)

    def text(self) -> str:
        """The characters on the screen, for copying and tests."""
        return "\n".join(plain(line).rstrip() for line in self.frame.lines)

    def on_click(self, event: events.Click) -> None:
        name = self.frame.targets.get(event.y)
        if name is not None:
            self.post_message(self.Picked(name, event.chain > 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Scrolled(3))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Scrolled(-3))


def _strip(line: Line, theme: str) -> Strip:
    return Strip([Segment(cell.text, resolve(theme, cell.style)) for cell in line if cell.text])
