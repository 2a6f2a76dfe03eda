"""The requests of a run in single-node mode, written by whoever sent or served them; `run_summary` reads them.

It knows the table and not how a request was made. Rows are buffered and written together, so that the load generator
does not wait for the disk at every request. The trap: a `run_id` names one measured span; warm-up and calibration
belong to no run and are not written at all.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from opsconsole.history.store import connect

FLUSH_ROWS = 200


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request as measured. Times are Unix seconds; `status` is "ok" or a word for what went wrong."""

    run_id: str
    id: str
    slo_class: str
    intended_at: float
    sent_at: float | None = None
    first_at: float | None = None
    last_at: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    status: str = "ok"
    cut: bool = False  # a stream that had begun was broken
    worker: str | None = None
    met: bool = False  # every bound of its class held


class RequestLog:
    """Appends runs, requests and worker starts to the database beside the agent that writes ticks."""

    def __init__(self, path: str | Path) -> None:
        self._db = connect(Path(path))
        self._lock = threading.Lock()
        self._pending: list[tuple[Any, ...]] = []

    def start_run(self, run_id: str, at: float, load: str = "", config: Mapping[str, Any] | None = None) -> None:
        with self._lock:
            self._db.execute(
                "INSERT INTO runs(run_id, started_at, load, config) VALUES (?, ?, ?, ?)",
                (run_id, at, load, json.dumps(dict(config or {}))),
            )

    def end_run(self, run_id: str, at: float) -> None:
        self.flush()
        with self._lock:
            self._db.execute("UPDATE runs SET ended_at = ? WHERE run_id = ?", (at, run_id))

    def add(self, row: RequestRow) -> None:
        with self._lock:
            self._pending.append(astuple(row))
            full = len(self._pending) >= FLUSH_ROWS
        if full:
            self.flush()

    def add_start(self, worker: str, decided_at: float, useful_at: float | None, phases: Mapping[str, float]) -> None:
        """A worker's way from decision to first useful token; `phases` in seconds, in order."""
        with self._lock:
            self._db.execute(
                "INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?)",
                (worker, decided_at, useful_at, json.dumps(dict(phases))),
            )

    def flush(self) -> None:
        with self._lock:
            rows, self._pending = self._pending, []
            if not rows:
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(f"INSERT OR REPLACE INTO requests VALUES ({', '.join('?' * 13)})", rows)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        self.flush()
        self._db.close()
