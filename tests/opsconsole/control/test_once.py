"""One decision on live sources and at moments of a recording, in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from opsconsole.clock import Clock, ManualClock
from opsconsole.config import load
from opsconsole.control import once
from opsconsole.control.once import decide_live, decide_recorded
from opsconsole.errors import ConfigError, RecordingError

Make = Callable[..., Awaitable[Any]]


class QuickClock(ManualClock):
    """A clock whose sleep is over at once."""

    async def sleep(self, seconds: float) -> None:
        self._step(seconds)


async def test_the_last_of_a_few_looks_is_decided_on_and_sources_are_closed(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = await make_stage()
    closed = []

    class Closing(type(stage.source)):  # type: ignore[misc]
        async def close(self) -> None:
            closed.append(self.name)

    clock: Clock = QuickClock()
    stage.world.clock = clock
    monkeypatch.setattr(once, "sources", lambda loaded, clock: [Closing(stage.world, clock)])
    file = tmp_path / "f.toml"
    file.write_text('[pool.chat]\nminimum = 1\n[act]\nmode = "off"\n')
    record = await decide_live(load(file, {}), clock)
    (decision,) = record.decisions
    assert (decision.pool, decision.current, record.snapshot.tick) == ("chat", 2, 3)
    assert record.snapshot.pools[0].request_rate is not None, "rates need more than one look"
    assert closed == ["world"]


async def test_a_recording_decides_with_its_own_wants_and_limits(make_stage: Make, tmp_path: Path) -> None:
    stage = await make_stage(want=3)
    await stage.ticks(30)
    at = stage.clock.now()
    none = load(_empty(tmp_path), {})
    record = await decide_recorded(none, stage.settings.database, at - 5)
    (decision,) = record.decisions
    assert (decision.pool, decision.current) == ("chat", 3)
    assert record.snapshot.at <= at - 5 and record.snapshot.pools[0].maximum == 8
    again = await decide_recorded(none, stage.settings.database, at - 5)
    assert again == record, "the same moment decides the same"


async def test_a_recorded_queue_in_front_is_decided_on_again(make_stage: Make, tmp_path: Path) -> None:
    stage = await make_stage()

    async def queue() -> float | None:
        return 9.0

    stage.loop._queues = {"chat": queue}
    await stage.ticks(5)
    record = await decide_recorded(load(_empty(tmp_path), {}), stage.settings.database, stage.clock.now())
    assert record.snapshot.pools[0].gateway_waiting == 9.0


def _empty(folder: Path) -> Path:
    path = folder / "empty.toml"
    path.touch()
    return path


async def test_a_moment_nothing_was_recorded_at_is_said(make_stage: Make, tmp_path: Path) -> None:
    stage = await make_stage()
    await stage.ticks(2)
    with pytest.raises(RecordingError, match=r"no replicas recorded .*: they reach from .* to "):
        await decide_recorded(load(_empty(tmp_path), {}), stage.settings.database, 1.0)
    with pytest.raises(ConfigError, match="names no source"):
        await decide_live(load(_empty(tmp_path), {}))
