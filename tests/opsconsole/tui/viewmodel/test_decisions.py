"""The decisions screen: supply with cold starts, lead, skill and coverage by lead, regret, what starts cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from opsconsole.domain.records import (
    CapacityView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    JournalEntry,
    LeadNeed,
    LeadRecord,
    PoolView,
    RegretTally,
    RegretView,
    RuleTrace,
    SupplyPoint,
)
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import plain
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import charts, decisions, journal, maximised, outlook, why
from opsconsole.tui.viewmodel.pages import view
from opsconsole.tui.world import Look, World

NOW = 1_764_504_271.0


def text(lines: object) -> str:
    return "\n".join(plain(line).rstrip() for line in lines)  # type: ignore[attr-defined]


def test_supply_is_ready_replicas_then_those_that_start_when_they_are_expected(world: World) -> None:
    snapshot, decision = world.snapshot, world.decisions[0]
    assert snapshot is not None
    pool = snapshot.pools[0]
    found = charts.curves(world, snapshot, pool, world.forecasts[0], decision)
    one = 4.4 * 0.9
    assert [(at - NOW, round(value / one, 6)) for at, value in found.supply[-3:]] == [(0, 6), (42, 7), (300, 9)]
    assert found.supply[0][0] == world.history[0].at
    assert found.marks == [NOW - 11]


def test_without_capacity_there_is_no_supply_line_and_it_is_not_guessed(world: World, look: Look) -> None:
    bare = replace(world, decisions=(replace(world.decisions[0], capacity=None),))
    snapshot = world.snapshot
    assert snapshot is not None
    assert charts.curves(bare, snapshot, snapshot.pools[0], None, bare.decisions[0]).supply == []
    assert "not known yet" in outlook.capacity_words(bare.decisions[0], 6)
    assert "capacity" not in text(charts.demand(bare, snapshot, snapshot.pools[0], look, 80, 12)).splitlines()[-1]


def test_the_horizon_cuts_past_and_future_alike(world: World) -> None:
    snapshot = world.snapshot
    assert snapshot is not None
    found = charts.curves(world, snapshot, snapshot.pools[0], world.forecasts[0], world.decisions[0], 300.0)
    assert min(at for at, _ in found.past) >= NOW - 300
    assert max(at for at, *_ in found.ahead) <= NOW + 300


def test_another_series_is_drawn_in_its_own_unit(world: World, look: Look) -> None:
    tokens = replace(world.forecasts[0], unit="prompt tokens/s", quantiles=tuple(
        tuple(1000 * v for v in q) for q in world.forecasts[0].quantiles
    ))  # fmt: skip
    both = replace(world, forecasts=(*world.forecasts, tokens))
    snapshot = both.snapshot
    assert snapshot is not None
    legend = text(charts.demand(both, snapshot, snapshot.pools[0], look, 120, 12, "prompt tokens/s")).splitlines()[-1]
    assert "tok/s in" in legend and "capacity 6 x 5940" in legend


RECORD = (LeadRecord(60.0, 200, 0.3, (0.1, 0.5, 0.92)), LeadRecord(300.0, 180, -0.05, (0.2, 0.6, 0.8)))
FORECAST = ForecastView("chat", "requests/s", NOW, (60.0, 300.0), (0.1, 0.5, 0.9), ((1, 2, 3), (1, 2, 3)), "ets",
                        bought=0.9, record=RECORD, weights={"ets": 0.7, "seasonal": 0.3})  # fmt: skip


def test_skill_and_coverage_are_those_of_the_lead_that_decides() -> None:
    assert outlook.skill_words(FORECAST, 70.0) == "skill +30% at +60s, p90 covered 92%"
    assert outlook.skill_words(FORECAST, 280.0) == "skill -5% at +5m, p90 covered 80%"
    assert "DEMOTED" in outlook.skill_words(replace(FORECAST, demoted=True), 70.0)


@pytest.mark.parametrize("record", [(), (LeadRecord(60.0, 0),)])
def test_a_forecast_that_met_no_target_has_no_skill(record: tuple[LeadRecord, ...]) -> None:
    fresh = replace(FORECAST, record=record)
    assert outlook.skill_words(fresh) == "skill -- (no target has come yet)"
    assert "no forecast has met its target" in text(outlook.skill_table(fresh, 60.0, 40, 8))
    assert outlook.skill_words(None) == "no forecast yet"


def test_the_table_marks_the_deciding_lead_and_leaves_unknown_skill_open() -> None:
    unknown = replace(FORECAST, record=(*RECORD, LeadRecord(900.0, 3, None, ())))
    table = text(outlook.skill_table(unknown, 310.0, 42, 8)).splitlines()
    assert table[2].startswith(" > +5m") and "-5%" in table[2]
    assert table[3].count("--") == 4  # skill and three levels
    assert "ets 70%" in table[-1]


def test_regret_says_how_often_right_and_by_how_much_wrong() -> None:
    words = outlook.regret_words(RegretTally(42, 0.93, 0.1, 0.4, NOW - 3600))
    assert words == "regret: right 93% of 42, 0.1 too few, 0.4 too many"
    assert "no decision has come due" in outlook.regret_words(None)


@pytest.mark.parametrize(("needed", "said"), [(9, "1 too few"), (8, "right"), (6, "2 too many")])
def test_a_decision_is_explained_with_what_it_should_have_been(needed: int, said: str, look: Look) -> None:
    regret = RegretView("chat", NOW, NOW + 100, 100.0, 8, needed, needed - 0.4, 30.0, "requests/s")
    decision = DecisionView(NOW, "chat", 7, 8, "reactive", "", regret=regret, lead=100.0)
    shown = text(why.of_decision(decision, look, 80))
    assert f"{needed} were needed, 8 decided: {said}" in shown.replace("\n", " ")
    assert "lead 1m40s (assumed" in shown.replace("\n", " ")


def test_supply_on_its_way_is_told_in_words(look: Look) -> None:
    coming = (SupplyPoint(NOW, 6), SupplyPoint(NOW + 42, 7))
    decision = DecisionView(NOW, "chat", 6, 7, "x", "", capacity=CapacityView(4.0), supply=coming)
    assert outlook.supply_words(decision, look) == "supply 6, 7 from 12:05:13"
    assert outlook.supply_words(replace(decision, supply=coming[:1]), look) == ""


def test_what_starts_cost_is_in_gpu_hours_where_gpus_are_told(
    make_snapshot: Callable[..., FleetSnapshot], look: Look
) -> None:
    spent = {"load": 1800.0, "warm": 1800.0}
    two_gpus = make_snapshot(pools=(PoolView("chat", gpus=16, start_s=spent, start_since=NOW - 7200),))
    assert "2.00 GPU-h in 2h00m" in text(outlook.start_cost(two_gpus, two_gpus.pools[0], look, 40))
    untold = make_snapshot(pools=(PoolView("chat", start_s=spent, start_since=NOW - 7200),))
    assert "1.00 replica-h" in text(outlook.start_cost(untold, untold.pools[0], look, 40))
    none = make_snapshot(pools=(PoolView("chat", start_since=NOW - 60),))
    assert "no replica started in 1m00s" in text(outlook.start_cost(none, none.pools[0], look, 40))


def test_a_phase_less_saves_its_own_hours_and_the_supply_held_for_it(
    make_snapshot: Callable[..., FleetSnapshot], look: Look
) -> None:
    needs = (LeadNeed(10.0, 4.0), LeadNeed(60.0, 5.0), LeadNeed(110.0, 8.0))
    spent = {"load": 2700.0, "warm": 900.0}
    pool = PoolView("chat", gpus=16, start_s=spent, start_since=NOW - 86400)
    snapshot = make_snapshot(pools=(pool,))  # 8 replicas of 2 GPUs
    assert outlook.held_for(needs, 0.25) == pytest.approx(1.5)  # 8 less what is held at 85 s
    assert outlook.held_for(needs, 0.75) == pytest.approx(3.5)
    assert outlook.held_for(needs, 1.0) == pytest.approx(4.0)
    title, load, warm = text(outlook.start_cost(snapshot, pool, look, 40, needs)).splitlines()
    assert title.endswith("saved/day") and max(map(len, (title, load, warm))) <= 40
    assert load.split()[-1] == fmt.rate(1.5 + 24 * 2 * 3.5) and warm.split()[-1] == fmt.rate(0.5 + 24 * 2 * 1.5)
    early = replace(pool, start_since=NOW - 600)
    assert "saved" not in text(outlook.start_cost(make_snapshot(pools=(early,)), early, look, 40, needs))


def test_regret_is_in_the_history_and_not_taken_for_a_decision(world: World, look: Look) -> None:
    shown = text(decisions.view(world, ViewState(page="decisions"), look, Size(160, 48)).lines)
    assert "REGRET  7->8" in shown and "9 were needed" in shown


@pytest.mark.parametrize("page", sorted(maximised.PANELS))
def test_every_panel_fills_any_screen(page: str, world: World, look: Look) -> None:
    for name in maximised.PANELS[page]:
        state = ViewState(page=page, selected="llama-8b-7d9-x2k", maximised=name)
        for size in (Size(1, 1), Size(7, 3), Size(80, 24), Size(160, 48)):
            frame = view(world, state, look, size)
            assert len(frame.lines) == size.height
            assert all(sum(len(c.text) for c in line) == size.width for line in frame.lines), (name, size)
        assert f"{name}   " in text(view(world, state, look, Size(80, 24)).lines)


def test_why_cuts_nothing_where_it_is_asked_for_whole(look: Look) -> None:
    inputs = "waiting 0 requests, threshold 8 requests, growth 0.2 requests/s, " * 3
    rule = RuleTrace("queue", inputs, None, "off", "the queue is empty, so it asks for nothing")
    decision = DecisionView(NOW, "chat", 2, 2, "forecast", "", (rule,))
    table = text(why.of_decision(decision, look, 80))
    whole = text(why.of_decision(decision, look, 80, whole=True))
    assert "~" in table and "~" not in whole
    assert " ".join(whole.split()).count("growth 0.2") == 3 and "asks for nothing" in whole
    assert all(len(line) <= 80 for line in whole.splitlines())


def entry(seq: int, current: int, target: int, binding: str, pool: str = "chat") -> JournalEntry:
    made = DecisionView(NOW + seq, pool, current, target, binding, f"{binding} {seq}")
    return JournalEntry(seq, NOW + seq, "decision", pool, "", decision=made)


def test_holds_one_after_another_are_one_line_until_something_else_is_decided() -> None:
    told = [
        entry(1, 2, 2, "demand"), entry(2, 2, 2, "forecast"), entry(3, 2, 3, "forecast"), entry(4, 3, 3, "demand"),
        entry(5, 1, 1, "minimum", "code"), entry(6, 3, 3, "forecast"), entry(7, 3, 3, "demand"),
    ]  # fmt: skip
    assert [e.seq for e in journal.decisions(told)] == [7, 5, 3, 2]
    assert [e.seq for e in journal.decisions(told, "code")] == [5]
