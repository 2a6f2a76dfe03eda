"""The store on real files: whole ticks or none, ages, the cap, migration, and what survives kill -9."""

from __future__ import annotations

import math
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from opsconsole.domain.records import (
    Buckets,
    DecisionView,
    FleetSnapshot,
    JournalEntry,
    LatencyView,
    Outcome,
    Plan,
    PlanKind,
    PoolView,
    RegretView,
    ReplicaState,
    ReplicaView,
    Sample,
)
from opsconsole.errors import RecordingError
from opsconsole.history.reader import TOTALS_ONLY, Reader
from opsconsole.history.retention import Retention
from opsconsole.history.schema import MIGRATIONS, migrate, version
from opsconsole.history.store import DecisionRow, Store

START = 1_700_000_040.0  # a whole minute


def snapshot(tick: int, at: float, replicas: int = 2) -> FleetSnapshot:
    page = Buckets((0.1, 1.0, math.inf), (1.0, 2.0, 3.0), 1.5)
    rows = tuple(
        ReplicaView(
            f"r{i}", "chat", ReplicaState.OK, "answers", ttft=LatencyView(0.1), sample=Sample(f"r{i}", at, ttft=page)
        )
        for i in range(replicas)
    )
    return FleetSnapshot(
        tick, at, "test", "act", replicas=rows, pools=(PoolView("chat", want=replicas, ready=replicas),)
    )


def decision(at: float, current: int = 2, target: int = 2) -> DecisionRow:
    made = DecisionView(at, "chat", current, target, "reactive", f"queue wants {target}")
    return DecisionRow(made, situation={"now": at}, memory_delta={"since": {}}, changed=current != target)


def plan(plan_id: str = "p1") -> Plan:
    return Plan(plan_id, PlanKind.SCALE, "chat", 2, 3, reason="queue", version="7", made_at=START)


def test_a_tick_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "opsconsole.db")
    written = snapshot(1, START)
    entry = JournalEntry(0, START, "decision", "chat", "2 -> 3", tick=1)
    (numbered,) = store.write_tick(written, [decision(START, 2, 3)], [entry], {"memory/chat": "{}"})
    reader = Reader(store.path)
    assert reader.at(START + 5) == written
    assert reader.at(START - 1) is None
    assert reader.journal() == (numbered,)
    (past,) = reader.decisions_at(START + 1)
    assert (past.decision.target, past.situation, past.tick) == (3, {"now": START}, 1)
    assert store.get_state("memory/") == {"memory/chat": "{}"}
    reader.close()
    store.close()


def test_a_judgement_that_comes_later_is_kept_with_its_decision(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "a.db"), tmp_path / "a.db"
    regret = RegretView("chat", START, START + 60, 60.0, 3, 5, 4.1, 8.2, "requests/s", "2 too few")
    store.write_tick(snapshot(1, START), [decision(START, 2, 3)])
    nobody = RegretView("chat", START - 99, START, 60.0, 3, 5, 4.1, 8.2, "requests/s")
    store.write_tick(snapshot(2, START + 61), [decision(START + 61)], regrets=[regret, nobody])
    store.close()
    reader = Reader(path)
    (then,), (now,) = reader.decisions_at(START), reader.decisions_at(START + 61)
    reader.close()
    assert then.decision.regret == regret and regret.short == 2
    assert then.situation == {"now": START} and then.extra == {}, "the rest stays as it was"
    assert now.decision.regret is None


def test_a_tick_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    bad = JournalEntry(0, START, "note", "chat", "x", who=None)  # type: ignore[arg-type]  # NOT NULL in the table
    with pytest.raises(sqlite3.IntegrityError):
        store.write_tick(snapshot(1, START), [decision(START)], [bad])
    reader = Reader(store.path)
    assert reader.bounds() is None
    assert reader.decisions_at(START + 1) == ()
    assert store.write_tick(snapshot(1, START)) == ()
    assert reader.at(START) == snapshot(1, START)
    reader.close()
    store.close()


def test_old_ticks_thin_to_ten_seconds_then_to_minutes_without_replicas(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    for i in range(121):
        store.write_tick(snapshot(i + 1, START + i))
    reader = Reader(store.path)
    assert len(reader.range(START, START + 120)) == 121
    store.trim(START + 120 + 3600)  # the last tick is an hour old: only those before it go
    assert [s.at - START for s in reader.range(START, START + 119)] == [10.0 * i for i in range(12)]
    store.trim(START + 3 * 86400)
    left = reader.range(START, START + 200)
    assert [s.at - START for s in left] == [0.0, 60.0, 120.0]
    assert all(not s.replicas and s.notes == (TOTALS_ONLY,) and s.pools[0].ready == 2 for s in left)
    store.trim(START + 31 * 86400)
    assert reader.bounds() is None
    reader.close()
    store.close()


def test_the_size_cap_wins_over_age_and_spares_the_newest(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db", Retention(most_bytes=600_000))
    for i in range(1500):
        store.write_tick(snapshot(i + 1, START + i, replicas=8), [decision(START + i)])
    store.trim(START + 1500)
    assert store.size_bytes() <= 600_000
    reader = Reader(store.path)
    bounds = reader.bounds()
    assert bounds is not None and bounds.last == START + 1499
    assert len(reader.range(START + 1440, START + 1499)) == 60
    reader.close()
    store.close()
    with sqlite3.connect(tmp_path / "o.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    assert (tmp_path / "o.db").stat().st_size < 1_500_000


def test_an_act_is_begun_once_and_found_open_until_it_ends(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    assert store.begin_act(plan(), "auto", START)
    assert not store.begin_act(plan(), "auto", START + 1)
    store.update_act(Outcome("p1", "running", START + 1))
    (act,) = store.open_acts()
    assert (act.plan, act.status) == (plan(), "running")
    store.update_act(Outcome("p1", "done", START + 9, streams_cut=1))
    assert store.open_acts() == ()
    store.close()


def test_ticks_count_on_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    assert store.last_tick() == 0
    store.write_tick(snapshot(41, START))
    store.close()
    again = Store(tmp_path / "o.db")
    assert again.last_tick() == 41
    again.close()


def test_state_is_found_by_prefix_and_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.put_state("hold/a", "1", START)
    store.put_state("memory/a", "2", START)
    assert store.get_state("hold/") == {"hold/a": "1"}
    store.put_state("hold/a", None, START)
    assert store.get_state("hold/") == {}
    store.close()


def test_a_reader_sees_whole_ticks_while_the_writer_is_in_the_middle_of_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.write_tick(snapshot(1, START), [decision(START)])
    reader = Reader(store.path)
    with store._transaction() as db:
        db.execute("INSERT INTO ticks VALUES (2, ?, 0, x'01')", (START + 1,))
        assert reader.at(START + 5) == snapshot(1, START)
    reader.close()
    store.close()


def test_a_file_of_an_older_schema_is_brought_up_to_date_in_one_piece(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "o.db", isolation_level=None)
    migrate(db)
    later = (*MIGRATIONS, ("ALTER TABLE runs ADD COLUMN tag TEXT", "UPDATE runs SET tag = 'x'"))
    db.execute("INSERT INTO runs(run_id, started_at) VALUES ('r', 1)")
    assert migrate(db, later) == len(MIGRATIONS)
    assert version(db) == len(later)
    assert db.execute("SELECT tag FROM runs").fetchone() == ("x",)
    broken = (*later, ("ALTER TABLE runs ADD COLUMN more TEXT", "NOT SQL"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, broken)
    assert version(db) == len(later)
    assert "more" not in [row[1] for row in db.execute("PRAGMA table_info(runs)")]
    db.close()


def test_a_file_of_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "o.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(RecordingError, match="newer opsconsole"):
        Store(tmp_path / "o.db")


@pytest.mark.parametrize("content", [b"hello, not a database, " * 20, b"{}"], ids=["text", "short"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "o.db").write_bytes(content)
    with pytest.raises(RecordingError, match=r"o\.db is not an opsconsole database"):
        Store(tmp_path / "o.db")
    with pytest.raises(RecordingError, match=r"o\.db"):
        Reader(tmp_path / "o.db")
    with pytest.raises(RecordingError, match="does not exist"):
        Reader(tmp_path / "missing.db")


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_store import START, decision, snapshot
from opsconsole.domain.records import JournalEntry
from opsconsole.history.store import Store
store = Store(sys.argv[1])
tick = store.last_tick()
while True:
    tick += 1
    at = START + tick
    entry = JournalEntry(0, at, "decision", "chat", f"tick {tick}", tick=tick)
    store.write_tick(snapshot(tick, at, 6), [decision(at, 2, 3)], [entry], {"memory/chat": str(tick)})
    sys.stdout.write(f"{tick}\\n")
    sys.stdout.flush()
"""


def test_kill_9_at_any_write_loses_no_tick_that_was_written_and_halves_none(tmp_path: Path) -> None:
    draw = random.Random(7)
    path = tmp_path / "o.db"
    acknowledged = 0
    for _ in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(draw.randrange(5, 60)):  # then killed wherever it happens to be
            line = child.stdout.readline()
            assert line
            acknowledged = int(line)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split("\n")
        acknowledged = max([acknowledged, *(int(word) for word in rest[:-1] if word)])
        child.stdout.close()
        child.wait()
        db = sqlite3.connect(path)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (newest,) = db.execute("SELECT MAX(tick) FROM ticks").fetchone()
        assert newest >= acknowledged
        for table in ("decisions", "journal"):
            assert db.execute(f"SELECT MAX(tick), COUNT(*) FROM {table}").fetchone() == (newest, newest)
        assert db.execute("SELECT value FROM state WHERE key = 'memory/chat'").fetchone() == (str(newest),)
        db.close()
    reader = Reader(path)
    assert reader.at(START + newest) == snapshot(newest, START + newest, 6)
    reader.close()
