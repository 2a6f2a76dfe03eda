"""The reading side of the database: seek, step, range, next decision, journal, a run's summary.

It opens the file read-only and sees a consistent state while the agent writes. It knows nothing of the agent. The
trap: beyond a day only the minutes' totals are left, so a snapshot from there has pools and no replicas, and says so
in its notes.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from opsconsole.domain.records import DecisionView, FleetSnapshot, JournalEntry, RegretView
from opsconsole.domain.wire import from_json
from opsconsole.errors import RecordingError
from opsconsole.history import blob
from opsconsole.history.schema import MIGRATIONS, version

TOTALS_ONLY = "totals only: replicas are kept for a day"


class PastDecision(NamedTuple):
    """A decision as it was made, with the situation it was made from."""

    at: float
    tick: int
    decision: DecisionView
    situation: Any  # plain data of policies.Situation; None where it was not kept
    memory_delta: Any
    extra: Mapping[str, Any]  # what else was kept with it


class Bounds(NamedTuple):
    """How far the file reaches, Unix seconds."""

    first: float
    last: float


class Reader:
    """A database, open for reading. One instance may be used from several threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise RecordingError(f"{self.path} does not exist: name a database written by an agent or `record`.")
        self._lock = threading.Lock()
        self._db = _open(self.path)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RecordingError(f"{self.path} cannot be read: {error}.") from error

    def bounds(self) -> Bounds | None:
        """First and last instant there is a snapshot of; None in an empty file."""
        row = self._rows("SELECT MIN(at), MAX(at) FROM (SELECT at FROM ticks UNION ALL SELECT at FROM minutes)")[0]
        return None if row[0] is None else Bounds(row[0], row[1])

    def replicas_since(self) -> float | None:
        """The first instant with every replica in it; before it there are totals of pools only, or nothing."""
        found: float | None = self._rows("SELECT MIN(at) FROM ticks")[0][0]
        return found

    def at(self, at: float) -> FleetSnapshot | None:
        """The snapshot that was newest at `at`."""
        return self._one(
            "SELECT blob, at FROM ticks WHERE at <= ? ORDER BY at DESC LIMIT 1",
            "SELECT blob, at FROM minutes WHERE at <= ? ORDER BY at DESC LIMIT 1",
            at,
            newest=True,
        )

    def step(self, at: float, direction: int) -> FleetSnapshot | None:
        """The next snapshot after `at` (`direction` 1) or the one before it (-1)."""
        sign, order = (">", "ASC") if direction > 0 else ("<", "DESC")
        return self._one(
            f"SELECT blob, at FROM ticks WHERE at {sign} ? ORDER BY at {order} LIMIT 1",
            f"SELECT blob, at FROM minutes WHERE at {sign} ? ORDER BY at {order} LIMIT 1",
            at,
            newest=direction < 0,
        )

    def _one(self, ticks: str, minutes: str, at: float, *, newest: bool) -> FleetSnapshot | None:
        full, coarse = self._rows(ticks, (at,)), self._rows(minutes, (at,))
        if full and coarse and full[0][1] != coarse[0][1]:
            closer_is_full = (full[0][1] > coarse[0][1]) == newest
            return _full(full[0][0]) if closer_is_full else _totals(coarse[0][0])
        if full:
            return _full(full[0][0])
        return _totals(coarse[0][0]) if coarse else None

    def range(
        self,
        since: float,
        until: float,
        *,
        step: float | None = None,
        pools_only: bool = False,
        limit: int = 600,
    ) -> tuple[FleetSnapshot, ...]:
        """Snapshots in [since, until], oldest first, at most one per `step` seconds, the newest `limit` of them."""
        rows = self._rows(
            "SELECT at, 0, tick FROM ticks WHERE at BETWEEN ? AND ? UNION "
            "SELECT at, 1, minute FROM minutes m WHERE at BETWEEN ? AND ? "
            "AND NOT EXISTS (SELECT 1 FROM ticks t WHERE t.tick = m.tick) ORDER BY 1",
            (since, until, since, until),
        )
        kept = _thin(rows, step)[-limit:]
        found: list[FleetSnapshot] = []
        for _, coarse, key in kept:
            table, column = ("minutes", "minute") if coarse else ("ticks", "tick")
            row = self._rows(f"SELECT blob FROM {table} WHERE {column} = ?", (key,))
            if row:  # the writer may have dropped it since
                snapshot = _totals(row[0][0]) if coarse else _full(row[0][0])
                found.append(blob.pools_only(snapshot) if pools_only else snapshot)
        return tuple(found)

    def totals(self, since: float, until: float) -> Iterator[FleetSnapshot]:
        """Totals of pools, one a minute in [since, until), oldest first: the cheap way through days."""
        for (data,) in self._rows("SELECT blob FROM minutes WHERE at >= ? AND at < ? ORDER BY at", (since, until)):
            yield _totals(data)

    def next_change(self, at: float, direction: int = 1, pool: str | None = None) -> float | None:
        """When the next (or previous) decision was made that moved a target away from what there was."""
        sign, order = (">", "ASC") if direction > 0 else ("<", "DESC")
        rows = self._rows(
            f"SELECT at FROM decisions WHERE at {sign} ? AND current <> target AND (? IS NULL OR pool = ?) "
            f"ORDER BY at {order} LIMIT 1",
            (at, pool, pool),
        )
        return rows[0][0] if rows else None

    def decisions_at(self, at: float, pool: str | None = None) -> tuple[PastDecision, ...]:
        """The newest decision of each pool that was made no later than `at`."""
        rows = self._rows(
            "SELECT d.at, d.tick, d.blob FROM decisions d JOIN (SELECT pool, MAX(at) AS at FROM decisions "
            "WHERE at <= ? AND (? IS NULL OR pool = ?) GROUP BY pool) newest "
            "ON d.pool = newest.pool AND d.at = newest.at ORDER BY d.pool",
            (at, pool, pool),
        )
        return tuple(_past(*row) for row in rows)

    def journal(
        self,
        *,
        after: int | None = None,
        since: float | None = None,
        until: float | None = None,
        kind: str | None = None,
        pool: str | None = None,
        limit: int = 200,
    ) -> tuple[JournalEntry, ...]:
        """The newest `limit` entries that fit, oldest of them first."""
        rules = (("seq > ?", after), ("at >= ?", since), ("at <= ?", until), ("kind = ?", kind), ("pool = ?", pool))
        given = [(rule, value) for rule, value in rules if value is not None]
        where = " AND ".join(rule for rule, _ in given) or "1"
        rows = self._rows(
            f"SELECT seq, body FROM journal WHERE {where} ORDER BY seq DESC LIMIT ?", (*(v for _, v in given), limit)
        )
        return tuple(replace(from_json(JournalEntry, json.loads(body)), seq=seq) for seq, body in reversed(rows))

    def run_summary(self, run_id: str | None = None) -> dict[str, Any] | None:
        """The row of `run_summary` for a run, by default the newest; None where there is none."""
        query = "SELECT * FROM run_summary WHERE ? IS NULL OR run_id = ? ORDER BY started_at DESC LIMIT 1"
        with self._lock:
            cursor = self._db.execute(query, (run_id, run_id))
            row = cursor.fetchone()
            names = [column[0] for column in cursor.description]
        if row is None:
            return None
        found = dict(zip(names, row, strict=True))
        found["starts"] = json.loads(found["starts"] or "[]")
        return found

    def check(self) -> str:
        """`ok`, or what SQLite finds wrong with the file."""
        return str(self._rows("PRAGMA integrity_check")[0][0])


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0, check_same_thread=False)
        found = version(connection)
    except sqlite3.Error as error:
        raise RecordingError(f"{path} is not an opsconsole database: {error}.") from error
    if found != len(MIGRATIONS):
        connection.close()
        what = (
            "no opsconsole database" if found == 0 else f"of schema {found}, and this version reads {len(MIGRATIONS)}"
        )
        raise RecordingError(f"{path} is {what}: start the agent on it once to bring it up to date.")
    return connection


def _full(data: bytes) -> FleetSnapshot:
    return blob.unpack(FleetSnapshot, data)


def _totals(data: bytes) -> FleetSnapshot:
    found = blob.unpack(FleetSnapshot, data)
    return replace(found, notes=(*found.notes, TOTALS_ONLY))


def _thin(rows: list[Any], step: float | None) -> list[Any]:
    if step is None or step <= 0:
        return rows
    kept: list[Any] = []
    for row in rows:
        if not kept or row[0] // step != kept[-1][0] // step:
            kept.append(row)
    return kept


def _past(at: float, tick: int, data: bytes) -> PastDecision:
    held = blob.unpack_data(data)
    decision, regret = from_json(DecisionView, held["decision"]), held.get("regret")
    if regret is not None:
        decision = replace(decision, regret=from_json(RegretView, regret))
    known = ("decision", "situation", "memory_delta", "tick", "regret")
    extra = {k: v for k, v in held.items() if k not in known}
    return PastDecision(at, tick, decision, held.get("situation"), held.get("memory_delta"), extra)
