"""Help, why, a page and a log as text, over the screen, which stays live behind them.

It must not know their text. The trap: in help every letter searches, so only Esc and `?` close it.
"""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from opsconsole.errors import OpsConsoleError
from opsconsole.tui import dispatch
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, cut, plain, wrap
from opsconsole.tui.layout import Size
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import help as help_view
from opsconsole.tui.viewmodel import page_text, panel, why
from opsconsole.tui.widgets.grid import Grid

CLOSE = {
    "help": "Esc or ? closes   type to search",
    "why": "Esc or y closes   Up Down scroll   c copies",
    "metrics": "Esc or m closes   Up Down scroll   c copies",
    "logs": "Esc or l closes   Up Down scroll   c copies",
}
OWN_KEY = {"why": "y", "metrics": "m", "logs": "l"}
CLOSING = ("escape", "question_mark", "f1")
LOG_EVERY_S = 2.0
MOVES = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}


class PanelScreen(ModalScreen[None]):
    """A panel of text."""

    def __init__(self, name: str, session: Session, theme_name: str) -> None:
        super().__init__()
        self._panel, self._session, self._theme_name = name, session, theme_name
        self._top, self._query = 0, ""
        self._log: tuple[str, ...] | str = "asking the agent for its log"
        self._at_end = name == "logs"

    def compose(self) -> ComposeResult:
        yield Grid(self._theme_name, takes_keys=False)

    def on_mount(self) -> None:
        self._place()
        self.set_interval(1.0, self._draw)
        if self._panel == "logs":
            self._ask_log()
            self.set_interval(LOG_EVERY_S, self._ask_log)

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
        title, body = self._text(inner)
        top = 10**9 if self._at_end else self._top
        frame = panel.view(title, body, size, top, session.look.glyphs, CLOSE[self._panel])
        self._top = frame.top
        grid.show(frame)

    def _text(self, cells: int) -> tuple[str, list[Line]]:
        """Title and body of this panel."""
        session = self._session
        replica = session.selected()
        if self._panel == "help":
            body = help_view.lines(session.state.page, session.can_change, session.look, cells, self._query)
            return f"Help: {session.state.page}" + (f"   search: {self._query}" if self._query else ""), body
        if self._panel == "metrics":
            at = replica.sample.at if replica is not None and replica.sample is not None else None
            return "Its page", page_text.lines(replica, fmt.clock(at, session.look.zone))
        if self._panel == "logs":
            name = clean(replica.replica) if replica is not None else "nothing selected"
            return f"Log of {name}", log_lines(self._log, cells)
        return "Why", why.lines(session.shown, session.state, session.look, cells)

    def _ask_log(self) -> None:
        self.run_worker(self._fetch_log(), exclusive=True, group="log", exit_on_error=False)

    async def _fetch_log(self) -> None:
        app: Any = self.app
        replica, client = self._session.selected(), app.feed.client
        if replica is None or client is None:
            self._log = "no agent answers"
        else:
            try:
                self._log = await client.logs(replica.replica)
            except OpsConsoleError as error:
                self._log = str(error)
        self._draw()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        key, char = event.key, event.character or ""
        if key in MOVES:
            self._top += MOVES[key]
            self._at_end = key == "end" and self._panel == "logs"
        elif key in CLOSING or (self._panel != "help" and key in (OWN_KEY[self._panel], "q", "enter")):
            if self._query and key == "escape":
                self._query = ""
            else:
                if self.is_active:  # the second of two quick keys finds it gone, and must not take the console with it
                    self.dismiss()
                return
        elif self._panel != "help" and key == "c":
            app: Any = self.app
            dispatch.copy_text(app, "\n".join(plain(line).rstrip() for line in self._text(200)[1]))
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
        self._at_end = False
        self._draw()


def log_lines(told: tuple[str, ...] | str, cells: int) -> list[Line]:
    """A log's lines as they are, made harmless; or the sentence that says why there are none."""
    if isinstance(told, str):
        return [(Cell(piece, "dim"),) for piece in wrap(clean(told), cells)]
    if not told:
        return [(Cell("It has written nothing yet.", "dim"),)]
    return [(Cell(cut(clean(line), cells)),) for line in told]
