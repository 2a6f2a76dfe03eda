"""Counts that others bring about, as the loop stands by them and its metrics show them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from opsconsole.act.board import PATIENCE_S, Board
from opsconsole.control.settings import Mode

Make = Callable[..., Awaitable[Any]]
LINE = 'opsconsole_desired_replicas{pool="chat"}'


def shown(stage: Any) -> list[str]:
    return [line for line in stage.loop.meter.text().decode().splitlines() if line.startswith(LINE)]


async def test_the_first_decision_publishes_what_is_there_and_every_tick_stands_by_it(make_stage: Make) -> None:
    stage = await make_stage()
    stage.loop.board = Board(frozenset({"chat"}))
    await stage.ticks(1)
    assert shown(stage) == [f"{LINE} 2.0"]
    stage.loop.board.publish("chat", 5, stage.clock.now())
    await stage.ticks(1)
    assert shown(stage) == [f"{LINE} 5.0"]
    found = stage.loop.board.desired("chat", stage.clock.now())
    assert found is not None and stage.clock.now() - found.at <= stage.settings.interval_s


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.OFF])
async def test_a_daemon_that_only_advises_publishes_nothing(make_stage: Make, mode: Mode) -> None:
    stage = await make_stage(mode=mode)
    stage.loop.board = Board(frozenset({"chat"}))
    await stage.ticks(3)
    assert shown(stage) == []
    assert stage.loop.board.desired("chat", stage.clock.now()) is None


async def test_who_may_not_change_a_pool_lets_its_count_grow_old_and_vanish(make_stage: Make) -> None:
    stage = await make_stage()
    stage.loop.board = Board(frozenset({"chat"}))
    await stage.ticks(1)
    stage.world.owner = "HPA somebody-elses"
    await stage.ticks(1)
    assert shown(stage) == [f"{LINE} 2.0"]
    await stage.ticks(int(PATIENCE_S / stage.settings.interval_s) + 1)
    assert shown(stage) == [], "an unknown count is absent, not repeated"


async def test_pools_that_we_scale_ourselves_are_not_published(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(2)
    assert shown(stage) == []
