"""A recording replayed through the fold gives what was recorded: the same numbers, ages, rates and silences."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsconsole.clock import ManualClock
from opsconsole.domain.fleet import FleetState, PoolSpec, fold
from opsconsole.domain.records import FleetSnapshot, Sample, SourceView
from opsconsole.errors import RecordingError, SourceError, SourceErrorKind
from opsconsole.history.reader import Reader
from opsconsole.history.store import Store
from opsconsole.observe.recorded import RecordedSource, ReplayClock
from opsconsole.observe.source import Observation, ReplicaRef

START = 1_700_000_000.0
POOLS = [PoolSpec("chat", "m")]


def seen(tick: int) -> list[Observation]:
    """Two replicas; the second stops answering after the fifth tick."""
    at = START + tick
    found = []
    for name in ("a", "b"):
        sample = Sample(name, at, engine="vllm", model="m", running=2.0 + tick, waiting=1.0, output_tokens=100.0 * tick)
        silent = name == "b" and tick > 5
        error = SourceError(SourceErrorKind.REFUSED, "nothing listens there", at) if silent else None
        found.append(Observation(ReplicaRef(name, "chat", f"http://{name}"), None if silent else sample, error))
    return found


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[FleetSnapshot]]:
    path = tmp_path / "opsconsole.db"
    store, state, made = Store(path), FleetState(), []
    for tick in range(12):
        snapshot, state = fold(tick, START + tick, seen(tick), POOLS, state)
        store.write_tick(snapshot)
        made.append(snapshot)
    store.close()
    return path, made


async def test_a_replayed_recording_folds_to_what_was_recorded(recorded: tuple[Path, list[FleetSnapshot]]) -> None:
    path, made = recorded
    beneath = ManualClock()
    clock = ReplayClock(beneath, START)
    source, state = RecordedSource(Reader(path), clock), FleetState()
    for before in made:
        after, state = fold(before.tick, clock.now(), await source.observe(clock.now()), POOLS, state)
        for old, new in zip(before.replicas, after.replicas, strict=True):
            assert (new.state, new.running, new.waiting) == (old.state, old.running, old.waiting)
            assert (new.output_rate, new.seen_at, new.url) == (old.output_rate, old.seen_at, old.url)
        await beneath.advance(1.0)
    assert source.status().ok
    await source.close()


async def test_a_clock_of_a_replay_runs_faster_and_tells_the_recordings_time() -> None:
    beneath = ManualClock()
    clock = ReplayClock(beneath, START, speed=10.0)
    await beneath.advance(3.0)
    assert (clock.now(), clock.monotonic()) == (START + 30.0, 30.0)
    with pytest.raises(RecordingError, match="above 0"):
        ReplayClock(beneath, START, speed=0.0)


async def test_the_end_of_a_recording_is_a_status(recorded: tuple[Path, list[FleetSnapshot]]) -> None:
    beneath = ManualClock()
    clock = ReplayClock(beneath, START + 11)
    source = RecordedSource(Reader(recorded[0]), clock, ends_at=START + 11)
    await source.observe(clock.now())
    assert source.status().ok
    await beneath.advance(5.0)
    assert not source.status().ok and source.status().error == "the recording has ended"
    await source.close()


async def test_before_its_beginning_a_recording_says_nothing(recorded: tuple[Path, list[FleetSnapshot]]) -> None:
    source = RecordedSource(Reader(recorded[0]), ReplayClock(ManualClock(), START - 100))
    assert await source.observe(START - 100) == ()
    assert not source.status().ok
    await source.close()


async def test_a_source_that_failed_then_fails_again(tmp_path: Path) -> None:
    """What it could not tell must not be taken for gone in the replay either."""
    failed = SourceView("scrape", "scrape", False, 3.0, "2 of 2 targets fail: timeout (2)", "timeout")
    snapshot, _ = fold(0, START, [], POOLS, FleetState(), sources=[failed])
    store = Store(tmp_path / "x.db")
    store.write_tick(snapshot)
    store.close()
    source = RecordedSource(Reader(tmp_path / "x.db"), ReplayClock(ManualClock(), START))
    await source.observe(START)
    view = source.status()
    assert (view.ok, view.error, view.error_kind) == (False, failed.error, "timeout")
    await source.close()
