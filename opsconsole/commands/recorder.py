"""What a console sees, written as a recording: the same file as `opsconsole record` writes and `replay` plays.

It decides nothing and keeps everything it is given, up to the size every recording has. The trap: a screen must not
wait for the disk, so one thread writes in turn and an error of its comes with the next tick.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from opsconsole.domain.records import FleetSnapshot, JournalEntry
from opsconsole.errors import RecordingError
from opsconsole.history.clip import seal
from opsconsole.history.retention import Retention
from opsconsole.history.store import Store

MOST_BYTES = 2 * 1024**3
WAITING_MOST = 120  # ticks; a disk that is further behind ends the recording


class FileRecorder:
    """One recording."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if self.path.exists():
            raise RecordingError(f"{self.path} is there already: name another file.")
        if not self.path.parent.is_dir():
            raise RecordingError(f"{self.path.parent} is no folder.")
        ever = math.inf
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recorder")
        self._waiting: list[Future[None]] = []
        self._tick = 0
        keep = Retention(ever, ever, ever, ever, ever, MOST_BYTES)
        try:
            self._store = self._thread.submit(Store, self.path, keep).result()
        except (sqlite3.Error, OSError) as error:
            raise RecordingError(f"{self.path} cannot be written: {error}.") from error

    def take(self, snapshot: FleetSnapshot, entries: Sequence[JournalEntry]) -> None:
        self._check()
        self._tick += 1
        told = tuple(replace(entry, seq=0) for entry in entries)
        self._waiting.append(self._thread.submit(self._write, replace(snapshot, tick=self._tick), told))

    def _write(self, snapshot: FleetSnapshot, entries: tuple[JournalEntry, ...]) -> None:
        self._store.write_tick(snapshot, (), entries, {})

    def _check(self) -> None:
        """Raise what went wrong with an earlier tick."""
        done = [future for future in self._waiting if future.done()]
        self._waiting = [future for future in self._waiting if not future.done()]
        if len(self._waiting) > WAITING_MOST:
            raise RecordingError(f"{self.path}: the disk is {len(self._waiting)} ticks behind.")
        for future in done:
            _settle(future, self.path)

    def close(self) -> None:
        try:
            for future in self._waiting:
                _settle(future, self.path)
        finally:
            self._thread.submit(self._store.close).result()
            self._thread.shutdown()
        seal(self.path)


def _settle(future: Future[None], path: Path) -> None:
    try:
        future.result()
    except (sqlite3.Error, OSError) as error:
        raise RecordingError(f"{path} cannot be written: {error}.") from error
