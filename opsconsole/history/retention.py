"""What is kept how long, and what goes first when the file grows past its cap.

Ages first, then size: the cap wins over every age. It knows tables and no records. The trap: deleting rows does not
shrink a file by itself; freed pages are given back by incremental vacuum, a bounded number a call, so that no tick
waits for it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

HOUR, DAY = 3600.0, 86400.0
VACUUM_PAGES = 2000
KEEP_TICKS = 60  # the newest are never dropped for size: screens and restart read them


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages in seconds; the cap in bytes."""

    every_tick_s: float = HOUR
    ten_seconds_s: float = DAY
    minutes_s: float = 30 * DAY
    journal_s: float = 30 * DAY
    requests_s: float = 30 * DAY
    most_bytes: int = 2 * 1024**3


def trim(db: sqlite3.Connection, now: float, keep: Retention) -> int:
    """Delete what is too old, then the least valuable of what is too much. The number of rows deleted."""
    db.execute("BEGIN IMMEDIATE")
    try:
        dropped = _by_age(db, now, keep) + _by_size(db, keep.most_bytes)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    for _ in db.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})"):
        pass
    return dropped


def used_bytes(db: sqlite3.Connection) -> int:
    pages, free, size = (
        int(db.execute(f"PRAGMA {what}").fetchone()[0]) for what in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _by_age(db: sqlite3.Connection, now: float, keep: Retention) -> int:
    rules: tuple[tuple[str, float], ...] = (
        ("DELETE FROM ticks WHERE level = 0 AND at < ?", now - keep.every_tick_s),
        ("DELETE FROM ticks WHERE level >= 1 AND at < ?", now - keep.ten_seconds_s),
        ("DELETE FROM decisions WHERE level = 0 AND at < ?", now - keep.every_tick_s),
        ("DELETE FROM decisions WHERE level = 1 AND at < ?", now - keep.ten_seconds_s),
        ("DELETE FROM decisions WHERE level = 2 AND at < ?", now - keep.journal_s),
        ("DELETE FROM minutes WHERE at < ?", now - keep.minutes_s),
        ("DELETE FROM journal WHERE at < ?", now - keep.journal_s),
        ("DELETE FROM acts WHERE ended_at IS NOT NULL AND at < ?", now - keep.journal_s),
        ("DELETE FROM starts WHERE decided_at < ?", now - keep.requests_s),
        ("DELETE FROM requests WHERE intended_at < ?", now - keep.requests_s),
        ("DELETE FROM runs WHERE ended_at IS NOT NULL AND ended_at < ?", now - keep.requests_s),
    )
    return sum(db.execute(rule, (before,)).rowcount for rule, before in rules)


# Least valuable first. Each deletes about a tenth of its kind, oldest rows first.
_BY_SIZE = (
    ("ticks", "level = 0", "at"),
    ("decisions", "level = 0", "at"),
    ("ticks", "level >= 1", "at"),
    ("decisions", "level = 1", "at"),
    ("requests", "1", "intended_at"),
    ("minutes", "1", "at"),
    ("decisions", "level = 2", "at"),
    ("journal", "1", "at"),
)


def _by_size(db: sqlite3.Connection, most: int) -> int:
    dropped = 0
    for table, which, order in _BY_SIZE:
        while used_bytes(db) > most:
            spared = f" AND tick NOT IN (SELECT tick FROM ticks ORDER BY tick DESC LIMIT {KEEP_TICKS})"
            where = which + (spared if table == "ticks" else "")
            count = int(db.execute(f"SELECT COUNT(*) FROM {table} WHERE {where}").fetchone()[0])
            if count == 0:
                break
            oldest = f"SELECT rowid FROM {table} WHERE {where} ORDER BY {order} LIMIT {max(1, count // 10)}"
            dropped += db.execute(f"DELETE FROM {table} WHERE rowid IN ({oldest})").rowcount
    return dropped
