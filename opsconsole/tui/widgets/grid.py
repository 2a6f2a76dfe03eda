"""The one widget that draws: lines of cells by Textual's Line API, repainting only lines that changed.

It must not know what the cells say. The trap: a style is resolved once per name and theme; a theme change must drop
the resolved lines, or the old colours stay until the text changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from opsconsole.tui.cells import Line, line_width, plain, width
from opsconsole.tui.theme import THEMES, ground
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.widgets.paint import Ink, Painter


@lru_cache(maxsize=1024)
def resolve(theme: str, name: str) -> Style:
    """The colours of a style name; `HOT|sel` is one laid over the other."""
    table = THEMES[theme]
    base, _, over = name.partition("|")
    style = Style.parse(table.get(base, table["text"]))
    below = ground(theme)
    # Without a ground of its own, dark text would stand on whatever the terminal has.
    under = Style(color=below[2], bgcolor=below[0]) if below else Style()
    if not over or style.bgcolor is not None:
        return under + style  # a word with a ground of its own keeps it, or it could not be read on the selection's
    return under + style + Style.parse(table.get(over, ""))


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
        self._paints: tuple[tuple[str, str | None], Painter] | None = None

    def show(self, frame: Frame, put: Callable[[str], None] | None = None) -> int:
        """Take a new frame; how many lines have to be painted again. `put` writes to the terminal itself, where nothing
        lies over this widget; else Textual paints when it comes to it."""
        old, self.frame = self.frame.lines, frame
        changes = [
            (y, old[y] if y < len(old) else (), after)
            for y, after in enumerate(frame.lines)
            if y >= len(old) or (old[y] is not after and old[y] != after)
        ]
        changes += [(y, old[y], ()) for y in range(len(frame.lines), len(old)) if old[y]]
        for y, _, _ in changes:
            self._strips.pop(y, None)
        if changes and self.is_attached:
            if put is not None:
                put(self._painter().patch(changes, line_width(changes[0][2] or changes[0][1])))
            else:
                across = self.size.width
                self.refresh(*(self._region(y, before, after, across) for y, before, after in changes))
        return len(changes)

    def _region(self, y: int, before: Line, after: Line, across: int) -> Region:
        first, last = changed_columns(before, after, across)
        return Region(first, y, max(1, last - first), 1)

    def _painter(self) -> Painter:
        """What paints in this theme on this terminal."""
        app, look = self.app, self._look
        system = app.console.color_system
        if self._paints is None or self._paints[0] != (look, system):
            filters, background = self.get_line_filters(), self.background_colors[1]

            def look_up(name: str) -> Ink:
                strip = Strip([Segment("x", resolve(look, name))])
                for each in filters:
                    strip = strip.apply_filter(each, background)
                return Ink.of(next(iter(strip)).style or Style(), system)

            self._paints = (look, system), Painter(look_up)
        return self._paints[1]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines as they are: this widget has no border, padding or tint, so nothing has to be kept beside them."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips = []
        for y in crop.line_range:
            strip = self.render_line(y)
            for each in filters:
                strip = strip.apply_filter(each, background)
            strips.append(strip.crop(crop.x, crop.right))
        return strips

    def set_theme(self, name: str) -> None:
        """Other colours for the same lines."""
        self._look = name
        self._strips.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        lines = self.frame.lines
        if y >= len(lines):
            return Strip.blank(self.size.width, resolve(self._look, "text"))
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = _strip(lines[y], self._look)
        return strip.adjust_cell_length(self.size.width, resolve(self._look, "text"))

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


def changed_columns(before: Line, after: Line, across: int) -> tuple[int, int]:
    """From which to which column a line differs; what is equal at both ends is not sent again.

    Equal ends are only in the same place in lines of the same width, which a resize and a row that grows are not.
    """
    if not before or not after:
        return 0, across
    first = 0
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        first += width(after[start].text)
        start += 1
    last, back = across, 1
    if line_width(before) != line_width(after):
        return first, max(first, last)
    while back <= min(len(before), len(after)) - start and before[-back] == after[-back]:
        last -= width(after[-back].text)
        back += 1
    return first, max(first, last)


def _strip(line: Line, theme: str) -> Strip:
    """Segments of a line, as few as possible: every one costs its colours again on the way to the terminal."""
    joined: list[tuple[str, Style]] = []
    for cell in line:
        if not cell.text:
            continue
        style = resolve(theme, cell.style)
        if joined and (joined[-1][1] == style or (cell.text.isspace() and _blank_alike(joined[-1][1], style))):
            joined[-1] = (joined[-1][0] + cell.text, joined[-1][1])
        else:
            joined.append((cell.text, style))
    return Strip([Segment(text, style) for text, style in joined])


@lru_cache(maxsize=1024)
def _blank_alike(one: Style, other: Style) -> bool:
    """Whether a blank looks the same in both styles."""
    marked = one.reverse or one.underline or other.reverse or other.underline
    return one.bgcolor == other.bgcolor and not marked
