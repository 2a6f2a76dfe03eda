"""A wall clock that is set back: decisions, rates, windows and forecasts go on; a small step is waited out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from opsconsole.act.pretend import PretendWorld
from opsconsole.control.alerts import AlertBook
from opsconsole.control.demand import DemandSeries, SeriesOptions
from opsconsole.control.set_back import FAR_S, alerts_at, fleet_at, is_set_back, memory_at
from opsconsole.domain.fleet import FleetState
from opsconsole.domain.records import AlertView
from opsconsole.domain.replica import Observation, ReplicaRef
from opsconsole.errors import PlanRefused
from policies.memory import Memory

Make = Callable[..., Awaitable[Any]]


def set_back(stage: Any, seconds: float) -> None:
    """The machine's clock and the stamps that follow it; time that passes is not touched."""
    stage.clock._now -= seconds
    for replica in stage.world._held["replicas"].values():
        replica["born"] -= seconds


@pytest.mark.parametrize("seconds", [FAR_S + 2.0, 3600.0, 86_400.0])
@pytest.mark.parametrize("decide_every_s", [None, 5.0])
async def test_decisions_and_rates_go_on(make_stage: Make, seconds: float, decide_every_s: float | None) -> None:
    stage = await make_stage(decide_every_s=decide_every_s)
    await stage.ticks(90)
    set_back(stage, seconds)
    asked = len(stage.law.seen)
    stage.law.target = 4
    record = await stage.loop.tick()
    assert len(stage.law.seen) == asked + 1 and record.decisions[0].target == 4
    assert stage.world.applied == 1
    await stage.ticks(70)
    newest = (await stage.loop.tick()).snapshot
    assert newest.pools[0].request_rate == pytest.approx(4.0, rel=0.05)  # one a second, a replica
    assert [line for line in stage.journal("error") if "set back" in line] == [
        f"the clock was set back by {stage_words(seconds)}: rates, windows and forecasts begin anew"
    ]


def stage_words(seconds: float) -> str:
    return {FAR_S + 2.0: "61 s", 3600.0: "60 min", 86_400.0: "24 h"}[seconds]


async def test_a_small_step_is_waited_out_and_costs_no_decision(make_stage: Make) -> None:
    stage = await make_stage(decide_every_s=10.0)
    await stage.ticks(90)
    asked = len(stage.law.seen)
    set_back(stage, 3.0)
    await stage.ticks(40)
    assert 4 <= len(stage.law.seen) - asked <= 5
    assert stage.journal("error") == []


async def test_a_change_that_was_refused_is_not_put_off_until_the_old_time_comes_again(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    tried: list[int] = []

    async def refuse(self: Any, pool: str, to: int, reason: str, drain: Any = ()) -> None:
        tried.append(to)
        raise PlanRefused("not now")

    monkeypatch.setattr(PretendWorld, "plan_scale", refuse)
    stage.law.target = 4
    await stage.ticks(20)
    before = len(tried)
    await stage.ticks(1)
    assert len(tried) == before, "patience, after several refusals"
    set_back(stage, 86_400.0)
    await stage.ticks(1)
    assert len(tried) == before + 1


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [(None, 5.0, False), (100.0, 100.0, False), (100.0, 101.0, False), (100.0, 41.0, False), (100.0, 39.0, True)],
)
def test_only_a_step_further_than_a_minute_is_not_waited_out(before: float | None, now: float, found: bool) -> None:
    assert is_set_back(before, now) is found


ROWS = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.tuples(st.floats(0, 200), st.floats(0, 9))).map(tuple), max_size=3
)


@hypothesis_settings(max_examples=60, deadline=None)
@given(ROWS, st.dictionaries(st.sampled_from("xy"), st.floats(0, 200)), st.floats(0, 200))
def test_a_memory_keeps_what_has_been_and_nothing_that_has_yet_to_come(
    rows: dict[str, tuple[tuple[float, float], ...]], since: dict[str, float], now: float
) -> None:
    found = memory_at(Memory(rows, since), now)
    for name, series in rows.items():
        assert found.series(name) == tuple(row for row in series if row[0] <= now)
    assert found.since.keys() == since.keys()
    assert all(at == min(since[name], now) for name, at in found.since.items())
    assert Memory.from_json(found.to_json()) == found
    assert memory_at(found, now) == found


def test_who_is_in_the_fleet_stays_known() -> None:
    seen = {("chat", "r0"): (500.0, Observation(ReplicaRef("r0", "chat"), None))}
    found = fleet_at(FleetState(seen=seen), 100.0)
    assert found.seen == {("chat", "r0"): (100.0, seen["chat", "r0"][1])}
    assert found.tracks == {}


def test_an_alert_goes_on_and_is_told_when_it_has_held_from_now() -> None:
    old = AlertView("replica-down", "chat/r0", "pending", 500.0, "down", "warning")
    book = alerts_at(AlertBook({("replica-down", "chat/r0"): old}, resting={"chat/r1": 9_999.0}), 100.0)
    assert [alert.since for alert in book.views()] == [100.0]
    assert book.resting == {"chat/r1": 700.0}


def test_a_forecast_begins_anew_where_the_clock_went_back_further_than_it_bridges() -> None:
    series = DemandSeries(SeriesOptions(interval_s=5.0))
    for tick in range(100):
        series.add(1e6 + 5.0 * tick, 4.0)
    said = [series.forecast]
    series.add(1e6 - 86_400.0, 6.0)
    said.append(series.forecast)
    for tick in range(1, 60):
        series.add(1e6 - 86_400.0 + 5.0 * tick, 6.0)
    first, none, after = *said, series.forecast
    assert first is not None and after is not None
    assert none is None, "a forecast of tomorrow is none of the next minutes"
    assert after.at < 1e6 - 86_000.0
    assert after.quantile(60.0, 0.5) == pytest.approx(6.0)
