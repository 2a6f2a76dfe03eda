"""A terminal that may go away at any moment: what is written to it afterwards is dropped instead of raising.

It must not know what is drawn. The trap: Textual writes from a thread through a short queue; an error there ends the
thread, the queue fills, and the next write of the main thread waits for ever, with every process behind it. A hang-up
also sends SIGCONT, on which Textual starts such a thread anew on the dead terminal.
"""

from __future__ import annotations

import contextlib
from io import TextIOWrapper
from typing import IO, cast

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver


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
    """Textual's own driver on a lasting stream."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast(TextIOWrapper, Lasting(cast(IO[str], self._file)))


def lasting(found: type[Driver]) -> type[Driver]:
    """The lasting form of a driver; only the one that draws on this process's terminal has one."""
    return LastingDriver if found is LinuxDriver else found
