"""The run's summary equals what is counted by hand from the same requests."""

from __future__ import annotations

import math
import random
import sqlite3
from pathlib import Path

import pytest

from opsconsole.domain.records import Outcome, Plan, PlanKind
from opsconsole.history.reader import Reader
from opsconsole.history.requests import RequestLog, RequestRow
from opsconsole.history.store import Store

START = 1_700_000_000.0


def rows(count: int, seed: int = 1) -> list[RequestRow]:
    draw = random.Random(seed)
    made = []
    for i in range(count):
        at = START + i * 0.05
        first = at + draw.expovariate(2.0)
        tokens = draw.randrange(1, 40)
        failed = i % 50 == 7
        made.append(
            RequestRow(
                "run", f"q{i}", "default", at, at, None if failed else first,
                None if failed else first + 0.02 * (tokens - 1), 100, None if failed else tokens,
                "error" if failed else "ok", cut=i == 7, worker="w0", met=not failed and first - at < 1.0,
            )
        )  # fmt: skip
    return made


def rank(values: list[float], q: float) -> float:
    return sorted(values)[max(1, math.ceil(q * len(values) - 1e-9)) - 1]


@pytest.mark.parametrize("count", [1, 7, 300, 1200])
def test_the_summary_counts_and_ranks_right(tmp_path: Path, count: int) -> None:
    log = RequestLog(tmp_path / "o.db")
    log.start_run("run", START, "burst")
    made = rows(count)
    for row in made:
        log.add(row)
    log.end_run("run", START + 90)
    log.close()
    reader = Reader(tmp_path / "o.db")
    got = reader.run_summary("run")
    reader.close()
    assert got is not None
    ok = [r for r in made if r.status == "ok"]
    ttft = [r.first_at - r.intended_at for r in ok if r.first_at]
    tpot = [
        (r.last_at - r.first_at) / (r.output_tokens - 1)
        for r in ok
        if r.first_at and r.last_at and r.output_tokens and r.output_tokens > 1
    ]
    assert (got["offered"], got["completed"], got["failed"]) == (count, len(ok), count - len(ok))
    assert got["streams_cut"] == sum(r.cut for r in made)
    assert got["attainment"] == pytest.approx(sum(r.met for r in made) / count)
    assert got["goodput"] == pytest.approx(sum(r.met for r in made) / 90)
    for name, values in (("ttft", ttft), ("tpot", tpot)):
        assert got[f"{name}_p50"] == (pytest.approx(rank(values, 0.5)) if values else None)
        assert got[f"{name}_p95"] == (pytest.approx(rank(values, 0.95)) if values else None)
        assert got[f"{name}_p99"] == (pytest.approx(rank(values, 0.99)) if len(values) >= 1000 else None)


def test_acts_inside_the_run_are_counted_and_refused_or_later_ones_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    log = RequestLog(tmp_path / "o.db")
    log.start_run("run", START)
    log.end_run("run", START + 60)
    acts = [
        ("up", PlanKind.SCALE, 1, 2, START + 5, "done"),
        ("refused", PlanKind.SCALE, 2, 3, START + 6, "refused"),
        ("down", PlanKind.SCALE, 2, 1, START + 50, "running"),
        ("exit", PlanKind.SCALE, 1, 0, START + 61, "done"),
    ]
    for plan_id, kind, had, to, at, status in acts:
        store.begin_act(Plan(plan_id, kind, "chat", had, to), "auto", at)
        store.update_act(Outcome(plan_id, status, at))
    log.add_start("w1", START + 5, START + 12.5, {"spawn": 0.5, "load": 5.0, "warm": 2.0})
    reader = Reader(tmp_path / "o.db")
    got = reader.run_summary()
    assert got is not None
    assert (got["scale_ups"], got["drains"], got["offered"], got["attainment"]) == (1, 1, 0, None)
    assert got["starts"] == [
        {"worker": "w1", "decided_at": START + 5, "seconds": 7.5, "phases": {"spawn": 0.5, "load": 5.0, "warm": 2.0}}
    ]
    reader.close()
    log.close()
    store.close()


def test_a_run_that_was_killed_still_has_a_summary(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "o.db")
    log.start_run("run", START)
    log.add(RequestRow("run", "a", "default", START + 1, START + 1, START + 2, START + 4, 5, 3, met=True))
    log.close()
    with sqlite3.connect(tmp_path / "o.db") as db:
        got = db.execute("SELECT duration_s, goodput FROM run_summary").fetchone()
    db.close()
    assert got == (4.0, 0.25)
