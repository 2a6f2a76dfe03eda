"""The database's shape, one migration after another, and the view the run's summary is read from.

One file holds history, journal, standing orders and the requests of single-node mode. It knows SQL and no records.
The trap: a migration that has shipped is never edited; a change is a new entry at the end, and every process that
opens the file runs what is missing, so two may try at once (hence the immediate transaction).

Requests, for their writers: times are Unix seconds; `status` is 'ok' for a request answered in full, else a word for
what went wrong; `cut` is 1 when a stream that had begun was broken; `met` is 1 when every bound of its class held.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from opsconsole.errors import RecordingError

_TABLES = (
    # level: 0 is one tick, 1 the first tick of a ten-second span (kept a day).
    "CREATE TABLE ticks(tick INTEGER PRIMARY KEY, at REAL NOT NULL, level INTEGER NOT NULL, blob BLOB NOT NULL)",
    "CREATE INDEX ticks_at ON ticks(at)",
    "CREATE INDEX ticks_level ON ticks(level, at)",
    "CREATE TABLE minutes(minute INTEGER PRIMARY KEY, at REAL NOT NULL, tick INTEGER NOT NULL, blob BLOB NOT NULL)",
    "CREATE INDEX minutes_at ON minutes(at)",
    # level 2: the decision changed something or was worded differently; kept as long as the journal.
    """CREATE TABLE decisions(at REAL NOT NULL, pool TEXT NOT NULL, tick INTEGER NOT NULL, level INTEGER NOT NULL,
       current INTEGER NOT NULL, target INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY(pool, at))""",
    "CREATE INDEX decisions_level ON decisions(level, at)",
    """CREATE TABLE journal(seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL,
       pool TEXT NOT NULL, who TEXT NOT NULL, tick INTEGER, text TEXT NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX journal_at ON journal(at)",
    # One row a plan that was applied, written before the world is touched.
    """CREATE TABLE acts(plan_id TEXT PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, pool TEXT NOT NULL,
       from_count INTEGER, to_count INTEGER, by TEXT NOT NULL, status TEXT NOT NULL, ended_at REAL,
       streams_cut INTEGER NOT NULL DEFAULT 0, plan TEXT NOT NULL)""",
    "CREATE INDEX acts_at ON acts(at)",
    "CREATE TABLE state(key TEXT PRIMARY KEY, at REAL NOT NULL, value TEXT NOT NULL)",
    """CREATE TABLE runs(run_id TEXT PRIMARY KEY, started_at REAL NOT NULL, ended_at REAL, load TEXT,
       config TEXT NOT NULL DEFAULT '{}')""",
    """CREATE TABLE requests(run_id TEXT NOT NULL, id TEXT NOT NULL, slo_class TEXT NOT NULL DEFAULT 'default',
       intended_at REAL NOT NULL, sent_at REAL, first_at REAL, last_at REAL, prompt_tokens INTEGER,
       output_tokens INTEGER, status TEXT NOT NULL, cut INTEGER NOT NULL DEFAULT 0, worker TEXT,
       met INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(run_id, id))""",
    # From the decision to the first useful token of the worker it bought; phases: {"spawn": 0.2, "load": 3.1, ...}.
    """CREATE TABLE starts(worker TEXT NOT NULL, decided_at REAL NOT NULL, useful_at REAL,
       phases TEXT NOT NULL DEFAULT '{}', PRIMARY KEY(worker, decided_at))""",
)

# Quantiles by nearest rank: the smallest value with at least q of the values at or below it, rank = ceil(q x n).
_RUN_SUMMARY = """CREATE VIEW run_summary AS
WITH span AS (
  SELECT run_id, started_at, load,
         COALESCE(ended_at, (SELECT MAX(COALESCE(last_at, sent_at, intended_at)) FROM requests q
                             WHERE q.run_id = runs.run_id)) AS ended_at
  FROM runs),
counts AS (
  SELECT run_id, COUNT(*) AS offered, SUM(status = 'ok') AS completed, SUM(status <> 'ok') AS failed,
         SUM(cut) AS streams_cut, SUM(met) AS met, SUM(COALESCE(prompt_tokens, 0)) AS prompt_tokens,
         SUM(COALESCE(output_tokens, 0)) AS output_tokens
  FROM requests GROUP BY run_id),
ttft AS (
  SELECT run_id, first_at - intended_at AS v,
         ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY first_at - intended_at) AS i,
         COUNT(*) OVER (PARTITION BY run_id) AS n
  FROM requests WHERE first_at IS NOT NULL),
tpot AS (
  SELECT run_id, (last_at - first_at) / (output_tokens - 1) AS v,
         ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY (last_at - first_at) / (output_tokens - 1)) AS i,
         COUNT(*) OVER (PARTITION BY run_id) AS n
  FROM requests WHERE status = 'ok' AND first_at IS NOT NULL AND last_at IS NOT NULL AND output_tokens >= 2),
ttft_q AS (
  SELECT run_id, MAX(CASE WHEN i = (n * 50 + 99) / 100 THEN v END) AS p50,
         MAX(CASE WHEN i = (n * 95 + 99) / 100 THEN v END) AS p95,
         MAX(CASE WHEN n >= 1000 AND i = (n * 99 + 99) / 100 THEN v END) AS p99 FROM ttft GROUP BY run_id),
tpot_q AS (
  SELECT run_id, MAX(CASE WHEN i = (n * 50 + 99) / 100 THEN v END) AS p50,
         MAX(CASE WHEN i = (n * 95 + 99) / 100 THEN v END) AS p95,
         MAX(CASE WHEN n >= 1000 AND i = (n * 99 + 99) / 100 THEN v END) AS p99 FROM tpot GROUP BY run_id)
SELECT s.run_id, s.load, s.started_at, s.ended_at, s.ended_at - s.started_at AS duration_s,
  COALESCE(c.offered, 0) AS offered, COALESCE(c.completed, 0) AS completed, COALESCE(c.failed, 0) AS failed,
  COALESCE(c.streams_cut, 0) AS streams_cut,
  (SELECT COUNT(*) FROM acts a WHERE a.kind = 'scale' AND a.to_count > a.from_count
     AND a.status IN ('applied', 'running', 'done') AND a.at BETWEEN s.started_at AND s.ended_at) AS scale_ups,
  (SELECT COUNT(*) FROM acts a WHERE (a.kind = 'drain' OR (a.kind = 'scale' AND a.to_count < a.from_count))
     AND a.status IN ('applied', 'running', 'done') AND a.at BETWEEN s.started_at AND s.ended_at) AS drains,
  CASE WHEN c.offered > 0 THEN 1.0 * c.met / c.offered END AS attainment,
  CASE WHEN s.ended_at > s.started_at THEN COALESCE(c.met, 0) / (s.ended_at - s.started_at) END AS goodput,
  t.p50 AS ttft_p50, t.p95 AS ttft_p95, t.p99 AS ttft_p99, p.p50 AS tpot_p50, p.p95 AS tpot_p95, p.p99 AS tpot_p99,
  COALESCE(c.prompt_tokens, 0) AS prompt_tokens, COALESCE(c.output_tokens, 0) AS output_tokens,
  (SELECT json_group_array(json_object('worker', b.worker, 'decided_at', b.decided_at,
            'seconds', b.useful_at - b.decided_at, 'phases', json(b.phases)))
     FROM starts b WHERE b.useful_at IS NOT NULL AND b.decided_at BETWEEN s.started_at AND s.ended_at) AS starts
FROM span s LEFT JOIN counts c USING (run_id) LEFT JOIN ttft_q t USING (run_id) LEFT JOIN tpot_q p USING (run_id)"""

MIGRATIONS: tuple[tuple[str, ...], ...] = ((*_TABLES, _RUN_SUMMARY),)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> int:
    """Bring the file to the newest version; the version it had. Safe when several processes open it at once."""
    newest = len(migrations)
    found = version(connection)
    if found == newest:
        return found
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version(connection)
        if found > newest:
            raise RecordingError(
                f"This database was written by a newer opsconsole (schema {found}, this one knows {newest}): update it."
            )
        for step in migrations[found:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return found


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
