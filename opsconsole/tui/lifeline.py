"""Notices that the terminal is gone and ends the application, instead of spinning on a dead input for ever.

It must not touch the screen. The traps: a hung-up terminal reports its end on every poll, which makes an input loop run
at full speed; the poll here asks for nothing but the hang-up, seldom, as the thread that reads keys notices it too. A
terminal's window that is closed sends SIGHUP more than once, and an event loop that ends gives its signals back to what
kills: so they are taken from the process, not from the loop, and one that comes while we clean up does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from opsconsole.clock import Clock

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp

PERIOD_S = 4.0


def hung_up(fileno: int) -> bool:
    """Whether the other end of this terminal is closed."""
    poller = select.poll()
    poller.register(fileno, 0)  # hang-up and error are reported without being asked for
    found = poller.poll(0)
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in found)


def watch_terminal(app: ConsoleApp, clock: Clock, owns_process: bool) -> None:
    """End the application on a terminal that hung up, and on SIGHUP and SIGTERM where the process is its own."""
    loop = asyncio.get_running_loop()

    def leave(number: int, frame: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and we are leaving
            loop.call_soon_threadsafe(app.exit, 0)

    for number in (signal.SIGHUP, signal.SIGTERM) if owns_process else ():
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(number, leave)
    if app.is_headless or sys.__stdin__ is None or not sys.__stdin__.isatty():
        return
    app.background(_poll(app, clock, sys.__stdin__.fileno()))


def _fit(app: ConsoleApp, fileno: int) -> None:
    """A signal of a new size can be lost on a busy machine; the terminal itself always knows."""
    from textual.events import Resize
    from textual.geometry import Size

    with contextlib.suppress(OSError):
        size = Size(*os.get_terminal_size(fileno))
        if size != app.size:
            app.post_message(Resize(size, size))
        elif size != app.screen.size:
            app.screen.post_message(Resize(size, size))


async def _poll(app: ConsoleApp, clock: Clock, fileno: int) -> None:
    while not hung_up(fileno):
        _fit(app, fileno)
        await clock.sleep(PERIOD_S)
    app.exit(0)
