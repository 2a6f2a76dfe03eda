"""What is seen, written to a file that `opsconsole replay` plays: begun and ended by one key, ended with the console.

It must not know the file's format; whoever starts the console supplies the writer. The trap: time travel and pause show
another moment, and a recording goes on with the live one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from opsconsole.domain.records import FleetSnapshot, JournalEntry
from opsconsole.errors import OpsConsoleError
from opsconsole.tui import format as fmt
from opsconsole.tui.session import Session
from opsconsole.tui.world import World


class Recorder(Protocol):
    """One file being written. Both calls may raise `OpsConsoleError`; `take` does not wait for the disk."""

    def take(self, snapshot: FleetSnapshot, entries: Sequence[JournalEntry]) -> None:
        """One tick, and what the journal said since the last."""
        ...

    def close(self) -> None:
        """All of it on the disk."""
        ...


class Recording:
    """The recording of one console, if any."""

    def __init__(
        self, session: Session, make: Callable[[str], Recorder] | None, is_web: Callable[[], bool] = lambda: False
    ) -> None:
        self._session, self._make, self._is_web = session, make, is_web
        self._recorder: Recorder | None = None
        self._path, self._ticks = "", 0

    def toggle(self, path: str) -> str:
        """Begin or end; the sentence for the foot."""
        if self._recorder is not None:
            return self.end()
        if self._is_web():
            return "not recorded: a reader in a browser writes no files here; the terminal's console does"
        if self._make is None:
            return "this console was started without a recorder; `opsconsole record` writes one"
        snapshot = self._session.live.snapshot
        if snapshot is None:
            return "there is nothing to record yet"
        at = fmt.clock(snapshot.at, self._session.look.zone).replace(":", "")
        self._path, self._ticks = path or f"opsconsole-{at}.rec", 0
        try:
            self._recorder = self._make(self._path)
        except (OpsConsoleError, OSError) as error:
            return f"not recorded: {error}"
        self._show(True)
        self.take(World(), self._session.live)
        return f"recording to {self._path}; r ends it"

    def take(self, before: World, now: World) -> None:
        """The live world changed; a tick that is new is written."""
        snapshot, last = now.snapshot, before.snapshot
        if self._recorder is None or snapshot is None:
            return
        if last is not None and (snapshot.tick, snapshot.at) == (last.tick, last.at):
            return
        known = {entry.seq for entry in before.journal}
        entries = tuple(e for e in now.journal if e.seq not in known) if before.journal else ()
        try:
            self._recorder.take(snapshot, entries)
            self._ticks += 1
        except (OpsConsoleError, OSError) as error:
            self._recorder = None
            self._show(False)
            self._session.say(f"the recording ended: {error}")

    def end(self) -> str:
        """Close the file if there is one; the sentence for the foot."""
        if self._recorder is None:
            return ""
        recorder, self._recorder = self._recorder, None
        self._show(False)
        try:
            recorder.close()
        except (OpsConsoleError, OSError) as error:
            return f"the recording is not complete: {error}"
        return f"{self._ticks} ticks in {self._path}; `opsconsole replay {self._path}` plays it"

    def _show(self, on: bool) -> None:
        self._session.look = replace(self._session.look, recording=on)
