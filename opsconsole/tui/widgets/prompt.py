"""The input line for `/`, `:` and columns: filters as you type, completes with Tab, remembers nothing.

It must not carry commands out; it hands text to the application. The trap: Esc means undo here (the filter from before
comes back), not back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from opsconsole.tui import actions, dispatch
from opsconsole.tui.session import Session
from opsconsole.tui.state import SORTS
from opsconsole.tui.viewmodel.columns import COLUMNS
from opsconsole.tui.viewmodel.maximised import PANELS
from opsconsole.tui.widgets.field import Field

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp

PLACEHOLDERS = {
    "filter": "/  name  st:sat  kv>90  slo<99  model:llama  !x     Enter keeps, Esc undoes",
    "command": ":  command; Tab completes, Enter runs, Esc closes",
    "columns": "columns in order, with commas; `default` for the layout's own",
}


class _Completion(Suggester):
    def __init__(self, session: Session) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._session = session

    async def get_suggestion(self, value: str) -> str | None:
        options = candidates(value, self._session)
        return options[0] if options else None


def candidates(value: str, session: Session) -> list[str]:
    """What may follow a command being typed; names come from the snapshot."""
    if not value.strip():
        return []
    verb = value.split(" ", 1)[0]
    if verb == "sort":
        return actions_with(value, SORTS)
    if verb == "columns":
        return actions_with(value, tuple(COLUMNS))
    if verb == "maximise":
        return actions_with(value, tuple(PANELS.get(session.state.page, ())))
    snapshot = session.shown.snapshot
    names: list[str] = []
    if snapshot is not None:
        pools = [pool.pool for pool in snapshot.pools]
        names = pools if verb in ("scale", "pin", "autopause") else [replica.replica for replica in snapshot.replicas]
    return [option for option in actions.complete(value, names) if option != value]


def actions_with(value: str, words: tuple[str, ...]) -> list[str]:
    """Completions of the last word, after a space or a comma."""
    cut_at = max(value.rfind(" "), value.rfind(",")) + 1
    if not cut_at:
        return [option for option in actions.complete(value) if option != value]
    head, last = value[:cut_at], value[cut_at:]
    return [head + word for word in words if word.startswith(last) and word != last]


class Prompt(Field):
    """One line at the foot."""

    DEFAULT_CSS = """
    Prompt { dock: bottom; height: 1; border: none; padding: 0 1; background: $panel; }
    Prompt:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "row('up')", show=False),
        Binding("down", "row('down')", show=False),
    ]

    class ChangedText(Message):
        """The filter changed while typing."""

    app: ConsoleApp

    def __init__(self, kind: str, session: Session) -> None:
        initial = (
            session.state.filter if kind == "filter" else ",".join(session.state.columns) if kind == "columns" else ""
        )
        suggester = _Completion(session) if kind == "command" else None
        super().__init__(value=initial, placeholder=PLACEHOLDERS[kind], suggester=suggester, compact=True)
        self.kind, self._session, self._before = kind, session, session.state.filter
        self.is_closed = False

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.kind == "filter" and event.value != self._session.state.filter:
            self._session.change(filter=event.value, frozen_until=0.0)
            self.post_message(self.ChangedText())

    async def _on_key(self, event: events.Key) -> None:
        """Enter, Escape and Tab in the order they were typed; what was typed behind them is the grid's."""
        own = {"enter": self._accept, "escape": self._undo, "tab": self._complete}
        if self.is_closed:
            found = actions.for_key(event.key, self._session.state.page, self._session.look.keys)
            if found is not None:
                self.app.perform(found.id)
        elif event.key in own:
            own[event.key]()
        else:
            return
        event.stop()
        event.prevent_default()

    def _accept(self) -> None:
        text = self.value
        if self.kind == "filter":
            self._session.change(filter=text, frozen_until=0.0)
        self._close()
        if self.kind == "command":
            dispatch.run_command(self.app, text)
        elif self.kind == "columns":
            dispatch.run_command(self.app, f"columns {text or 'default'}")
        self.app.repaint()

    def action_row(self, way: str) -> None:
        self.app.perform(way)

    def _undo(self) -> None:
        if self.kind == "filter":
            self._session.change(filter=self._before, frozen_until=0.0)
        self._close()

    def _complete(self) -> None:
        if self.kind != "command":
            return
        options = candidates(self.value, self._session)
        if options:
            value = _shared(options) if len(_shared(options)) > len(self.value) else options[0]
            found = actions.BY_COMMAND.get(value)
            wants_more = len(options) == 1 and found is not None and bool(found.arguments)
            self.value = f"{value} " if wants_more else value
            self.cursor_position = len(self.value)

    def _close(self) -> None:
        self.is_closed = True
        from opsconsole.tui.screens.console import ConsoleScreen

        if isinstance(self.screen, ConsoleScreen):
            self.screen.close_line(self)


def _shared(options: list[str]) -> str:
    """The beginning all options have in common."""
    low, high = min(options), max(options)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]
