"""What must hold for every composed law, whatever the world looks like."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import names, policy
from policies.compose import decide
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, Limits, Outlook, ReplicaFacts, Situation, State

QUICK = settings(max_examples=60, deadline=None)

share = st.floats(0.0, 1.0)
count = st.floats(0.0, 200.0)
maybe = st.one_of(st.none(), count)
states: st.SearchStrategy[State] = st.sampled_from(("ok", "hot", "saturated", "warming", "draining", "stale", "down"))


@st.composite
def replicas(draw: st.DrawFn) -> tuple[ReplicaFacts, ...]:
    return tuple(
        ReplicaFacts(
            f"r{i}",
            draw(states),
            waiting=draw(maybe),
            running=draw(maybe),
            kv_usage=draw(st.one_of(st.none(), share)),
            preempt_rate=draw(st.one_of(st.none(), share)),
            streams=draw(st.one_of(st.none(), st.integers(0, 50))),
            started_at=draw(st.one_of(st.none(), st.floats(0, 1000))),
            unschedulable=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 6)))
    )


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    low = draw(st.integers(0, 6))
    return Limits(
        minimum=low,
        maximum=draw(st.integers(low, 12)),
        step_up=draw(st.one_of(st.none(), st.integers(1, 4))),
        step_down=draw(st.one_of(st.none(), st.integers(1, 4))),
        stabilise_up_s=draw(st.sampled_from((0.0, 20.0))),
        stabilise_down_s=draw(st.sampled_from((0.0, 20.0, 60.0))),
        budget=draw(st.one_of(st.none(), st.integers(low, 12))),
        to_zero_after_s=draw(st.sampled_from((None, 0.0, 30.0))) if low == 0 else None,
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    members = draw(replicas())
    return Situation(
        now=1000.0,
        pool="p",
        model="m",
        want=draw(st.integers(0, 14)),
        replicas=members,
        demand=Demand(request_rate=draw(maybe), gateway_waiting=draw(maybe)),
        limits=draw(limits()),
        capacity=draw(st.sampled_from((None, CapacityFacts(request_rate=2.0)))),
        covered=draw(st.booleans()),
        paused_until=draw(st.sampled_from((None, 900.0, 2000.0))),
        pinned_minimum=draw(st.sampled_from((None, 3))),
        interval_s=10.0,
    )


def settled(scene: Situation, ticks: int = 10) -> list[Decision]:
    memory, decisions = Memory(), []
    for tick in range(ticks):
        decision, memory = decide(replace(scene, now=scene.now + 10.0 * tick), memory)
        decisions.append(decision)
    return decisions


@QUICK
@given(situations())
def test_bounds_hold_on_every_path(scene: Situation) -> None:
    for decision in settled(scene):
        top = scene.limits.maximum if scene.limits.budget is None else min(scene.limits.maximum, scene.limits.budget)
        low = max(scene.limits.minimum, min(scene.pinned_minimum or 0, scene.limits.maximum))
        assert low <= decision.target <= max(top, low)


@QUICK
@given(situations())
def test_unknown_never_lowers(scene: Situation) -> None:
    blind = replace(scene, covered=False, limits=replace(scene.limits, maximum=99, budget=None))
    assert all(d.target >= d.current for d in settled(blind))


@QUICK
@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_replicas_changes_nothing(scene: Situation, rng: random.Random) -> None:
    shuffled = list(scene.replicas)
    rng.shuffle(shuffled)
    mine, theirs = settled(scene, 8), settled(replace(scene, replicas=tuple(shuffled)), 8)
    assert [(d.target, d.drain, d.binding) for d in mine] == [(d.target, d.drain, d.binding) for d in theirs]


@QUICK
@given(situations(), st.floats(0.0, 100.0))
def test_more_demand_never_gives_fewer_replicas(scene: Situation, more: float) -> None:
    rate = scene.demand.request_rate
    if rate is None:
        return
    busier = replace(scene, demand=replace(scene.demand, request_rate=rate + more))
    assert all(b.target >= a.target for a, b in zip(settled(scene), settled(busier), strict=True))


@QUICK
@given(situations(), st.floats(0.0, 100.0))
def test_a_longer_queue_never_gives_fewer_replicas(scene: Situation, more: float) -> None:
    longer = tuple(r if r.waiting is None else replace(r, waiting=r.waiting + more) for r in scene.replicas)
    busier = replace(scene, replicas=longer)
    assert all(b.target >= a.target for a, b in zip(settled(scene, 1), settled(busier, 1), strict=True))


@QUICK
@given(situations())
def test_a_decision_is_deterministic_and_leaves_its_inputs_alone(scene: Situation) -> None:
    assert settled(scene) == settled(scene)


@QUICK
@given(situations())
def test_every_rule_speaks_and_a_drain_names_as_many_as_go(scene: Situation) -> None:
    for decision in settled(scene, 2):
        assert decision.reason
        assert all(rule.text for rule in decision.rules)
        assert len(decision.drain) <= max(0, decision.current - decision.target)


@QUICK
@given(situations())
def test_memory_survives_json(scene: Situation) -> None:
    _, memory = decide(scene, Memory())
    assert Memory.from_json(memory.to_json()) == memory


levels = st.lists(st.floats(0.0, 40.0), min_size=3, max_size=3)


@QUICK
@given(situations(), levels)
def test_a_forecast_only_ever_raises(scene: Situation, values: list[float]) -> None:
    outlook = Outlook((60.0, 120.0, 300.0), (0.5, 0.9), tuple((v, v) for v in values), "requests/s", "any")
    told = replace(scene, outlooks={"requests/s": outlook}, capacity=CapacityFacts(request_rate=2.0))
    plain = settled(replace(told, outlooks={}), 6)
    raised = settled(told, 6)
    assert all(b.target >= a.target for a, b in zip(plain, raised, strict=True))


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", names())
@given(scene=situations(), rng=st.randoms(use_true_random=False))
def test_every_law_stays_inside_the_bounds_and_ignores_the_order_of_replicas(
    name: str, scene: Situation, rng: random.Random
) -> None:
    shuffled = list(scene.replicas)
    rng.shuffle(shuffled)
    law, one, other = policy(name), Memory(), Memory()
    top = max(scene.limits.maximum, scene.limits.minimum)
    for tick in range(4):
        now = scene.now + 60.0 * tick
        mine, one = law.decide(replace(scene, now=now), one)
        theirs, other = law.decide(replace(scene, now=now, replicas=tuple(shuffled)), other)
        assert (mine.target, mine.drain, mine.held) == (theirs.target, theirs.drain, theirs.held)
        assert scene.limits.minimum <= mine.target <= top
        assert Memory.from_json(one.to_json()) == one


def test_idle_is_stable_at_the_minimum() -> None:
    idle = ReplicaFacts("a", "ok", waiting=0.0, running=0.0, kv_usage=0.0, preempt_rate=0.0, streams=0)
    scene = Situation(
        now=0.0,
        pool="p",
        model=None,
        want=1,
        replicas=(idle,),
        limits=Limits(1, 5, stabilise_down_s=10.0),
        covered=True,
    )
    assert {d.target for d in settled(scene, 100)} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_noise_does_not_make_the_pool_flap(seed: int) -> None:
    """Poisson noise around 70 % of three replicas' capacity: the target moves at most twice in an hour."""
    rng = random.Random(seed)
    memory, want, moves = Memory(), 3, 0
    for tick in range(360):
        rate = sum(1 for _ in range(400) if rng.random() < 2.1 / 40) / 10.0
        members = tuple(
            ReplicaFacts(
                f"r{i}",
                "ok",
                waiting=float(rng.random() < 0.1),
                running=rate,
                kv_usage=0.5,
                preempt_rate=0.0,
                streams=1,
            )
            for i in range(want)
        )
        scene = Situation(
            now=10.0 * tick,
            pool="p",
            model=None,
            want=want,
            replicas=members,
            demand=Demand(request_rate=rate),
            capacity=CapacityFacts(request_rate=1.0),
            limits=Limits(1, 9, stabilise_down_s=300.0),
            covered=True,
            interval_s=10.0,
        )
        decision, memory = policy("reactive").decide(scene, memory)
        moves += decision.target != want
        want = decision.target
    assert moves <= 2
