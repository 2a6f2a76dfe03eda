"""Textual's command palette on a terminal of any size.

It must not know what is offered; `tui.palette` says. The trap: a list without room has measured none of its lines, so a
page up or down looks for a line that it does not know.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette


class Choices(CommandList, can_focus=False):
    """What matches; where no line has room, a page is one of them."""

    def action_page_up(self) -> None:
        try:
            super().action_page_up()  # type: ignore[no-untyped-call]
        except LookupError:
            self.action_cursor_up()

    def action_page_down(self) -> None:
        try:
            super().action_page_down()  # type: ignore[no-untyped-call]
        except LookupError:
            self.action_cursor_down()


class Palette(CommandPalette):
    """The palette with such a list."""

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            yield Choices() if type(widget) is CommandList else widget
