"""The one screen: a grid of cells and an input line that appears for `/` and `:`.

It must not know what is drawn; `session.frame` says. The trap: a binding without priority runs only after the key has
bubbled up, by when the next keys have gone to the old focus (`/st` would open the scale dialog). So bindings have
priority, and `check_action` gives every key to the input line while it is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from opsconsole.tui import actions
from opsconsole.tui.layout import Size
from opsconsole.tui.widgets.grid import Grid
from opsconsole.tui.widgets.paint import FRAME, FRAMED

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp
    from opsconsole.tui.widgets.prompt import Prompt


class ConsoleScreen(Screen[None]):
    """Every page of the console."""

    AUTO_FOCUS = "Grid"
    _own = 0  # widgets of this screen while nothing lies over the grid
    _is_placed = False  # the grid has its place, which without anything over it is the whole screen
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), f"perform('{action.id}')", action.label, show=False, id=action.id, priority=True)
        for action in actions.ACTIONS
        if action.keys
    ]

    app: ConsoleApp

    def compose(self) -> ComposeResult:
        self._grid = Grid(self.app.look_name)
        yield self._grid

    @property
    def grid(self) -> Grid:
        return self._grid

    def on_mount(self) -> None:
        self._own = len(self.children)
        self.app.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the terminal forgot it all
        keys = self.app.session.look.keys
        if keys:
            self.app.set_keymap({name: ",".join(wanted) for name, wanted in keys.items()})
        self.draw()

    def draw(self) -> int:
        """Compute the frame and paint the lines that changed; nothing while there is no room."""
        alone = self._is_placed and self.is_active and len(self.children) == self._own
        size = self.app.size if alone else self.grid.size
        if not size.area:
            self._is_placed, size = False, self.app.size
        elif not alone:
            self._is_placed = True
        if not size.area:
            return 0
        frame = self.app.session.frame(Size(size.width, size.height))
        return self.grid.show(frame, self._put if alone else None)

    def _put(self, text: str) -> None:
        """Write to the terminal now, as one frame, what changes on a screen that Textual knows already."""
        app, driver = self.app, self.app._driver
        if driver is None or app.is_headless or not app._running or app._closed:
            return
        driver.write(f"{FRAME}{text}{FRAMED}" if app._sync_available else text)
        driver.flush()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.draw)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that mean nothing here stay quiet, except mutating ones, which say why not."""
        if action != "perform":
            return True
        if self.focused is not None and not isinstance(self.focused, Grid):
            return False
        found = actions.BY_ID[str(parameters[0])]
        return actions.works_on(found, self.app.session.state.page)

    def action_perform(self, action_id: str) -> None:
        self.app.perform(action_id)

    def on_grid_picked(self, message: Grid.Picked) -> None:
        session = self.app.session
        session.change(selected=message.picked)
        session.touch()
        if message.twice:
            self.app.perform("open")
        self.draw()

    def on_grid_scrolled(self, message: Grid.Scrolled) -> None:
        for _ in range(abs(message.by)):
            self.app.perform("down" if message.by > 0 else "up")

    def ask_line(self, kind: str) -> None:
        """Open the input line."""
        from opsconsole.tui.widgets.prompt import Prompt

        if all(prompt.is_closed for prompt in self.query(Prompt)):
            prompt = Prompt(kind, self.app.session)
            self.mount(prompt)
            self.set_focus(prompt)  # now, not when it has been mounted: the next key is already on its way

    def close_line(self, prompt: Prompt) -> None:
        """Close it and give the keys back to the grid."""
        self.set_focus(self.grid)  # at once: the next key is the grid's
        prompt.call_later(prompt.remove)  # after the keys that already wait in its queue
        self.call_after_refresh(self.draw)

    def on_prompt_changed_text(self, message: Any) -> None:
        self.draw()
