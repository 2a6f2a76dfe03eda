"""The run and its requests in the database, and the summary read back from the view `run_summary`.

Numbers shown at the end come from the database and nowhere else. Trap: the agent writes to the same file; rows go in
small batches, and a writer waits for the other instead of failing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Ending, Record
from opsconsole.bench.goodput import is_good
from opsconsole.history.store import connect

BATCH, FLUSH_EVERY = 20, 1.0  # rows, s


class RunLog:
    """Writes one run."""

    def __init__(self, database: Path, run_id: str, bounds: Bounds) -> None:
        self._db = connect(database)
        self._run_id = run_id
        self._bounds = bounds
        self._zero = 0.0  # Unix time of the segment's start
        self._segment = 0
        self._flushed = 0.0  # offset of the request that was last written
        self._rows: list[tuple[Any, ...]] = []

    def open(self, started_at: float, load: str | None, config: Mapping[str, Any]) -> None:
        """The measured part begins now."""
        self._zero = started_at
        self._db.execute(
            "INSERT OR REPLACE INTO runs(run_id, started_at, load, config) VALUES (?, ?, ?, ?)",
            (self._run_id, started_at, load, json.dumps(dict(config))),
        )

    def begin_segment(self, zero: float, number: int) -> None:
        """Offsets of the records that follow count from `zero`, their indices from 0 again."""
        self._zero, self._segment = zero, number

    def add(self, record: Record) -> None:
        """One request has ended."""
        sent, met = self._zero + record.sent, is_good(record, self._bounds)
        intended = self._zero + record.intended
        self._rows.append(
            (
                self._run_id,
                f"{self._segment}-{record.index}",
                record.slo_class or "default",
                intended,
                sent,
                None if record.ttft is None else intended + record.ttft,
                None if record.e2e is None else intended + record.e2e,
                record.prompt_tokens,
                record.output_tokens,
                record.ending.value,
                int(record.ending is Ending.CUT),
                record.worker,
                int(met),
            )
        )
        if len(self._rows) >= BATCH or abs(record.sent - self._flushed) >= FLUSH_EVERY:
            self._flushed = record.sent
            self.flush()

    def flush(self) -> None:
        """Write what is waiting, as one transaction."""
        rows, self._rows = self._rows, []
        if rows:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(f"INSERT OR REPLACE INTO requests VALUES ({', '.join('?' * 13)})", rows)
            self._db.execute("COMMIT")

    def close(self, ended_at: float) -> None:
        """The measured part is over."""
        self.flush()
        self._db.execute("UPDATE runs SET ended_at = ? WHERE run_id = ?", (ended_at, self._run_id))
        self._db.close()


def read_summary(database: Path, run_id: str) -> dict[str, Any]:
    """The view's row, with its JSON columns as values."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)
    try:
        connection.row_factory = sqlite3.Row
        row = connection.execute("SELECT * FROM run_summary WHERE run_id = ?", (run_id,)).fetchone()
    finally:
        connection.close()
    fields = dict(row) if row is not None else {"run_id": run_id}
    fields["starts"] = json.loads(fields.get("starts") or "[]")
    return fields


def summary_lines(fields: Mapping[str, Any]) -> list[str]:
    """What a person reads at the end."""
    if not fields.get("offered"):
        lines = ["no request was offered by the built-in load"]
    else:
        attainment = fields["attainment"]
        lines = [
            f"offered {fields['offered']}, completed {fields['completed']}, failed {fields['failed']}, "
            f"streams cut {fields['streams_cut']}",
            f"attainment {attainment:.1%}, goodput {fields['goodput']:.2f} requests/s",
            f"TTFT {_spread(fields, 'ttft')}   TPOT {_spread(fields, 'tpot')}",
        ]
    lines.append(f"scale-ups {fields.get('scale_ups', 0)}, drains {fields.get('drains', 0)}")
    for start in fields["starts"]:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in start["phases"].items())
        lines.append(f"{start['worker']} useful {start['seconds']:.1f} s after its decision ({parts})")
    return lines


def _spread(fields: Mapping[str, Any], name: str) -> str:
    shown = []
    for share in ("p50", "p95", "p99"):
        value = fields[f"{name}_{share}"]
        shown.append(f"{share} -" if value is None else f"{share} {value * 1000:.0f} ms")
    return " ".join(shown)
