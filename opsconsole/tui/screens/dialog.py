"""The dialog in which a change is looked at, confirmed and followed; Escape and the default are to do nothing.

It must not decide what may be done; `acting.Change` says what is missing. The traps: closing the dialog of an applied
plan does not stop the plan, so the application goes on following it and says how it ended; and keys are typed ahead:
Tab and Enter move the cursor at once (priority bindings), while what was typed before them may still wait in a field's
queue, so Enter takes effect behind that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from opsconsole.errors import OpsConsoleError
from opsconsole.tui import acting
from opsconsole.tui.cells import fit
from opsconsole.tui.viewmodel import dialog as view
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.widgets.field import Field
from opsconsole.tui.widgets.grid import Grid

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp

WIDTH = 66
DRY_RUN_AFTER_S = 0.25


def open_dialog(app: ConsoleApp, kind: str, argument: str) -> None:
    """Open the dialog, or say why there is nothing to open."""
    change = acting.begin(app.session, kind, argument)
    if isinstance(change, str):
        app.session.say(change)
        return
    app.push_screen(ChangeScreen(change))


class ChangeScreen(ModalScreen[None]):
    """One change."""

    DEFAULT_CSS = """
    ChangeScreen > Vertical { width: 68; max-width: 100%; height: auto; background: $panel; border: solid $accent; }
    ChangeScreen.ascii > Vertical { border: ascii $accent; }
    ChangeScreen Grid { height: 1; }
    ChangeScreen Input { height: 1; border: none; padding: 0 2; background: $surface; }
    ChangeScreen Input:focus { border: none; }
    """
    AUTO_FOCUS = ""  # the first field is focused on mount; a later automatic focus would take keys already typed
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "proceed", show=False, priority=True),
        Binding("tab", "next_field", show=False, priority=True),
        Binding("shift+tab", "previous_field", show=False, priority=True),
    ]
    app: ConsoleApp

    def __init__(self, change: acting.Change) -> None:
        super().__init__()
        self.change = change
        self._timer: Timer | None = None
        self._said = ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Grid(self.app.look_name, takes_keys=False)
            if self.change.asks_number:
                number = "" if self.change.number is None else str(self.change.number)
                yield Field(number, placeholder="new number", id="number", compact=True, max_length=6)
            yield Field(placeholder="type to confirm", id="confirm", compact=True)
            yield Field(placeholder="note, goes to the journal", id="note", compact=True, max_length=200)

    def on_mount(self) -> None:
        self.set_class(self.app.session.look.glyphs.name == "ascii", "ascii")
        first = "number" if self.change.asks_number else "confirm" if self.change.needs_typing else "note"
        self.query_one("#confirm", Input).display = self.change.needs_typing
        self.set_focus(self.query_one(f"#{first}", Input))
        self.set_interval(0.5, self._draw)
        self._dry_run()

    def _dry_run(self) -> None:
        self._timer = None
        self._draw()
        client = self.app.feed.client
        if client is not None and not self.change.sent:
            self.run_worker(self._ask(client), exclusive=True, group="plan", exit_on_error=False)

    async def _ask(self, client: Any) -> None:
        await self.change.ask(client)
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        confirm = self.query_one("#confirm", Input)
        confirm.display = self.change.needs_typing and not self.change.sent
        for name in ("#number", "#note"):
            for field in self.query(name):
                field.display = not self.change.sent
        grid = self.query_one(Grid)
        lines = view.lines(self.change, self.app.session.live, confirm.value, self._said, WIDTH, self.app.session.look)
        grid.styles.height = len(lines)
        across = grid.size.width or WIDTH
        grid.show(Frame(tuple(fit(line, across) for line in lines)))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._said = ""
        self._read_number()
        self._draw()

    def _read_number(self) -> None:
        """Take the number from its field; another one needs a dry run of its own."""
        if not self.change.asks_number or self.change.sent:
            return
        text = self.query_one("#number", Input).value.strip()
        number = int(text) if text.isdigit() else None
        if number == self.change.number:
            return
        self.change.number, self.change.plan = number, None
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(DRY_RUN_AFTER_S, self._dry_run)

    def action_next_field(self) -> None:
        self.focus_next(Input)

    def action_previous_field(self) -> None:
        self.focus_previous(Input)

    def action_proceed(self) -> None:
        """Close what has been applied; else proceed, when the fields have taken what was typed before."""
        if self.change.sent:
            self._close()
            return
        confirm = self.query_one("#confirm", Input)
        field = self.focused or confirm
        if field.id == "number" and self.change.needs_typing and not confirm.value:
            self.set_focus(confirm)  # now: the word is already being typed, and wants an Enter of its own
            field.call_later(self._tell)
        elif field is confirm:
            field.call_later(self._proceed)
        else:
            confirm.call_later(field.call_later, self._proceed)  # behind what waits in both

    def _tell(self) -> None:
        """Say what is missing."""
        self._read_number()
        self._said = self.change.missing(self.query_one("#confirm", Input).value)
        self._draw()

    def _proceed(self) -> None:
        """Apply, or say what is missing and go to where it belongs."""
        self._tell()
        change, confirm = self.change, self.query_one("#confirm", Input)
        missing, client = self._said, self.app.feed.client
        if missing or client is None:
            self._said = missing or "no agent answers"
            if change.needs_typing and change.word and confirm.value.strip() != change.word:
                self.set_focus(confirm)
            self._draw()
            return
        note = self.query_one("#note", Input).value
        self.run_worker(self._apply(client, note), exclusive=True, group="apply", exit_on_error=False)

    async def _apply(self, client: Any, note: str) -> None:
        try:
            sent = await self.change.apply(client, note)
        except OpsConsoleError as error:
            sent, self._said = False, str(error)
        if sent:
            self.set_focus(None)
            self.app.background(self._follow())
        self._draw()

    async def _follow(self) -> None:
        """Say at the foot how it ended, also when this dialog is long closed."""
        session = self.app.session
        while True:
            words, ended = acting.progress(self.change, session.live)
            if ended:
                session.say(f"{self.change.title}: {words}")
                self.app.repaint()
                return
            await self.app.clock.sleep(0.5)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" or (self.change.sent and event.key == "q"):
            event.stop()
            self._close()

    def _close(self) -> None:
        """Leave; the second of two quick keys finds this screen gone, and must not take the one beneath with it."""
        if self.is_active:
            self.dismiss()
