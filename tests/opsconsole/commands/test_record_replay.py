"""`record` writes what engines said and `replay` plays it: the same numbers, states and decisions, at any speed."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from opsconsole.cli import app
from opsconsole.client.agent import AgentClient
from opsconsole.clock import SystemClock
from opsconsole.control.replay import ENDED, Span, play_through
from opsconsole.domain.fleet import FleetState, PoolSpec, fold
from opsconsole.domain.records import (
    DecisionView,
    FleetSnapshot,
    JournalEntry,
    Sample,
    SourceView,
    TickRecord,
)
from opsconsole.errors import OpsConsoleError, SourceError, SourceErrorKind, UsageError
from opsconsole.history.clip import copy_past
from opsconsole.history.reader import Reader
from opsconsole.history.store import Store
from opsconsole.observe.source import Observation, ReplicaRef
from tests.opsconsole.observe.conftest import Misbehaving

CLOCK = SystemClock()
START = 1_700_000_000.0
TICKS = 240
POOLS = [PoolSpec("chat", "m", 1, 8)]


def seen(tick: int) -> list[Observation]:
    """Two replicas; load rises from the 90th tick, and the second is silent from the 120th to the 200th."""
    at, found = START + tick, []
    for name in ("a", "b"):
        busy = 12.0 * tick if tick > 90 else 2.0 * tick
        sample = Sample(
            name, at, engine="vllm", model="m", running=8.0, waiting=20.0 if tick > 90 else 0.0, kv_usage=0.4,
            preemptions=0.0, prompt_tokens=100.0 * busy, output_tokens=20.0 * busy, requests_finished=busy,
        )  # fmt: skip
        silent = name == "b" and 120 <= tick < 200
        error = SourceError(SourceErrorKind.REFUSED, "nothing listens there", at) if silent else None
        found.append(Observation(ReplicaRef(name, "chat", f"http://{name}"), None if silent else sample, error))
    return found


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[FleetSnapshot]]:
    """Four minutes of a fleet of which two replicas were wanted, with a person's word in the middle."""
    path = tmp_path_factory.mktemp("recorded") / "fleet.rec"
    store, state, made = Store(path), FleetState(), []
    sources = (SourceView("scrape", "scrape", True, 0.0),)
    for tick in range(1, TICKS + 1):
        snapshot, state = fold(tick, START + tick, seen(tick), POOLS, state, want={"chat": 2}, sources=sources)
        word = JournalEntry(0, snapshot.at, "note", "chat", "launch begins", tick, who="ann")
        store.write_tick(snapshot, entries=[word] if tick == 150 else [])
        made.append(snapshot)
    store.close()
    return path, made


async def played(path: Path, start: float, end: float, speed: float | None = None) -> list[TickRecord]:
    records: list[TickRecord] = []
    await play_through(path, Span(start, end, speed), None, records.append)
    return records


def bare(snapshot: FleetSnapshot) -> FleetSnapshot:
    """Without what a replay is bound to say of itself."""
    return replace(snapshot, fleet="", mode="", notes=(), sources=(), can_act=False)


async def test_a_replay_from_the_middle_is_what_was_recorded(recording: tuple[Path, list[FleetSnapshot]]) -> None:
    path, made = recording
    records = await played(path, START + 100, START + TICKS)
    assert [r.snapshot.at for r in records] == [s.at for s in made[99:]]
    for record, before in zip(records, made[99:], strict=True):
        after = record.snapshot
        assert after.tick == before.tick
        for new, old in zip(after.replicas, before.replicas, strict=True):
            assert (new.state, new.running, new.waiting, new.error) == (old.state, old.running, old.waiting, old.error)
            # the first minute's windows were rebuilt from the past that was copied along
            assert (new.output_rate, new.prompt_rate, new.seen_at) == (old.output_rate, old.prompt_rate, old.seen_at)
        (pool,), (was,) = after.pools, before.pools
        assert (pool.want, pool.ready, pool.stale, pool.down) == (was.want, was.ready, was.stale, was.down)
        assert after.notes == ("REPLAY of fleet.rec, as fast as it goes",) and not after.can_act


async def test_the_loop_decides_on_what_was_seen_then(recording: tuple[Path, list[FleetSnapshot]]) -> None:
    records = await played(recording[0], START + 60, START + 118)
    decisions: list[DecisionView] = [d for r in records for d in r.decisions]
    assert len(decisions) == len(records)
    assert all(d.target <= d.current for d in decisions if d.at <= START + 90)  # no load, no growth
    assert any(d.target > d.current == 2 for d in decisions if d.at > START + 90)  # queues of 20 before two replicas


async def test_twice_the_same_recording_is_twice_the_same_replay(recording: tuple[Path, list[FleetSnapshot]]) -> None:
    first = await played(recording[0], START + 80, START + 140)
    assert first == await played(recording[0], START + 80, START + 140)


def test_headless_prints_one_line_a_tick(recording: tuple[Path, list[FleetSnapshot]]) -> None:
    path, _ = recording
    done = replay(str(path), "--at", f"{START + 230}", "--output", "json")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["snapshot"]["tick"] for line in lines] == list(range(230, 241))
    assert all(line["decisions"][0]["pool"] == "chat" for line in lines)
    until = replay(str(path), "--at", "-10s", "--until", "-8s", "-o", "json")
    assert [json.loads(line)["snapshot"]["tick"] for line in until.stdout.splitlines()] == [230, 231, 232]


def test_speed_is_kept(recording: tuple[Path, list[FleetSnapshot]]) -> None:
    began = CLOCK.monotonic()
    done = replay(str(recording[0]), "--at", "-20s", "--speed", "20x", "--output", "json")
    took = CLOCK.monotonic() - began
    assert done.exit_code == 0 and took >= 1.0  # 20 s at 20x
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    # a slow machine leaves ticks out and never the last
    assert len(lines) <= 21 and lines[-1]["snapshot"]["tick"] == TICKS


def replay(*words: str) -> Result:
    return CliRunner().invoke(app, ["replay", *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", f"{START - 500}"), "no replicas at"),
        (("--at", f"{START + 9999}"), "it reaches from"),
        (("--at", "-5s", "--until", "-20s"), "before the beginning"),
        (("--speed", "fast"), "give 10x"),
        (("--speed", "0x"), "between 0.01x and 1000x"),
        (("--at", "teatime"), "is no time"),
        (("--output", "yaml"), "give json"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    recording: tuple[Path, list[FleetSnapshot]], words: tuple[str, ...], said: str
) -> None:
    done = replay(str(recording[0]), *words, *(() if "--output" in words else ("--output", "json")))
    assert isinstance(done.exception, OpsConsoleError) and said in str(done.exception)


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "foreign"])
def test_what_is_no_recording_is_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.rec"
    if kind == "text":
        path.write_text("not a database " * 100)
    elif kind == "empty":
        Store(path).close()
    elif kind == "foreign":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE t(x)")
        db.close()
    done = replay(str(path), "--output", "json")
    assert isinstance(done.exception, OpsConsoleError) and str(path) in str(done.exception)


@pytest.fixture
def agent(recording: tuple[Path, list[FleetSnapshot]], tmp_path: Path) -> Iterator[str]:
    """The process a console starts beside itself, at 50x from the 140th tick; its socket."""
    words = ["--data-dir", str(tmp_path), "--start", f"{START + 140}", "--end", f"{START + TICKS}", "--speed", "50"]
    command = [sys.executable, "-m", "opsconsole.control.replay", *words, str(recording[0])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    yield str(tmp_path / "agent.sock")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and b"Traceback" not in errors, errors.decode()


async def test_the_agents_api_serves_a_replay_with_its_past_and_holds_its_end(agent: str) -> None:
    snapshots = await until_the_end(agent)
    times = [s.at for s in snapshots]
    assert times == sorted(times) and times[0] >= START + 140 and times[-1] == START + TICKS
    assert snapshots[-1].notes[-1] == ENDED
    async with AgentClient(agent) as client:
        past = await client.at(START + 100)
        assert past is not None and past.tick == 100 and len(past.replicas) == 2
        history = await client.history(START + 40, START + TICKS, step=10.0, pools_only=True)
        assert history[0].at < START + 60 and history[-1].at >= START + TICKS - 10
        lines = await client.journal(limit=1000)
        words = [line for line in lines if line.text == "then: launch begins"]
        assert [(w.who, w.at) for w in words] == [("ann", START + 150)]
        assert (await client.decisions())[0].pool == "chat"
        plan = await client.plan("scale", "chat", to=5)  # a dry run is allowed
        with pytest.raises(OpsConsoleError):
            await client.intent(plan.plan_id)
        assert await client.ready()


async def until_the_end(socket: str) -> list[FleetSnapshot]:
    """What a console sees, up to the note that the recording has ended."""
    found: list[FleetSnapshot] = []
    for _ in range(200):
        try:
            async with AgentClient(socket) as client:
                async for snapshot in client.stream():
                    found.append(snapshot)
                    if ENDED in snapshot.notes:
                        return found
        except OpsConsoleError:
            await CLOCK.sleep(0.1)
    raise AssertionError(f"no end after {len(found)} snapshots")


def test_the_console_shows_a_replay_and_that_it_is_one(
    recording: tuple[Path, list[FleetSnapshot]], tmp_path: Path
) -> None:
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-m", "opsconsole", "replay", str(recording[0]), "--at", "-30s"]
    process, ours = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.environ.update({"PYTHONPATH": root, "HOME": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8"})
        os.environ.update({"LINES": "24", "COLUMNS": "120"})
        os.execv(command[0], command)
    try:
        text = read_until(ours, b" REPLAY ", 30.0)
        assert b"LATE" not in text and b"Traceback" not in text
    finally:
        os.kill(process, signal.SIGTERM)
        drain(ours)
        os.waitpid(process, 0)
        os.close(ours)


def read_until(ours: int, word: bytes, within_s: float) -> bytes:
    import select

    text, end = b"", CLOCK.monotonic() + within_s
    while word not in text and CLOCK.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            text += os.read(ours, 65536)
    assert word in text, text[-500:]
    return text


def drain(ours: int) -> None:
    try:
        while os.read(ours, 65536):
            pass
    except OSError:
        return  # the other end is closed


def test_record_writes_what_replay_plays(misbehaving: Misbehaving, tmp_path: Path) -> None:
    path = tmp_path / "two.rec"
    words = ["record", f"{misbehaving.url}/ok", f"{misbehaving.url}/401", str(path), "--every", "0.3s", "--for", "1s"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "401: auth: answered 401" in done.stderr
    told = re.search(r"two\.rec: (\d) ticks over 1 s, 2 replicas of which 1 answered", done.stderr)
    assert told is not None and 2 <= int(told[1]) <= 4, done.stderr
    assert not list(tmp_path.glob("*-wal"))  # one file, to be carried away
    reader = Reader(path)
    assert reader.check() == "ok"
    reader.close()
    lines = [json.loads(line)["snapshot"] for line in replay(str(path), "-o", "json").stdout.splitlines()]
    assert len(lines) == int(told[1])
    for line in lines:
        good, bad = sorted(line["replicas"], key=lambda view: view["state"], reverse=True)
        assert (good["running"], good["waiting"], good["engine"]) == (3, 1, "vllm")
        assert bad["error"].startswith("auth: ") and bad.get("running") is None


def test_a_recording_nobody_may_write_to_plays(misbehaving: Misbehaving, tmp_path: Path) -> None:
    path = tmp_path / "one.rec"
    assert CliRunner().invoke(app, ["record", f"{misbehaving.url}/ok", str(path), "--for", "0.5s"]).exit_code == 0
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert len(replay(str(path), "-o", "json").stdout.splitlines()) == 1
    finally:
        tmp_path.chmod(0o700)


def test_a_recorder_that_is_killed_leaves_a_recording(misbehaving: Misbehaving, tmp_path: Path) -> None:
    path = tmp_path / "killed.rec"
    command = [sys.executable, "-m", "opsconsole", "record", f"{misbehaving.url}/ok", str(path), "--every", "0.2s"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    asyncio.run(until_recorded(path, 3))
    process.kill()
    process.wait()
    assert len(replay(str(path), "-o", "json").stdout.splitlines()) >= 3


def test_a_recorder_that_is_told_to_end_says_what_it_has(misbehaving: Misbehaving, tmp_path: Path) -> None:
    path = tmp_path / "ended.rec"
    command = [sys.executable, "-m", "opsconsole", "record", f"{misbehaving.url}/ok", str(path), "--every", "0.2s"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    asyncio.run(until_recorded(path, 2))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and "1 replicas of which 1 answered" in errors and "Traceback" not in errors


async def until_recorded(path: Path, ticks: int) -> None:
    for _ in range(300):
        try:
            reader = Reader(path)
        except OpsConsoleError:
            await CLOCK.sleep(0.1)
            continue
        count = len(reader.range(0.0, CLOCK.now() + 60))
        reader.close()
        if count >= ticks:
            return
        await CLOCK.sleep(0.1)
    raise AssertionError("nothing was recorded")


def test_nothing_that_answers_is_exit_1_and_still_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "none.rec"
    done = CliRunner().invoke(app, ["record", "127.0.0.1:9", str(path), "--for", "0.2s", "--every", "10s"])
    assert done.exit_code == 1 and "1 replicas of which 0 answered" in done.stderr
    (line,) = replay(str(path), "-o", "json").stdout.splitlines()
    assert json.loads(line)["snapshot"]["replicas"][0]["error"].startswith("refused: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("127.0.0.1:9",), "name the FILE to write last"),
        (("http://127.0.0.1:9/metrics",), "name the FILE to write last"),
        (("127.0.0.1:9", "no/folder/x.rec"), "is no folder"),
        (("x.rec",), "names no source"),
        (("127.0.0.1:9", "x.rec", "--for", "soon"), "no duration"),
        (("127.0.0.1:9", "x.rec", "--for", "0s"), "give a time"),
        (("127.0.0.1:9", "there.rec"), "is there already"),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "there.rec").write_text("mine")
    done = CliRunner().invoke(app, ["record", *words])
    assert isinstance(done.exception, OpsConsoleError) and said in str(done.exception), done.exception
    assert (tmp_path / "there.rec").read_text() == "mine" and not (tmp_path / "x.rec").exists()


def test_what_is_copied_of_the_past_ends_before_the_moment_and_has_a_budget(
    recording: tuple[Path, list[FleetSnapshot]], tmp_path: Path
) -> None:
    assert copy_past(recording[0], tmp_path / "all.db", START + 100) == 99
    reader = Reader(tmp_path / "all.db")
    bounds = reader.bounds()
    assert bounds is not None and (bounds.first, bounds.last) == (START + 1, START + 99)
    assert reader.journal() == ()  # what was said at the 150th tick was not known yet
    reader.close()
    few = copy_past(recording[0], tmp_path / "few.db", START + 100, budget=3000)
    assert 0 < few < 50
    reader = Reader(tmp_path / "few.db")
    assert reader.range(START + 99, START + 99)  # the newest first
    reader.close()


def test_a_hole_in_a_recording_is_jumped_over(tmp_path: Path) -> None:
    path, state = tmp_path / "hole.rec", FleetState()
    store = Store(path)
    for number, tick in enumerate((1, 2, 3, 4000, 4001, 4002)):
        snapshot, state = fold(number, START + tick, seen(tick), POOLS, state)
        store.write_tick(snapshot)
    store.close()
    began = CLOCK.monotonic()
    done = replay(str(path), "--at", f"{START + 1}", "--speed", "4x", "-o", "json")
    assert CLOCK.monotonic() - began < 30.0  # and not a quarter of an hour
    assert json.loads(done.stdout.splitlines()[-1])["snapshot"]["at"] == START + 4002


def test_a_span_that_is_no_speed_is_refused() -> None:
    done = replay("no-such.rec", "--speed", "ten")
    assert isinstance(done.exception, UsageError)
