"""One decision: order of the rules, holds, bounds on every path, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from policies.compose import decide
from policies.decision import Decision, Verdict
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, Limits, ReplicaFacts, ScheduleWindow, Situation, SloFacts

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]


def run(scene: Situation, *, ticks: int, memory: Memory | None = None) -> tuple[list[Decision], Memory]:
    """The same world for some ticks, ten seconds apart; nobody acts on the decisions."""
    kept = memory or Memory()
    decisions = []
    for tick in range(ticks):
        decision, kept = decide(replace(scene, now=scene.now + 10.0 * tick), kept)
        decisions.append(decision)
    return decisions, kept


def test_grows_at_once_on_a_queue(situation: Make) -> None:
    decision, _ = decide(situation(2, each={"waiting": 10.0}), Memory())
    assert (decision.current, decision.target, decision.binding) == (2, 3, "queue")
    assert decision.reason == "queue 20 > 16 for 0 s wants 3"


def test_shrinks_by_one_after_the_window_and_names_who_goes(situation: Make) -> None:
    decisions, _ = run(situation(3), ticks=8)
    assert [d.target for d in decisions] == [3, 3, 3, 3, 3, 3, 2, 2]
    assert decisions[6].drain == ("r0",)
    assert "hold at 3: the down-window of 60 s has seen only 50 s" in decisions[5].reason
    assert "would carry the load of 3" in decisions[6].reason


def test_a_burst_inside_the_window_postpones_the_shrink(situation: Make) -> None:
    calm, busy = situation(2), situation(2, each={"waiting": 20.0}, now=1040.0)
    _, memory = run(calm, ticks=4)
    grown, memory = decide(busy, memory)
    assert grown.target > 2
    decisions, _ = run(replace(calm, now=1050.0), ticks=9, memory=memory)
    assert [d.target for d in decisions[:5]] == [2] * 5
    assert decisions[-1].target == 1


def test_two_busy_replicas_are_not_consolidated_into_one_overloaded_one(situation: Make) -> None:
    scene = situation(2, each={"kv_usage": 0.5})
    decisions, _ = run(scene, ticks=12)
    assert {d.target for d in decisions} == {2}
    assert "KV would be 100 % on 1" in decisions[-1].reason


def test_known_capacity_keeps_a_shrink_from_overloading_the_rest(situation: Make) -> None:
    scene = situation(2, demand=Demand(request_rate=0.95), capacity=CapacityFacts(request_rate=1.0))
    decisions, _ = run(scene, ticks=12)
    assert {d.target for d in decisions} == {2}
    assert "demand would be 95 % of what 1 can serve" in decisions[-1].reason


def test_what_demand_would_buy_back_at_once_is_not_given_away(situation: Make) -> None:
    """Demand falls from 1.4 replicas' worth to half of one; the shrink waits for the mean that buys, and holds."""
    memory, want, targets = Memory(), 2, []
    for tick in range(70):
        scene = situation(
            want,
            now=1000.0 + tick,
            interval_s=1.0,
            limits=Limits(1, 2, stabilise_down_s=5.0),
            demand=Demand(request_rate=1.4 if tick < 30 else 0.5, window_s=10.0),
            capacity=CapacityFacts(request_rate=1.0),
        )
        decision, memory = decide(scene, memory)
        want = decision.target
        targets.append(want)
    assert targets[35] == 2 and targets[-1] == 1
    assert sorted(targets, reverse=True) == targets


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"covered": False}, id="not covered"),
        pytest.param({"each": {"waiting": None}}, id="queue unknown"),
        pytest.param({"each": {"running": None}}, id="batch unknown"),
        pytest.param({"each": {"kv_usage": None}}, id="occupancy and capacity unknown"),
    ],
)
def test_unknown_never_lowers(situation: Make, change: dict[str, object]) -> None:
    decisions, _ = run(situation(3, **change), ticks=30)
    assert {d.target for d in decisions} == {3}
    assert decisions[-1].held


def test_a_stale_replica_holds_the_whole_pool(situation: Make, replica: MakeReplica) -> None:
    scene = situation(replicas=(replica("a"), replica("b"), replica("c", state="stale")))
    decisions, _ = run(scene, ticks=20)
    assert {d.target for d in decisions} == {3}
    assert "1 replica stale" in decisions[-1].reason


def test_a_frozen_replica_is_neither_idle_nor_a_reason_to_shrink(situation: Make, replica: MakeReplica) -> None:
    scene = situation(replicas=(replica("a"), replica("b", frozen=True)))
    decisions, _ = run(scene, ticks=20)
    assert {d.target for d in decisions} == {2}


def test_no_shrink_while_a_replica_is_starting(situation: Make, replica: MakeReplica) -> None:
    scene = situation(replicas=(replica("a"), replica("b", state="warming", expected_ready_at=1e9)))
    decisions, _ = run(scene, ticks=20)
    assert {d.target for d in decisions} == {2}
    assert "still starting" in decisions[-1].reason


@pytest.mark.parametrize("why", ["unschedulable", "falling"])
def test_a_replica_that_cannot_start_does_not_freeze_the_shrink(
    situation: Make, replica: MakeReplica, why: str
) -> None:
    stuck = replica("b", state="warming", **{why: True})
    decisions, _ = run(situation(replicas=(replica("a"), stuck)), ticks=10)
    assert decisions[-1].target == 1
    assert decisions[-1].drain == ("b",)


def test_zero_ready_with_wanted_replicas_is_a_fault_and_not_low_load(situation: Make, replica: MakeReplica) -> None:
    decisions, _ = run(situation(replicas=(replica("a", state="down"), replica("b", state="down"))), ticks=20)
    assert {d.target for d in decisions} == {2}
    assert "a fault and not low load" in decisions[-1].reason


def test_an_attainment_that_may_miss_the_target_blocks_the_shrink(situation: Make) -> None:
    slo = SloFacts(target=0.95, attainment_low=0.9, attainment_high=0.99, burn_short=0.2, burn_long=0.2)
    decisions, _ = run(situation(3, slo=slo), ticks=20)
    assert {d.target for d in decisions} == {3}
    assert "attainment is between 90 % and 99 %, the target is 95 %" in decisions[-1].reason


def test_burning_budget_in_both_windows_grows(situation: Make) -> None:
    decision, _ = decide(situation(2, slo=SloFacts(target=0.95, burn_short=4.0, burn_long=3.0)), Memory())
    assert (decision.target, decision.reason) == (3, "SLO burn 4x short, 3x long, both > 2x, wants 3")


@pytest.mark.parametrize(("short", "long"), [(4.0, 1.0), (1.0, 4.0), (None, 4.0)])
def test_one_burning_window_alone_does_not_grow(situation: Make, short: float | None, long: float) -> None:
    decision, _ = decide(situation(2, slo=SloFacts(target=0.95, burn_short=short, burn_long=long)), Memory())
    assert decision.target == 2


def test_an_infeasible_slo_buys_nothing_and_says_so(situation: Make) -> None:
    scene = situation(
        2,
        slo=SloFacts(target=0.95, ttft=1.0, attainment_low=0.0, attainment_high=0.0, burn_short=20.0, burn_long=20.0),
        capacity=CapacityFacts(idle_ttft=1.8),
        each={"kv_usage": 0.5},
    )
    decisions, _ = run(scene, ticks=20)
    assert {d.target for d in decisions} == {2}
    said = next(r for r in decisions[0].rules if r.rule == "slo")
    assert said.text.startswith("a lone request on an idle replica has TTFT 1.8 s and the bound is 1 s: more replicas")


def test_a_pause_holds_and_says_for_how_long(situation: Make) -> None:
    decision, _ = decide(situation(2, each={"waiting": 50.0}, paused_until=1600.0), Memory())
    assert (decision.target, decision.held, decision.binding) == (2, True, "pause")
    assert decision.reason == "hold at 2: paused for another 600 s"
    decision, _ = decide(situation(2, each={"waiting": 50.0}, paused_until=math.inf), Memory())
    assert decision.reason == "hold at 2: paused until somebody resumes"


def test_a_pause_ends(situation: Make) -> None:
    decision, _ = decide(situation(2, each={"waiting": 50.0}, paused_until=1000.0), Memory())
    assert decision.target == 4


def test_another_owner_of_the_scale_is_named(situation: Make) -> None:
    decision, _ = decide(
        situation(2, each={"waiting": 50.0}, frozen_reason="HPA default/chat owns the scale"), Memory()
    )
    assert (decision.target, decision.reason) == (2, "hold at 2: HPA default/chat owns the scale")


def test_a_pin_holds_the_minimum_up(situation: Make) -> None:
    decision, _ = decide(situation(2, pinned_minimum=5), Memory())
    assert (decision.target, decision.reason) == (5, "pin 5 holds up 2")


@pytest.mark.parametrize(
    ("limits", "waiting", "target", "said"),
    [
        pytest.param(Limits(1, 3), 50.0, 3, "maximum 3 caps 4", id="maximum"),
        pytest.param(Limits(1, 9, budget=3), 50.0, 3, "budget 3 caps 4", id="budget"),
        pytest.param(Limits(1, 9, step_up=1), 50.0, 3, "step of 1 up allows 3 of 4", id="step"),
        pytest.param(Limits(6, 9), 0.0, 6, "minimum 6 holds up 2", id="minimum"),
    ],
)
def test_limits_bind_and_say_so(situation: Make, limits: Limits, waiting: float, target: int, said: str) -> None:
    decision, _ = decide(situation(2, each={"waiting": waiting}, limits=limits), Memory())
    assert decision.target == target
    assert said in decision.reason


def test_a_step_down_waits_for_a_free_drain(situation: Make, replica: MakeReplica) -> None:
    members = (*(replica(f"r{i}") for i in range(3)), replica("d", state="draining"))
    decisions, _ = run(situation(replicas=members, want=3), ticks=10)
    assert {d.target for d in decisions} == {3}
    assert "1 replica already draining, 1 at once: stays at 3" in decisions[-1].reason


def test_an_idle_pool_goes_to_zero_and_a_knock_wakes_it(situation: Make) -> None:
    limits = Limits(0, 4, stabilise_down_s=30.0, to_zero_after_s=60.0)
    idle = situation(1, each={"running": 0.0}, limits=limits, demand=Demand(request_rate=0.0))
    decisions, memory = run(idle, ticks=8)
    assert [d.target for d in decisions] == [1, 1, 1, 1, 1, 1, 1, 1]  # the window has seen zero for 10 s only
    decisions, memory = run(replace(idle, now=1080.0), ticks=3, memory=memory)
    assert decisions[-1].target == 0
    asleep = situation(0, limits=limits, now=1200.0, demand=Demand(gateway_waiting=1.0))
    woken, _ = decide(asleep, memory)
    assert (woken.target, woken.reason) == (1, "requests arrive at a pool of 0 replicas, wants 1")


def test_a_pool_with_no_traffic_but_a_long_stream_does_not_go_to_zero(situation: Make) -> None:
    limits = Limits(0, 4, stabilise_down_s=30.0, to_zero_after_s=60.0)
    scene = situation(1, each={"running": 1.0}, limits=limits, demand=Demand(request_rate=0.0))
    decisions, _ = run(scene, ticks=40)
    assert {d.target for d in decisions} == {1}


def test_a_schedule_raises_the_minimum_while_it_lasts(situation: Make) -> None:
    window = ScheduleWindow(start=1000.0, end=1100.0, minimum=4, note="launch")
    inside, _ = decide(situation(2, schedule=(window,)), Memory())
    after, _ = decide(situation(2, schedule=(window,), now=1100.0), Memory())
    assert (inside.target, inside.reason) == (4, "schedule launch 4 holds up 2")
    assert after.target == 2


def test_every_rule_speaks_and_none_is_silent(situation: Make) -> None:
    decision, _ = decide(situation(2), Memory())
    spoken = [r.rule for r in decision.rules]
    assert spoken[:8] == ["queue", "kv", "preemption", "demand", "slo", "schedule", "forecast", "consolidate"]
    assert all(r.text and isinstance(r.verdict, Verdict) for r in decision.rules)


def test_a_down_replica_does_not_lower_the_count_that_is_needed(situation: Make, replica: MakeReplica) -> None:
    busy = [replica(f"r{i}", kv_usage=0.7) for i in range(2)]
    decisions, _ = run(situation(replicas=(*busy, replica("x", state="down"))), ticks=20)
    assert {d.target for d in decisions} == {3}
