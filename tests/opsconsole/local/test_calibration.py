"""Calibration against a scripted engine whose speed is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Target
from opsconsole.clock import SystemClock
from opsconsole.errors import OpsConsoleError
from opsconsole.local import calibration
from opsconsole.local.calibration import calibrate
from tests.opsconsole.bench.scripted_server import DONE, Step, scripted, text, usage


def engine(index: int) -> tuple[int, Sequence[Step]]:
    """First token after 40 ms, then 15 more, 10 ms apart."""
    steps: list[Step] = [0.04]
    for token in range(16):
        steps += [text("a", "length" if token == 15 else None), 0.01]
    return 200, [*steps, usage(16), DONE]


async def test_bounds_are_multiples_of_the_idle_times_and_loads_of_what_was_sustained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration, "STEP_SECONDS", 0.6)
    monkeypatch.setattr(calibration, "USERS", (4,))
    said: list[str] = []
    async with scripted(engine) as server:
        found = await calibrate(Target(server.url), None, SystemClock(), 1, said.append)
    assert 0.04 <= found.idle_ttft < 0.2 and 0.01 <= found.idle_tpot < 0.05
    assert found.bounds.ttft == pytest.approx(5 * found.idle_ttft, rel=0.06)
    assert found.bounds.tpot == pytest.approx(2.5 * found.idle_tpot, rel=0.06)
    assert found.users == 4 and found.sustained > 3
    assert any("5x idle TTFT, 2.5x idle TPOT" in line for line in found.lines())
    assert said[0] == "measuring one request at a time"


async def test_bounds_that_were_asked_for_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "USERS", ())
    asked = Bounds(ttft=2.0, tpot=0.5, target=0.9)
    async with scripted(engine) as server:
        found = await calibrate(Target(server.url), asked, SystemClock(), 1, lambda line: None)
    assert found.bounds == asked
    assert "as asked" in found.lines()[-1]


async def test_an_engine_that_answers_nonsense_is_told_with_its_reason() -> None:
    def broken(index: int) -> tuple[int, Sequence[Step]]:
        return 500, [b'{"error": {"message": "out of memory"}}']

    async with scripted(broken) as server:
        with pytest.raises(OpsConsoleError, match="does not answer as it should: out of memory"):
            await calibrate(Target(server.url), None, SystemClock(), 1, lambda line: None)
