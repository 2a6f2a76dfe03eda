"""The forecast through the whole loop: to the law, the record, the journal, the explanation, and back as regret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.control.demand import SeriesOptions
from opsconsole.control.explanation import explain
from opsconsole.control.foresight import Foresight, ForesightOptions
from opsconsole.control.settings import PoolSettings
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import TickRecord
from opsconsole.history.reader import PastDecision, Reader
from policies.registry import policy
from policies.situation import CapacityFacts, Limits

Make = Callable[..., Awaitable[Any]]
EVERY_S = 5.0


@pytest.fixture
def foresight() -> Iterator[Foresight]:
    made = Foresight(ForesightOptions(SeriesOptions(interval_s=EVERY_S), fits=False), ManualClock())
    yield made
    made.close()


def pool(capacity: float) -> PoolSettings:
    """One replica serves so many of the requests of which each replica gets one a second."""
    facts = CapacityFacts(capacity, source="bench")
    return PoolSettings(PoolSpec("chat", "model", 1, 8), Limits(1, 8), lead_s=60.0, capacity=facts)


async def lived(stage: Any, ticks: int) -> TickRecord:
    for _ in range(ticks):
        record: TickRecord = await stage.loop.tick()
        await stage.clock.advance(EVERY_S)
    return record


def decided(stage: Any, at: float) -> PastDecision:
    reader = Reader(stage.settings.database)
    try:
        return reader.decisions_at(at)[0]
    finally:
        reader.close()


async def test_it_reaches_the_law_the_record_and_the_explanation(make_stage: Make, foresight: Foresight) -> None:
    stage = await make_stage(
        law=policy("predictive"), forecasting=foresight, pools=(pool(1.0),), interval_s=EVERY_S, baselines=("reactive",)
    )
    record = await lived(stage, 60)
    (view,) = record.forecasts
    assert (view.pool, view.unit, view.bought, view.step) == ("chat", "requests/s", 0.9, 60.0)
    assert [need.lead for need in view.needs] == [5.0, 7.5, 10.0, 12.5, 15.0], (
        "the interval, then the start by quarters"
    )
    (decision,) = record.decisions
    forecast = next(rule for rule in decision.trace if rule.rule == "forecast")
    assert forecast.wants is not None and forecast.wants >= 2 and "90 % quantile" in forecast.text
    assert decision.target >= decision.counterfactual["reactive"], "a forecast only raises"
    assert decision.capacity is not None and decision.capacity.request_rate == 1.0
    assert (decision.lead, decision.lead_assumed) == (15.0, False), "a start of 10 s was seen, and an interval on top"
    assert decision.supply[0].at == record.snapshot.at
    past = decided(stage, stage.clock.now())
    told = list(explain(past.decision, past.situation, past.memory_delta))
    at = told.index("what was forecast:")
    assert told[at + 1].startswith("  requests/s: 50% ") and "(online ensemble)" in told[at + 1]
    assert "short history" in told[at + 2]


async def test_a_decision_is_looked_back_at_once_its_time_has_come(make_stage: Make, foresight: Foresight) -> None:
    stage = await make_stage(
        want=2, law=policy("predictive"), forecasting=foresight, pools=(pool(0.4),), interval_s=EVERY_S
    )
    record = await lived(stage, 60)
    (line, *_) = stage.journal("regret")
    assert line.startswith("chat decided ") and "were needed" in line
    reader = Reader(stage.settings.database)
    entry = reader.journal(kind="regret")[0]
    reader.close()
    assert entry.decision is not None and entry.decision.regret is not None
    then = decided(stage, entry.decision.at).decision
    assert then.regret == entry.decision.regret and then.at == entry.decision.at
    assert list(explain(then))[-1] == f"looking back: {entry.text}"
    tally = record.forecasts[0].regret
    assert tally is not None and tally.decisions > 5


async def test_what_was_decided_before_a_restart_is_judged_after_it(make_stage: Make) -> None:
    stage = await make_stage(want=2, law=policy("predictive"), pools=(pool(0.4),), interval_s=EVERY_S)
    await lived(stage, 8)
    assert stage.journal("regret") == []
    again = await stage.restarted()
    try:
        await lived(again, 16)
        judged = again.journal("regret")
        assert judged and len(judged) == len(set(judged))
    finally:
        again.store.close()
