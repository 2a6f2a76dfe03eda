"""A terminal that may go away at any moment: what is written to it afterwards is dropped instead of raising.

It must not know what is drawn. The trap: Textual writes from a thread through a short queue; an error there ends the
thread, the queue fills, and the next write of the main thread waits for ever, with every process behind it. A hang-up
also sends SIGCONT, on which Textual starts such a thread anew on the dead terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
from codecs import getincrementaldecoder
from io import TextIOWrapper
from typing import IO, cast

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.constants import ESCAPE_DELAY
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

LOOK_MS = 100
LOOKS = 2 + int(ESCAPE_DELAY * 1000 / LOOK_MS)  # after what was typed last: then an Escape is a key, or a sequence came


class Lasting:
    """A text stream whose other end may be gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """All of it, or nothing where nobody reads any more."""
        with contextlib.suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()


class LastingDriver(LinuxDriver):
    """Textual's own driver on a lasting stream, whose thread for keys sleeps until there is one."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast(TextIOWrapper, Lasting(cast(IO[str], self._file)))
        self._ended, self._end = os.pipe()  # for as long as the process, which may be stopped and go on

    def disable_input(self) -> None:
        os.write(self._end, b"x")  # read back here and nowhere else, so that it ends the thread that waits now
        super().disable_input()
        os.read(self._ended, 1)

    def run_input_thread(self) -> None:
        """Keys to messages until told to end. Textual's own looks ten times a second whether an Escape stays alone;
        here that is done for as long as one may, and a terminal that hung up ends the application."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        poller = select.poll()
        for fileno in (self.fileno, self._ended):
            poller.register(fileno, select.POLLIN)
        looks = 0  # left until no key is in the middle of coming
        while self._ended not in (ready := dict(poller.poll(LOOK_MS if looks else None))):
            looks = max(0, looks - 1)
            if self.fileno in ready:
                if not (data := self._typed()):
                    with contextlib.suppress(RuntimeError):  # the application has ended
                        self._loop.call_soon_threadsafe(self._app.exit, 0)
                    return
                looks = LOOKS
                for message in parser.feed(decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def _typed(self) -> bytes:
        """What was typed; nothing where the terminal is gone."""
        with contextlib.suppress(OSError):
            return os.read(self.fileno, 4096)
        return b""


def lasting(found: type[Driver]) -> type[Driver]:
    """The lasting form of a driver; only the one that draws on this process's terminal has one."""
    return LastingDriver if found is LinuxDriver else found
