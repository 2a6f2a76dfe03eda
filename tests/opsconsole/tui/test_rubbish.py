"""The collector's long round waits for a pause in somebody's typing, but not for ever."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator

import pytest

from opsconsole.clock import ManualClock
from opsconsole.tui import rubbish

BUSY, IDLE = float("inf"), float("-inf")  # when a key was pressed last: always just now, never


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A one for every whole round; the tests' own objects are left to the real collector."""
    seen: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: seen.append(1))
    return seen


@contextlib.asynccontextmanager
async def kept_away(clock: ManualClock, pressed_at: float) -> AsyncIterator[None]:
    task = asyncio.create_task(rubbish.keep_away(clock, lambda: pressed_at))
    await asyncio.sleep(0)
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_at_an_idle_minute_everything_is_looked_through_once(rounds: list[int]) -> None:
    clock = ManualClock()
    async with kept_away(clock, IDLE):
        await clock.advance(rubbish.WHOLE_S - rubbish.IDLE_S)
        assert not rounds
        await clock.advance(2 * rubbish.IDLE_S)
        assert len(rounds) == 1


async def test_somebody_who_types_is_not_stopped_until_it_is_long_overdue(rounds: list[int]) -> None:
    clock = ManualClock()
    async with kept_away(clock, BUSY):
        await clock.advance(rubbish.LATEST_S - rubbish.IDLE_S)
        assert not rounds
        await clock.advance(2 * rubbish.IDLE_S)
        assert len(rounds) == 1


async def test_the_collector_is_left_as_it_was_found() -> None:
    before = gc.get_threshold()
    async with kept_away(ManualClock(), IDLE):
        assert gc.get_threshold() != before and gc.get_freeze_count() > 0
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
