"""The agent as a real process: killed at random points it scales nothing twice, and it never outlives its parent."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from opsconsole.clock import SystemClock
from opsconsole.control.agent import observed_state
from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView

SCRIPT = Path(__file__).parent / "agent_process.py"
CLOCK = SystemClock()


def start(data_dir: Path, parent: int = 0) -> subprocess.Popen[bytes]:
    with (data_dir / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, str(SCRIPT), str(data_dir), str(parent)], stderr=log)


def wait_for(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = CLOCK.monotonic() + seconds
    while CLOCK.monotonic() < until:
        found = what()
        if found:
            return found
        pause(0.02)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def pause(seconds: float) -> None:
    asyncio.run(CLOCK.sleep(seconds))  # other processes' time, which no manual clock moves


def ticks(data_dir: Path) -> int:
    if not (data_dir / "opsconsole.db").exists():
        return 0
    db = sqlite3.connect(data_dir / "opsconsole.db")
    try:
        return int(db.execute("SELECT COALESCE(MAX(tick), 0) FROM ticks").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        db.close()


def world(data_dir: Path) -> Any:
    return json.loads((data_dir / "world.json").read_text())


def test_kill_9_at_random_points_loses_nothing_and_scales_nothing_twice(tmp_path: Path) -> None:
    draw = random.Random(11)
    seen = 0
    for turn in range(5):
        process = start(tmp_path)
        wait_for(partial(_ticks_beyond, tmp_path, seen))
        if turn % 2 and world(tmp_path)["want"] < 10:  # as soon as the world was changed
            wait_for(partial(_want_beyond, tmp_path, world(tmp_path)["want"]))
        else:
            pause(draw.uniform(0.0, 0.6))
        seen = ticks(tmp_path)
        process.kill()
        process.wait()
        assert ticks(tmp_path) >= seen
    process = start(tmp_path)
    wait_for(lambda: ticks(tmp_path) > seen and world(tmp_path)["want"] == 10)
    wait_for(lambda: not _open_acts(tmp_path))
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0, (tmp_path / "log").read_text()
    held = world(tmp_path)
    assert (held["want"], held["made"], len(held["replicas"])) == (10, 10, 10), "every replica was asked for once"
    targets = [plan["to"] for plan in held["plans"].values()]
    assert targets == sorted(set(targets)), "no target was asked for twice"
    db = sqlite3.connect(tmp_path / "opsconsole.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    done = {row[0] for row in db.execute("SELECT plan_id FROM acts WHERE status = 'done'")}
    assert done == set(held["plans"]), "every act that reached the world is in the journal, done"
    assert not [p for (p,) in db.execute("SELECT plan_id FROM acts WHERE status = 'failed'") if p in held["plans"]]
    db.close()


def _ticks_beyond(data_dir: Path, count: int) -> bool:
    return ticks(data_dir) > count


def _want_beyond(data_dir: Path, count: int) -> bool:
    return bool(world(data_dir)["want"] > count)


def _open_acts(data_dir: Path) -> int:
    db = sqlite3.connect(data_dir / "opsconsole.db")
    try:
        return int(db.execute("SELECT COUNT(*) FROM acts WHERE ended_at IS NULL").fetchone()[0])
    finally:
        db.close()


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(["sleep", "600"])
    process = start(tmp_path, parent.pid)
    wait_for(lambda: ticks(tmp_path) > 2)
    parent.kill()
    parent.wait()
    assert process.wait(10) == 0
    assert not (tmp_path / "agent.sock").exists()


def test_a_second_agent_on_the_same_folder_says_so_and_ends(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for(lambda: ticks(tmp_path) > 0)
    second = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), "0"], capture_output=True, text=True)
    assert second.returncode != 0
    assert "in use by another agent" in second.stderr
    process.terminate()
    assert process.wait(10) == 0


def test_its_log_is_json_lines_of_the_journal(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for(lambda: _lines(tmp_path, "decision"))
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(10) == 0
    line = _lines(tmp_path, "decision")[0]
    assert line["pool"] == "chat" and line["who"] == "auto" and line["text"].startswith("chat ")


def _lines(data_dir: Path, kind: str) -> list[Any]:
    whole = (data_dir / "log").read_text().rpartition("\n")[0]
    return [line for line in map(json.loads, filter(None, whole.split("\n"))) if line.get("kind") == kind]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [(ReplicaState.OK, 1), (ReplicaState.WARMING, 1), (ReplicaState.DOWN, 1), (ReplicaState.DRAINING, 0)],
)
def test_where_nothing_can_be_asked_the_observed_replicas_stand_in(state: ReplicaState, wanted: int) -> None:
    snapshot = FleetSnapshot(1, 1.0, "f", "advise", replicas=(ReplicaView("r0", "chat", state, "why"),))
    found = observed_state(snapshot, "chat")
    assert (found.want, len(found.members)) == (wanted, 1)
    assert observed_state(None, "chat").want == 0
