"""Help and why, over the screen, which stays live behind them.

It must not know their text. The trap: in help every letter searches, so only Esc and `?` close it.
"""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from opsconsole.tui.layout import Size
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import help as help_view
from opsconsole.tui.viewmodel import panel, why
from opsconsole.tui.widgets.grid import Grid

CLOSE = {"help": "Esc or ? closes   type to search", "why": "Esc or y closes   Up Down scroll   c copies"}
MOVES = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}


class PanelScreen(ModalScreen[None]):
    """A panel of text."""

    def __init__(self, name: str, session: Session, theme_name: str) -> None:
        super().__init__()
        self._panel, self._session, self._theme_name = name, session, theme_name
        self._top, self._query = 0, ""

    def compose(self) -> ComposeResult:
        yield Grid(self._theme_name, takes_keys=False)

    def on_mount(self) -> None:
        self._place()
        self.set_interval(1.0, self._draw)

    def on_resize(self, event: events.Resize) -> None:
        self._place()

    def _place(self) -> None:
        """Help at the right where there is room, so that the fleet stays in sight; else in the middle."""
        across, down = self.app.size
        grid = self.query_one(Grid)
        wide = across >= 130
        want = 68 if wide else min(across, 96)
        grid.styles.width, grid.styles.height = want, down if self._panel == "help" or down < 26 else min(down, 34)
        self.styles.align = ("right" if wide and self._panel == "help" else "center", "middle")
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        grid = self.query_one(Grid)
        size = Size(*grid.size)
        if not grid.size.area:
            return
        session, inner = self._session, max(10, size.width - 4)
        if self._panel == "help":
            body = help_view.lines(session.state.page, session.can_change, session.look, inner, self._query)
            title = f"Help: {session.state.page}" + (f"   search: {self._query}" if self._query else "")
        else:
            body = why.lines(session.shown, session.state, session.look, inner)
            title = "Why"
        frame = panel.view(title, body, size, self._top, session.look.glyphs, CLOSE[self._panel])
        self._top = frame.top
        grid.show(frame)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        key, char = event.key, event.character or ""
        if key in MOVES:
            self._top += MOVES[key]
        elif key in ("escape", "question_mark", "f1") or (self._panel == "why" and key in ("y", "q", "enter")):
            if self._query and key == "escape":
                self._query = ""
            else:
                self.dismiss()
                return
        elif self._panel == "why" and key == "c":
            app: Any = self.app
            app.copy(why.as_text(self._session.shown, self._session.state, self._session.look))
        elif self._panel == "help":
            self._search(key, char)
        self._draw()

    def _search(self, key: str, char: str) -> None:
        if key == "backspace":
            self._query = self._query[:-1]
        elif char.isprintable() and len(char) == 1:
            self._query = (self._query + char)[:24]
        self._top = 0

    def on_grid_scrolled(self, message: Grid.Scrolled) -> None:
        self._top += message.by
        self._draw()
