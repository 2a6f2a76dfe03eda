"""When a change that was refused is tried again, and that people are told so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from opsconsole.domain.records import Outcome, Plan
from opsconsole.errors import PlanRefused
from tests.opsconsole.control.conftest import Stage

Make = Callable[..., Awaitable[Stage]]


async def test_when_a_refused_change_is_tried_again_is_told_once(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    stage.law.target = 4

    async def refuses(self: Any, plan: Plan, by: str) -> Outcome:
        raise PlanRefused("Not now: a budget.")

    monkeypatch.setattr(type(stage.world), "apply", refuses)
    await stage.ticks(20)
    waiting = "chat to 4 failed twice: tried again in 4 s, then ever more seldom, at least every 60 s"
    assert stage.journal("error") == [waiting]
    assert len(stage.journal("outcome")) == 4  # at 0, 1, 5 and 13 s
