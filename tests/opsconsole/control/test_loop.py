"""One tick after another on a manual clock: what is decided is done once, written down, and survives."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from opsconsole.act.actuator import PoolState
from opsconsole.act.pretend import PretendWorld
from opsconsole.control.agent import reload_settings
from opsconsole.control.alerts import Silence
from opsconsole.control.settings import Mode, PoolSettings
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import HoldView, Plan, PlanKind, ReplicaState
from opsconsole.errors import ConfigError, PlanRefused
from opsconsole.history.reader import Reader
from policies.registry import policy
from policies.situation import Limits, Outlook

Make = Callable[..., Awaitable[Any]]


async def test_a_decision_is_applied_once_and_written_down(make_stage: Make) -> None:
    stage = await make_stage()
    stage.law.target = 4
    await stage.ticks(3)
    assert stage.world.applied == 1
    assert (await stage.world.state("chat")).want == 4
    assert stage.journal("decision") == ["chat 2 -> 4 (wanted): the test wants 4", "chat stays at 4: the test wants 4"]
    assert stage.journal("plan") == ["scale chat from 2 to 4: the test wants 4"]
    await stage.ticks(12)
    assert stage.journal("outcome") == ["scale chat from 2 to 4 running", "scale chat from 2 to 4 done"]
    assert stage.store.open_acts() == ()
    assert any("r3 is ready" in line for line in stage.journal("replica"))


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.OFF])
async def test_only_act_touches_the_world(make_stage: Make, mode: Mode) -> None:
    stage = await make_stage(mode=mode)
    stage.law.target = 4
    await stage.ticks(5)
    assert stage.world.applied == 0
    assert len(stage.journal("decision")) == (1 if mode is Mode.ADVISE else 0)
    assert bool(stage.law.seen) is (mode is Mode.ADVISE)


@pytest.mark.parametrize(("hold", "owner"), [("another daemon leads", None), (None, "an HPA")])
async def test_bounds_do_not_win_over_whoever_else_owns_the_scale(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch, hold: str | None, owner: str | None
) -> None:
    pool = PoolSettings(PoolSpec("chat", "model", 4, 8), Limits(4, 8), policy="reactive")
    stage = await make_stage(want=2, law=policy("reactive"), pools=(pool,))
    real = PretendWorld.state

    async def held(self: PretendWorld, name: str) -> PoolState:
        return replace(await real(self, name), hold=hold, owner=owner)

    monkeypatch.setattr(PretendWorld, "state", held)
    await stage.ticks(5)
    (told,) = stage.journal("decision")
    assert told.startswith("chat 2 -> 4 (minimum): minimum 4 holds up 2; hold at 2: an")
    assert stage.world.applied == 0
    assert stage.journal("plan") == stage.journal("error") == []


async def test_the_situation_the_memory_and_the_trace_are_kept_for_every_tick(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(3)
    reader = Reader(stage.settings.database)
    (past,) = reader.decisions_at(stage.clock.now())
    reader.close()
    assert past.situation["want"] == 2 and len(past.situation["replicas"]) == 2
    assert past.decision.trace[0].text == "the test wants 2"
    assert len(past.memory_delta["in"]["rows"]["set"]["asked"]) == 3
    assert past.tick == 3


async def test_a_source_that_raises_is_a_failing_source_and_the_loop_goes_on(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(2)

    def broken() -> None:
        raise RuntimeError("boom")

    stage.source.fault = broken
    record = await stage.loop.tick()
    assert [(s.ok, s.error) for s in record.snapshot.sources] == [(False, "RuntimeError: boom")]
    assert len(record.snapshot.replicas) == 2, "replicas of a failing source have not left"
    assert not stage.law.seen[-1].covered
    assert not any("left" in line for line in stage.journal("replica"))


async def test_a_source_that_hangs_is_given_up_after_the_deadline(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    await stage.ticks(1)

    async def hang(now: float) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(type(stage.source), "observe", lambda self, now: hang(now))
    monkeypatch.setattr("opsconsole.control.loop.gather", _quick(stage))
    record = await stage.loop.tick()
    assert record.snapshot.sources[0].error_kind == "timeout"


def _quick(stage: Any) -> Any:
    from opsconsole.control.observing import gather

    return lambda sources, now, deadline: gather(sources, now, 0.01)


async def test_one_replica_whose_page_breaks_the_fold_does_not_stop_the_others(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opsconsole.domain.fleet import fold as real

    def fragile(tick: int, at: float, observations: Any, *rest: Any, **more: Any) -> Any:
        if any(o.replica.name == "r1" for o in observations):
            raise ZeroDivisionError("r1")
        return real(tick, at, observations, *rest, **more)

    monkeypatch.setattr("opsconsole.control.observing.fold", fragile)
    stage = await make_stage()
    record = await stage.loop.tick()
    assert [r.replica for r in record.snapshot.replicas] == ["r0"]
    assert record.snapshot.notes == ("left out, their pages break the fold: r1",)


async def test_a_law_that_raises_holds_its_pool_and_is_told_once(make_stage: Make) -> None:
    stage = await make_stage()
    stage.law.fails = ValueError("bad law")
    record = await stage.loop.tick()
    await stage.ticks(3)
    (decision,) = record.decisions
    assert (decision.target, decision.held, decision.binding) == (2, True, "error")
    assert stage.journal("error") == ["law wanted failed (ValueError: bad law); nothing is changed"]
    stage.law.fails, stage.law.target = None, 3
    await stage.ticks(1)
    assert stage.world.applied == 1


async def test_a_pool_owned_by_something_else_is_left_alone(make_stage: Make) -> None:
    stage = await make_stage()
    stage.world.owner, stage.law.target = "HPA chat-hpa", 4
    await stage.ticks(2)
    assert "HPA chat-hpa owns the scale of chat" in stage.law.seen[-1].frozen_reason
    assert stage.world.applied == 0


async def test_a_world_that_moved_refuses_the_plan_and_the_next_tick_plans_anew(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    stage.law.target = 4
    real = type(stage.world).plan_scale
    stale = {"once": True}

    async def late(self: Any, pool: str, to: int, reason: str, drain: Any = ()) -> Plan:
        plan: Plan = await real(self, pool, to, reason, drain)
        return replace(plan, version="old") if stale.pop("once", False) else plan

    monkeypatch.setattr(type(stage.world), "plan_scale", late)
    await stage.ticks(2)
    outcomes = stage.journal("outcome")
    assert outcomes[0].startswith("scale chat from 2 to 4 refused: The world moved")
    assert outcomes[1] == "scale chat from 2 to 4 running"
    assert stage.world.applied == 1


async def test_one_drain_at_a_time_while_growth_is_never_kept_waiting(make_stage: Make) -> None:
    stage = await make_stage(want=4)
    stage.law.target = 3
    await stage.ticks(1)
    stage.law.target = 2
    await stage.ticks(2)
    assert stage.world.applied == 1
    stage.law.target = 5
    await stage.ticks(1)
    assert (await stage.world.state("chat")).want == 5


async def test_after_a_restart_memory_and_ticks_go_on_and_nothing_is_scaled_twice(make_stage: Make) -> None:
    stage = await make_stage()
    stage.law.target = 4
    await stage.ticks(2)
    again = await stage.restarted()
    await again.ticks(2)
    assert again.world.applied == 1
    record = await again.loop.tick()
    assert record.snapshot.tick == 5
    (past,) = _past(again)
    assert len(past.memory_delta["in"]["rows"]["set"]["asked"]) == 5, "memory of both processes"
    await again.clock.advance(10)
    await again.ticks(1)
    assert again.journal("outcome")[-1] == "scale chat from 2 to 4 done", "the act of the first process was followed"
    again.store.close()


def _past(stage: Any) -> Any:
    reader = Reader(stage.settings.database)
    try:
        return reader.decisions_at(stage.clock.now())
    finally:
        reader.close()


async def test_an_act_written_but_never_carried_out_is_closed_and_decided_again(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(1)
    # as a kill between writing the act and touching the world leaves it
    stage.store.begin_act(Plan("lost", PlanKind.SCALE, "chat", 2, 4, version="0"), "auto", stage.clock.now())
    stage.law.target = 4
    again = await stage.restarted()
    await again.ticks(2)
    assert (
        again.journal("outcome")[0]
        == "scale chat from 2 to 4 failed: not carried out: The plan lost never arrived here."
    )
    assert again.world.applied == 1
    again.store.close()


async def test_an_act_carried_out_whose_answer_was_lost_is_not_repeated(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(1)
    plan = await stage.world.plan_scale("chat", 4, "queue")
    stage.store.begin_act(plan, "auto", stage.clock.now())
    await stage.world.apply(plan, "auto")  # and killed here, before the outcome was written
    stage.law.target = 4
    again = await stage.restarted()
    await again.ticks(3)
    assert again.world.applied == 1
    assert [act.plan.plan_id for act in again.store.open_acts()] == [plan.plan_id]
    again.store.close()


async def test_a_drain_under_way_is_followed_by_the_next_process(make_stage: Make) -> None:
    stage = await make_stage(want=3)
    stage.law.target = 2
    await stage.ticks(1)
    again = await stage.restarted()
    await again.ticks(2)
    assert [r.state for r in again.loop.feed.newest.replicas].count(ReplicaState.DRAINING) == 1
    await again.clock.advance(5)
    await again.ticks(1)
    assert again.journal("outcome")[-1] == "scale chat from 3 to 2 by draining r2 done"
    assert len((await again.world.state("chat")).members) == 2
    again.store.close()


async def test_rates_survive_a_restart(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(30)
    again = await stage.restarted()
    record = await again.loop.tick()
    assert record.snapshot.pools[0].request_rate == pytest.approx(2.0, rel=0.05), "known in the first tick"
    again.store.close()


async def test_pause_and_pin_reach_the_law_and_survive_a_restart(make_stage: Make) -> None:
    stage = await make_stage()
    now = stage.clock.now()
    orders = [
        HoldView("pause", "chat", "ann", now, now + 3600, note="release"),
        HoldView("pin", "", "bob", now, now + 7200, 3),
    ]
    for order in orders:
        stage.loop.holds = stage.loop.holds.apply(order)
        stage.loop.journal.write_holds(stage.loop.holds, order)
    again = await stage.restarted()
    record = await again.loop.tick()
    seen = again.law.seen[-1]
    assert (seen.paused_until, seen.pinned_minimum) == (now + 3600, 3)
    assert record.snapshot.notes == (
        "chat is paused for 1 h by ann: release",
        "every pool is pinned at 3 or more for 2 h by bob",
    )
    await again.clock.advance(7200)
    await again.loop.tick()
    assert (again.law.seen[-1].paused_until, again.law.seen[-1].pinned_minimum) == (None, None)
    again.store.close()


async def test_run_ticks_at_every_interval_and_ends_when_told(make_stage: Make) -> None:
    stage = await make_stage(interval_s=2.0)
    stop = asyncio.Event()
    running = asyncio.create_task(stage.loop.run(stop))
    for _ in range(10):
        await asyncio.sleep(0)
    for _ in range(5):
        await stage.clock.advance(2.0)
        for _ in range(20):
            await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert stage.loop.feed.newest.tick == 6


async def test_a_tick_that_cannot_be_written_is_shown_with_a_note_and_its_lines_come_later(make_stage: Make) -> None:
    stage = await make_stage()
    real = stage.loop.journal.write

    def failing(*given: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    stage.loop.journal.write = failing
    stage.law.target = 3
    record = await stage.loop.tick()
    assert stage.loop.feed.newest.notes == ("the journal cannot be written: database or disk is full",)
    assert record.plans and b"opsconsole_tick_failures_total 1.0" in stage.loop.meter.text()
    stage.loop.journal.write = real
    await stage.ticks(1)
    assert stage.journal("plan") == ["scale chat from 2 to 3: the test wants 3"]
    assert stage.loop.feed.newest.notes == ()


async def test_nothing_is_done_that_cannot_be_written_down(make_stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await make_stage()
    stage.law.target = 3

    def full(self: Any, plan: Plan, by: str, at: float) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(type(stage.store), "begin_act", full)
        await stage.ticks(2)
    assert stage.world.applied == 0
    await stage.ticks(6)
    assert stage.world.applied == 1


async def test_an_error_nobody_thought_of_does_not_end_the_loop(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    monkeypatch.setattr(stage.loop, "tick", _raises)
    stop = asyncio.Event()
    running = asyncio.create_task(stage.loop.run(stop))
    for _ in range(3):
        for _ in range(10):
            await asyncio.sleep(0)
        await stage.clock.advance(1.0)
    stop.set()
    await asyncio.wait_for(running, 5)
    assert b"opsconsole_tick_failures_total 3.0" in stage.loop.meter.text() or b"total 4.0" in stage.loop.meter.text()


async def _raises(late: float) -> Any:
    raise RuntimeError("unthought of")


class Oracle:
    """Says what the test says, or fails."""

    def __init__(self) -> None:
        self.fails = False
        self.seen = 0

    def observe(self, snapshot: Any) -> None:
        self.seen += 1
        if self.fails:
            raise ValueError("no")

    def outlooks(self, pool: str, now: float) -> Any:
        if self.fails:
            raise ValueError("no")
        return {"requests/s": Outlook((60.0,), (0.5,), ((3.0,),), "requests/s", "test")}

    def close(self) -> None:
        return None

    def views(self) -> Any:
        return ()


async def test_a_forecast_reaches_the_law_and_one_that_fails_is_not_there(make_stage: Make) -> None:
    oracle = Oracle()
    stage = await make_stage(forecasting=oracle)
    await stage.ticks(1)
    assert stage.law.seen[-1].outlooks["requests/s"].quantiles == ((3.0,),)
    oracle.fails = True
    await stage.ticks(1)
    assert stage.law.seen[-1].outlooks == {} and oracle.seen == 2


async def test_a_silence_survives_a_restart(make_stage: Make) -> None:
    stage = await make_stage()
    silence = Silence("source-failing", "", stage.clock.now() + 3600, "ann")
    stage.loop.journal.write_silences((silence,), silence, stage.clock.now())
    again = await stage.restarted()
    again.source.ok = False
    await again.ticks(20)
    assert [(a.rule, a.state) for a in again.loop.alerts.views()] == [("source-failing", "silenced")]
    again.store.close()


async def test_a_changed_configuration_counts_from_the_next_tick_and_a_wrong_one_changes_nothing(
    make_stage: Make,
) -> None:
    stage = await make_stage()
    changed = replace(stage.settings, mode=Mode.OFF, data_dir=stage.settings.data_dir / "elsewhere")
    reload_settings(stage.loop, lambda: changed, stage.clock)
    stage.law.target = 4
    await stage.ticks(2)
    assert stage.world.applied == 0 and stage.loop.settings.data_dir == stage.settings.data_dir

    def wrong() -> Any:
        raise ConfigError("fleet.toml: act.mode: no")

    reload_settings(stage.loop, wrong, stage.clock)
    assert stage.loop.settings.mode is Mode.OFF
    assert "configuration not reloaded: fleet.toml: act.mode: no" in stage.journal("error")


async def test_what_a_tick_costs_is_exported(make_stage: Make) -> None:
    stage = await make_stage()
    stage.law.target = 3
    await stage.ticks(2)
    text = stage.loop.meter.text().decode()
    assert 'opsconsole_tick_step_seconds_count{step="journal"} 2.0' in text
    assert "opsconsole_tick_seconds_count 2.0" in text
    assert 'opsconsole_pool_wanted_replicas{pool="chat"} 3.0' in text
    assert 'opsconsole_decisions_total{direction="up",pool="chat"} 1.0' in text


async def test_baselines_are_asked_beside_and_their_targets_kept(make_stage: Make) -> None:
    stage = await make_stage(baselines=("other",))
    stage.law.target = 3
    record = await stage.loop.tick()
    assert record.decisions[0].counterfactual == {"other": 3}
    reload_settings(stage.loop, lambda: replace(stage.settings, baselines=("another",)), stage.clock)
    record = await stage.loop.tick()
    assert record.decisions[0].counterfactual == {"another": 3}


async def test_a_change_that_is_always_refused_is_tried_ever_more_patiently(
    make_stage: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    stage.law.target = 4

    async def refuse(self: Any, plan: Plan, by: str) -> Any:
        raise PlanRefused("not today")

    with monkeypatch.context() as patch:
        patch.setattr(type(stage.world), "apply", refuse)
        await stage.ticks(120)
    assert 4 <= len(stage.journal("plan")) <= 9
    await stage.ticks(60)
    assert stage.world.applied == 1, "and is done once it is let through"


async def test_what_waits_in_front_of_a_pool_reaches_its_law_and_the_screens(make_stage: Make) -> None:
    stage = await make_stage()
    told: list[float | None] = [12.0, None]

    async def queue() -> float | None:
        return told.pop(0)

    async def broken() -> float | None:
        raise OSError("gone")

    stage.loop._queues = {"chat": queue, "other": broken}
    await stage.ticks(2)
    assert [s.demand.gateway_waiting for s in stage.law.seen] == [12.0, None]
    told.append(7.0)
    record = await stage.loop.tick()
    assert record.snapshot.pools[0].gateway_waiting == 7.0
