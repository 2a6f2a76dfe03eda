"""The terminal application: brings a session, a feed and a screen together, and does what only an application can.

It must not hold rules: actions are in `dispatch`, facts in `session`, drawing in `viewmodel`. The trap: what is
imported here is paid before the first paint, so the HTTP client, dialogs and the palette are imported when needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

from textual.app import App
from textual.driver import Driver
from textual.screen import Screen

from opsconsole.clock import Clock, SystemClock
from opsconsole.tui import theme
from opsconsole.tui.feed import Feed, connect
from opsconsole.tui.recording import Recorder, Recording
from opsconsole.tui.screens.console import ConsoleScreen
from opsconsole.tui.session import Session
from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.world import Look, World

LEAN_S, BEAT_S = 4.0, 1.0


def firing(world: World) -> set[tuple[str, str]]:
    """The alerts that want somebody now; a new one rings the terminal's bell."""
    return {(alert.rule, alert.subject) for alert in world.alerts if alert.state == "firing"}


def load_the_rest() -> None:
    """What the first tick and the first key need, loaded while the agent is asked."""
    from opsconsole.tui import dispatch
    from opsconsole.tui.viewmodel import pages

    del dispatch, pages


class ConsoleApp(App[int]):
    """The console on one agent, or on none yet."""

    TITLE = "opsconsole"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { background: $background; color: $foreground; layers: base over; }
    ModalScreen { background: $background 40%; align: center middle; }
    """

    def __init__(
        self,
        address: str | None,
        *,
        settings: TuiSettings | None = None,
        look: Look | None = None,
        theme_name: str = "dark",
        clock: Clock | None = None,
        make: Callable[[str], Awaitable[Any]] = connect,
        recorder: Callable[[str], Recorder] | None = None,
        lean: bool = False,
    ) -> None:
        super().__init__()
        self.clock = clock or SystemClock()
        settings = settings or TuiSettings()
        zone = UTC if settings.utc else None
        look = look or Look(zone=zone)
        look = replace(
            look,
            production=settings.production or look.production,
            read_only=look.read_only or settings.read_only,
            keys=settings.keys or look.keys,
        )
        self.session = Session(self.clock, look, settings)
        self.feed = Feed(address, self.clock, self._world_changed, make)
        self.session.live = self.feed.world
        self.look_name = theme_name
        self.recording = Recording(self.session, recorder, lambda: self.is_web)
        self.least_between_s = LEAN_S if lean else 0.0  # repaints that nobody asked for by a key
        self._painted_at = self.pressed_at = float("-inf")
        self.owns_process = False  # signals are ours only where nothing else runs in this process
        self._tasks: set[asyncio.Task[Any]] = set()
        for name in theme.THEMES:
            self.register_theme(theme.textual_theme(name))
        self.theme = f"ops-{theme_name}"

    def action_help_quit(self) -> None:
        """Ctrl-C leaves, as it does any program on a terminal."""
        self.exit(0)

    def get_driver_class(self) -> type[Driver]:
        """The platform's own, made to outlive its terminal."""
        found = super().get_driver_class()
        if "linux_driver" not in found.__module__:
            return found
        from opsconsole.tui.terminal import lasting

        return lasting(found)

    def get_default_screen(self) -> Screen[Any]:
        return ConsoleScreen(id="_default")

    @property
    def console_screen(self) -> ConsoleScreen | None:
        """The screen that draws, wherever it is in the stack."""
        return next((s for s in self._screen_stack if isinstance(s, ConsoleScreen)), None)

    def on_mount(self) -> None:
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        """After the first paint: talk to the agent, and notice when the terminal goes away."""
        from opsconsole.tui.lifeline import watch_terminal

        self.background(self.feed.run())
        self.background(asyncio.to_thread(load_the_rest))
        self.background(self._beat())
        watch_terminal(self, self.clock, self.owns_process)
        if self.owns_process:
            from opsconsole.tui.rubbish import keep_away

            self.background(keep_away(self.clock, lambda: self.pressed_at))

    def background(self, work: Awaitable[Any]) -> None:
        """Run something beside the screen; its errors are said at the foot, never raised."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.session.say(str(error) or type(error).__name__)
            self.repaint()

    async def on_unmount(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.recording.end)
        await self.feed.close()

    def _world_changed(self) -> None:
        before, self.session.live = self.session.live, self.feed.world
        if before.snapshot is not None and firing(self.feed.world) - firing(before) and self.session.settings.bell:
            self.bell()
        self.recording.take(before, self.feed.world)
        if self.clock.monotonic() - self._painted_at < self.least_between_s:
            return
        if self.session.shown is self.session.live:
            self.repaint()

    async def _beat(self) -> None:
        while True:
            await self.clock.sleep(BEAT_S)
            self._tick()

    def _tick(self) -> None:
        """Ages and messages move although no snapshot comes; a running stream repaints by itself."""
        world = self.session.live
        quiet = self.clock.now() - (world.received_at or 0.0)
        due = self.least_between_s and self.clock.monotonic() - self._painted_at >= self.least_between_s
        if due or quiet > 1.5 or self.session.state.message or self.session.shown is not world:
            self.repaint()

    def repaint(self) -> None:
        """Draw what changed."""
        screen = self.console_screen
        if screen is not None and screen.is_mounted:
            screen.draw()
            self._painted_at = self.clock.monotonic()

    def perform(self, action_id: str, argument: str = "") -> None:
        """One action, however it was asked for."""
        from opsconsole.tui import dispatch

        self.pressed_at = self.clock.monotonic()
        dispatch.perform(self, action_id, argument)
        self.repaint()

    # -- what dispatch asks of a terminal --------------------------------------------------------------------------

    def ask_line(self, kind: str) -> None:
        if (screen := self.console_screen) is not None:
            screen.ask_line(kind)

    def open_panel(self, name: str) -> None:
        if name == "palette":
            self.action_command_palette()
            return
        from opsconsole.tui.screens.panel import PanelScreen

        self.push_screen(PanelScreen(name, self.session, self.look_name))

    def action_command_palette(self) -> None:
        """Textual's own key for it comes here too."""
        from opsconsole.tui.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def plan(self, kind: str, argument: str) -> None:
        from opsconsole.tui.screens.dialog import open_dialog

        open_dialog(self, kind, argument)

    def travel(self, how: str, argument: str) -> None:
        from opsconsole.tui.travel import travel

        self.background(travel(self.session, self.feed.client, how, argument, self.repaint))

    def set_theme(self, name: str) -> None:
        names = list(theme.THEMES)
        self.look_name = name or names[(names.index(self.look_name) + 1) % len(names)]
        self.theme = f"ops-{self.look_name}"
        self.session.say(f"theme {self.look_name}")
        if (screen := self.console_screen) is not None:
            screen.grid.set_theme(self.look_name)

    def export(self, path: str) -> None:
        from opsconsole.tui.export import write

        self.session.say(write(self, path))

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """The palette: every action that works now, then every replica."""
        from opsconsole.tui.palette import commands

        yield from commands(self)
