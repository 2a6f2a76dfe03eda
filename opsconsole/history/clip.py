"""The past of a recording in a database of its own, and a recording made ready to be carried away.

It copies rows and knows no records. A replay that begins at noon needs the morning: for rates and windows of its first
tick, for the charts, for looking back. The trap: an hour of a thousand replicas is gigabytes, so what is copied has a
budget, newest first, and older ticks only one in ten seconds.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsconsole.errors import RecordingError
from opsconsole.history.retention import DAY, HOUR
from opsconsole.history.store import connect

EVERY_TICK_S = 600.0
BUDGET_BYTES = 128 * 2**20
LINES = 5000


def copy_past(source: Path, target: Path, until: float, budget: int = BUDGET_BYTES) -> int:
    """Write what stood in `source` before `until` into a new database; the number of ticks copied."""
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old,
            contextlib.closing(connect(target)) as new,
        ):
            new.execute("BEGIN IMMEDIATE")
            ticks = _copy(new, "ticks", _within(_ticks(old, until), budget))
            _copy(new, "minutes", _rows(old, "minutes", "at < ? AND at >= ?", (until, until - 30 * DAY)))
            recent = (until, until - EVERY_TICK_S, until - DAY)
            _copy(new, "decisions", _rows(old, "decisions", "at < ? AND at >= iif(level = 0, ?, ?)", recent))
            lines = "seq IN (SELECT seq FROM journal WHERE at < ? ORDER BY seq DESC LIMIT ?)"
            _copy(new, "journal", _rows(old, "journal", lines, (until, LINES)))
            new.execute("COMMIT")
            return ticks
    except sqlite3.Error as error:
        raise RecordingError(f"{source} cannot be read: {error}.") from error


def seal(path: Path) -> None:
    """One plain file instead of three, which opens where nothing can be written."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise RecordingError(f"{path} cannot be finished: {error}.") from error


def _ticks(db: sqlite3.Connection, until: float) -> Iterator[tuple[Any, ...]]:
    """Newest first: every tick of the last minutes, then one in ten seconds of the last hour."""
    near = until - EVERY_TICK_S
    yield from db.execute("SELECT * FROM ticks WHERE at < ? AND at >= ? ORDER BY at DESC", (until, near))
    yield from db.execute(
        "SELECT * FROM ticks WHERE level >= 1 AND at < ? AND at >= ? ORDER BY at DESC", (near, until - HOUR)
    )


def _within(rows: Iterator[tuple[Any, ...]], budget: int) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        budget -= len(row[-1])
        if budget < 0:
            return
        yield row


def _rows(db: sqlite3.Connection, table: str, which: str, values: tuple[float, ...]) -> Iterator[tuple[Any, ...]]:
    yield from db.execute(f"SELECT * FROM {table} WHERE {which}", values)


def _copy(db: sqlite3.Connection, table: str, rows: Iterator[tuple[Any, ...]]) -> int:
    count = 0
    for row in rows:
        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        count += 1
    return count
