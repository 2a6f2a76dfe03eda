"""What a restart takes back, also from a database that a newer program or a bad disk has written in."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from opsconsole.control.journal import Journal
from opsconsole.domain.records import HoldView
from opsconsole.domain.wire import to_json

Make = Callable[..., Awaitable[Any]]
PAUSE = HoldView("pause", "chat", "ann", 1.0)


@pytest.mark.parametrize("key", ["holds", "silences", "told", "regret"])
@pytest.mark.parametrize("text", ['[{"x": 1}]', "[7]", "{}", "[", "null", '"words"', '[{"kind": {}}]'])
async def test_standing_state_that_cannot_be_read_is_forgotten_and_stops_nothing(
    make_stage: Make, key: str, text: str
) -> None:
    stage = await make_stage()
    stage.store.put_state(key, text, 1.0)
    again = await stage.restarted()
    record = await again.loop.tick()
    assert record.decisions[0].target == 2
    assert again.loop.holds.items == () and again.loop.journal.told() == ()
    again.store.close()


async def test_of_several_orders_those_that_can_be_read_stand(
    make_stage: Make, caplog: pytest.LogCaptureFixture
) -> None:
    stage = await make_stage()
    stage.store.put_state("holds", json.dumps([{"kind": "of tomorrow", "new": 1}, to_json(PAUSE)]), 1.0)
    assert Journal(stage.store).recover().holds.items == (PAUSE,)
    assert "one of the database's holds cannot be read and is forgotten" in caplog.text
