"""What a reader of a stream is told: everything once, then what changed, and nothing slow holds a tick up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsconsole.client.telling import Telling, Topic
from opsconsole.domain.beside import TOLD, EventReader
from opsconsole.errors import OpsConsoleError


class Board:
    """A topic whose items the test sets, or its error."""

    def __init__(self, *items: Any) -> None:
        self.items: list[Any] = list(items)
        self.error: Exception | None = None
        self.asked = 0

    async def __call__(self) -> list[Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.items


async def told(telling: Telling, at: float) -> list[tuple[str, str]]:
    return list(EventReader().feed((await telling.before(at)).encode()))


async def test_every_topic_is_told_once_and_then_when_it_changed() -> None:
    alerts, holds = Board(1), Board()
    telling = Telling({"alerts": Topic(alerts), "holds": Topic(holds)}, ["alerts", "holds", "unheard"])
    assert await told(telling, 1.0) == [(TOLD, '["alerts","holds"]'), ("alerts", "[1]"), ("holds", "[]")]
    assert await told(telling, 2.0) == []
    alerts.items = []
    assert await told(telling, 3.0) == [("alerts", "[]")]


async def test_whoever_asks_for_nothing_is_told_ticks_alone() -> None:
    assert await told(Telling({"alerts": Topic(Board(1))}, [""]), 1.0) == []


async def test_what_adds_is_told_where_something_came_even_the_same_again() -> None:
    journal = Board("x")
    telling = Telling({"journal": Topic(journal, adds=True)}, ["journal"])
    assert ("journal", '["x"]') in await told(telling, 1.0)
    assert await told(telling, 2.0) == [("journal", '["x"]')]
    journal.items = []
    assert await told(telling, 3.0) == []


@pytest.mark.parametrize("error", [OpsConsoleError("not to be had now"), OSError("a disk")])
async def test_a_topic_that_fails_is_logged_once_and_told_when_it_can_be_had_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    alerts = Board()
    telling = Telling({"alerts": Topic(alerts)}, ["alerts"])
    alerts.error = error
    assert await told(telling, 1.0) == [(TOLD, '["alerts"]')]
    assert await told(telling, 2.0) == [] and len(caplog.records) == 1
    alerts.items, alerts.error = [1], None
    assert await told(telling, 3.0) == [("alerts", "[1]")]


async def test_a_slow_topic_holds_no_tick_up_and_is_asked_at_its_own_pace() -> None:
    gate = asyncio.Event()
    asked: list[int] = []

    async def slow() -> list[int]:
        asked.append(1)
        await gate.wait()
        return [7]

    telling = Telling({"findings": Topic(slow, every_s=5.0)}, ["findings"])
    assert await told(telling, 1.0) == [(TOLD, '["findings"]')]
    assert await told(telling, 2.0) == []
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await told(telling, 3.0) == [("findings", "[7]")]
    assert len(asked) == 1
    await told(telling, 6.0)
    await asyncio.sleep(0)
    assert len(asked) == 2
    await telling.close()


async def test_a_replay_that_is_wound_back_asks_again() -> None:
    board = Board(1)
    telling = Telling({"findings": Topic(board, every_s=5.0)}, ["findings"])
    for at in (100.0, 40.0):
        await told(telling, at)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await told(telling, 41.0)
    await telling.close()
    assert board.asked == 2
