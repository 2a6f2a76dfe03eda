"""`r` writes what is seen until it is pressed again, the disk fails, or the console ends in whatever way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.domain.records import FleetSnapshot, JournalEntry
from opsconsole.errors import RecordingError
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.recording import Recording
from opsconsole.tui.session import Session
from opsconsole.tui.widgets.grid import Grid
from opsconsole.tui.world import Look, World

AT = 1_764_504_271.0


@dataclass
class Kept:
    """A recorder that keeps what it is given."""

    path: str
    ticks: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    closed: bool = False
    fails: bool = False

    def take(self, snapshot: FleetSnapshot, entries: Sequence[JournalEntry]) -> None:
        if self.fails:
            raise RecordingError("the disk is full.")
        self.ticks.append(snapshot.tick)
        self.lines += [entry.text for entry in entries]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def files() -> list[Kept]:
    return []


@pytest.fixture
def recording(world: World, files: list[Kept]) -> Recording:
    session = Session(ManualClock(AT), Look(zone=UTC, now=AT))
    session.live = world

    def make(path: str) -> Kept:
        files.append(Kept(path))
        return files[-1]

    return Recording(session, make)


def test_every_tick_is_written_once_and_what_the_journal_said_since(
    recording: Recording, files: list[Kept], world: World
) -> None:
    assert recording.toggle("") == "recording to opsconsole-120431.rec; r ends it"
    assert world.snapshot is not None
    line = JournalEntry(99, AT, "note", "chat", "new")
    same = replace(world, journal=(*world.journal, line))
    recording.take(world, same)  # no new tick: nothing is written
    later = replace(same, snapshot=replace(world.snapshot, tick=8, at=AT + 1))
    recording.take(world, later)
    assert files[0].ticks == [7, 8] and files[0].lines == ["new"]
    assert recording.toggle("") == (
        "2 ticks in opsconsole-120431.rec; `opsconsole replay opsconsole-120431.rec` plays it"
    )
    assert files[0].closed


def test_a_disk_that_fails_ends_the_recording_and_says_so(
    recording: Recording, files: list[Kept], world: World
) -> None:
    recording.toggle("x.rec")
    files[0].fails = True
    assert world.snapshot is not None
    recording.take(world, replace(world, snapshot=replace(world.snapshot, tick=8)))
    assert "the recording ended: the disk is full." in recording._session.state.message
    assert not recording._session.look.recording and recording.end() == ""


def test_without_a_writer_without_a_fleet_and_in_a_browser_it_says_why_not(world: World) -> None:
    session = Session(ManualClock(AT), Look(zone=UTC))
    assert "without a recorder" in Recording(session, None).toggle("")
    assert "nothing to record" in Recording(session, Kept).toggle("")
    assert "writes no files here" in Recording(session, Kept, lambda: True).toggle("")


async def test_the_screen_says_rec_and_leaving_closes_the_file(agent: Any, files: list[Kept]) -> None:
    async def connect(address: str) -> Any:
        return agent

    def make(path: str) -> Kept:
        files.append(Kept(path))
        return files[-1]

    app = ConsoleApp("/run/agent.sock", look=Look(zone=UTC), clock=ManualClock(AT + 0.4), make=connect, recorder=make)
    async with app.run_test(size=(100, 24)) as pilot:
        for _ in range(200):
            await pilot.pause()
            if app.session.live.snapshot:
                break
        await pilot.press("r")
        await pilot.pause()
        assert " REC" in app.screen.query_one(Grid).text().splitlines()[0]
        await pilot.press("q")
    assert files[0].closed and files[0].ticks == [7]


async def test_a_lean_console_repaints_seldom_but_answers_keys_at_once(
    agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    async def connect(address: str) -> Any:
        return agent

    clock = ManualClock(AT + 0.4)
    app = ConsoleApp("/run/agent.sock", look=Look(zone=UTC), clock=clock, make=connect, lean=True)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(200):
            await pilot.pause()
            if app.session.live.journal:
                break
        app.repaint()
        agent.pushed.put_nowait(make_snapshot((), at=AT + 1, tick=8))
        await pilot.pause(0.1)
        assert app.session.live.snapshot is not None and app.session.live.snapshot.tick == 8
        assert "x2k" in app.screen.query_one(Grid).text()  # seen, not painted yet
        await pilot.press("4")
        await pilot.pause()
        assert "x2k" not in app.screen.query_one(Grid).text()
