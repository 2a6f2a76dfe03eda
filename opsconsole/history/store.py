"""The writing side of the one database file: ticks, decisions, journal, acts and standing state.

Everything a tick leaves behind goes in as one transaction, so a kill at any write loses at most that tick and never
half of one. It knows records and SQLite and not why anything was decided. One process writes ticks; others may write
their own tables (requests) beside it, hence WAL and a busy time-out. The trap: an act is written *before* the world is
touched (`begin_act`), so that a restart finds what may be half done instead of doing it again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opsconsole.domain.records import DecisionView, FleetSnapshot, JournalEntry, Outcome, Plan, RegretView
from opsconsole.domain.wire import dumps, from_json
from opsconsole.errors import RecordingError
from opsconsole.history import blob
from opsconsole.history.retention import Retention, trim
from opsconsole.history.schema import migrate

BUSY_S = 10.0
TRIM_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision with everything it was made from, as plain data."""

    decision: DecisionView
    situation: Any = None
    memory_delta: Any = None
    changed: bool = False  # worth keeping as long as the journal
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Act:
    """A plan that was applied, and how far it came."""

    plan: Plan
    by: str
    at: float
    status: str
    ended_at: float | None = None
    streams_cut: int = 0


def connect(path: Path, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Open (or create) the database for writing and bring its schema up to date."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise RecordingError(f"{path} cannot be opened: {error}.") from error
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        migrate(connection)
    except sqlite3.Error as error:
        connection.close()
        raise RecordingError(f"{path} is not an opsconsole database: {error}.") from error
    except RecordingError:
        connection.close()
        raise
    return connection


class Store:
    """The database, open for writing. Safe to call from any thread; calls are serialised."""

    def __init__(self, path: str | Path, retention: Retention | None = None) -> None:
        self.path = Path(path)
        self._retention = retention or Retention()
        self._lock = threading.RLock()
        self._db = connect(self.path)
        self._trimmed_at: float | None = None
        row = self._db.execute("SELECT at FROM ticks ORDER BY tick DESC LIMIT 1").fetchone()
        self._last_at: float | None = row[0] if row else None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def write_tick(
        self,
        snapshot: FleetSnapshot,
        decisions: Sequence[DecisionRow] = (),
        entries: Sequence[JournalEntry] = (),
        state: Mapping[str, str] | None = None,
        text: str | None = None,
        regrets: Sequence[RegretView] = (),
    ) -> tuple[JournalEntry, ...]:
        """All a tick leaves behind, or nothing of it. The entries come back with their numbers.

        `text` is the snapshot's own wire JSON where the caller has it already. `regrets` are kept with the decisions
        they are about.
        """
        packed = blob.pack(snapshot) if text is None else blob.pack_text(text)
        rows = [_decision_row(row, snapshot, self._level(snapshot.at, 10.0)) for row in decisions]
        minute = blob.pack(blob.pools_only(snapshot)) if self._level(snapshot.at, 60.0) else None
        with self._transaction() as db:
            level = self._level(snapshot.at, 10.0)
            db.execute("INSERT OR REPLACE INTO ticks VALUES (?, ?, ?, ?)", (snapshot.tick, snapshot.at, level, packed))
            if minute is not None:
                db.execute(
                    "INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, ?)",
                    (int(snapshot.at // 60), snapshot.at, snapshot.tick, minute),
                )
            db.executemany("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            numbered = tuple(_insert_entry(db, entry) for entry in entries)
            for key, value in (state or {}).items():
                db.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (key, snapshot.at, value))
            for regret in regrets:
                _look_back(db, regret)
        self._last_at = snapshot.at
        if self._trimmed_at is None or not 0 <= snapshot.at - self._trimmed_at < TRIM_EVERY_S:
            self.trim(snapshot.at)
        return numbered

    def _level(self, at: float, span: float) -> int:
        return int(self._last_at is None or at // span != self._last_at // span)

    def write_entries(self, entries: Sequence[JournalEntry]) -> tuple[JournalEntry, ...]:
        """Journal lines outside a tick: a person's word, an outcome that came later."""
        with self._transaction() as db:
            return tuple(_insert_entry(db, entry) for entry in entries)

    def begin_act(self, plan: Plan, by: str, at: float) -> bool:
        """Write down that `plan` is about to be applied. False when it was written before: do not apply it again."""
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT OR IGNORE INTO acts(plan_id, at, kind, pool, from_count, to_count, by, status, plan) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'begun', ?)",
                (plan.plan_id, at, str(plan.kind), plan.pool, plan.from_count, plan.to_count, by, dumps(plan)),
            )
            return cursor.rowcount == 1

    def update_act(self, outcome: Outcome) -> None:
        """How far an act came. Any status but `running` ends it."""
        ended = None if outcome.status == "running" else outcome.at
        with self._transaction() as db:
            db.execute(
                "UPDATE acts SET status = ?, ended_at = ?, streams_cut = ? WHERE plan_id = ?",
                (outcome.status, ended, outcome.streams_cut, outcome.plan_id),
            )

    def open_acts(self) -> tuple[Act, ...]:
        """Acts begun and not ended, oldest first: what a restart has to follow."""
        with self._lock:
            rows = self._db.execute(
                "SELECT plan, by, at, status, ended_at, streams_cut FROM acts WHERE ended_at IS NULL ORDER BY at"
            ).fetchall()
        return tuple(Act(from_json(Plan, json.loads(row[0])), *row[1:]) for row in rows)

    def get_state(self, prefix: str) -> dict[str, str]:
        """Standing state by key (memory, holds, silences) whose key starts with `prefix`."""
        with self._lock:
            rows = self._db.execute(
                "SELECT key, value FROM state WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
            ).fetchall()
        return dict(rows)

    def put_state(self, key: str, value: str | None, at: float) -> None:
        """Keep a value under a key, or forget it (None)."""
        with self._transaction() as db:
            if value is None:
                db.execute("DELETE FROM state WHERE key = ?", (key,))
            else:
                db.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (key, at, value))

    def last_tick(self) -> int:
        """The number of the newest tick; 0 in an empty file. The next process counts on from here."""
        with self._lock:
            row = self._db.execute(
                "SELECT MAX(t) FROM (SELECT MAX(tick) AS t FROM ticks UNION ALL SELECT MAX(tick) FROM minutes)"
            )
            return int(row.fetchone()[0] or 0)

    def trim(self, now: float) -> int:
        """Drop what is too old, then what is too much; the number of rows dropped."""
        with self._lock:
            self._trimmed_at = now
            return trim(self._db, now, self._retention)

    def size_bytes(self) -> int:
        """Bytes of the file in use (free pages not counted)."""
        from opsconsole.history.retention import used_bytes

        with self._lock:
            return used_bytes(self._db)


def _decision_row(row: DecisionRow, snapshot: FleetSnapshot, level: int) -> tuple[Any, ...]:
    made = row.decision
    data = {
        "decision": made,
        "situation": row.situation,
        "memory_delta": row.memory_delta,
        "tick": snapshot.tick,
        **row.extra,
    }
    kept = 2 if row.changed else level
    return (snapshot.at, made.pool, snapshot.tick, kept, made.current, made.target, blob.pack(data))


def _look_back(db: sqlite3.Connection, regret: RegretView) -> None:
    """Keep a judgement with its decision, where that is still there."""
    key = (regret.pool, regret.decided_at)
    row = db.execute("SELECT blob FROM decisions WHERE pool = ? AND at = ?", key).fetchone()
    if row is not None:
        data = {**blob.unpack_data(row[0]), "regret": regret}
        db.execute("UPDATE decisions SET blob = ? WHERE pool = ? AND at = ?", (blob.pack(data), *key))


def _insert_entry(db: sqlite3.Connection, entry: JournalEntry) -> JournalEntry:
    cursor = db.execute(
        "INSERT INTO journal(at, kind, pool, who, tick, text, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (entry.at, entry.kind, entry.pool, entry.who, entry.tick, entry.text, dumps(replace(entry, seq=0))),
    )
    return replace(entry, seq=int(cursor.lastrowid or 0))
