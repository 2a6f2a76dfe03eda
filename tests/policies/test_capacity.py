"""Capacity per replica: given, raised by what was served, or learned at the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies import capacity
from policies.compose import picture_of
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, ReplicaFacts, Situation, SloFacts

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]
GOOD = SloFacts(target=0.95, attainment_low=0.99, attainment_high=1.0)


def fold(scenes: list[Situation]) -> Memory:
    memory = Memory()
    for scene in scenes:
        _, memory = capacity.learn(picture_of(scene, memory), memory)
    return memory


def full(situation: Make, ticks: int = 3, rate: float = 10.0, growth: float | None = 2.0) -> list[Situation]:
    """So many ticks at the limit after the minute in which the rates settle."""
    demand = Demand(request_rate=rate, prompt_rate=800.0, output_rate=400.0, waiting_growth=growth)
    return [situation(2, now=1000.0 + 10 * t, each={"waiting": 20.0}, demand=demand) for t in range(ticks + 6)]


def test_nothing_seen_and_nothing_given_is_unknown(situation: Make) -> None:
    assert capacity.facts(situation(), Memory()) is None


def test_the_given_value_holds_before_anything_was_seen(situation: Make) -> None:
    given = CapacityFacts(request_rate=2.0, source="bench")
    assert capacity.facts(situation(capacity=given), Memory()) == given


def test_at_the_limit_what_leaves_the_queue_is_the_capacity(situation: Make) -> None:
    found = capacity.facts(situation(), fold(full(situation)))
    assert found is not None
    assert found.request_rate == pytest.approx(0.85 * 4.0)  # (10 arriving - 2 queueing) over two, latency in hand
    assert found.output_rate == pytest.approx(0.85 * 200.0)
    assert (found.source, found.samples) == ("learned", 3)


def test_a_limit_counts_only_after_the_rates_have_settled(situation: Make) -> None:
    assert capacity.facts(situation(), fold(full(situation, ticks=0))) is None
    assert capacity.facts(situation(), fold(full(situation, ticks=1))) is not None


def test_a_break_or_another_replica_starts_the_minute_anew(situation: Make) -> None:
    scenes = full(situation, ticks=1)
    calm = [*scenes[:3], situation(2, now=1030.0, demand=Demand(request_rate=1.0)), *scenes[4:]]
    assert capacity.facts(situation(), fold(calm)) is None
    joined = [*scenes[:3], situation(3, now=1030.0, each={"waiting": 20.0}), *scenes[4:]]
    assert capacity.facts(situation(), fold(joined)) is None


def test_without_the_queue_s_growth_a_limit_teaches_nothing(situation: Make) -> None:
    assert capacity.facts(situation(), fold(full(situation, growth=None))) is None


def test_learning_keeps_the_idle_latencies_that_were_measured(situation: Make) -> None:
    given = CapacityFacts(request_rate=1.0, idle_ttft=0.2, idle_tpot=0.02)
    found = capacity.facts(situation(capacity=given), fold(full(situation)))
    assert found is not None
    assert (found.idle_ttft, found.idle_tpot, found.source) == (0.2, 0.02, "learned")


def test_uncertainty_is_shown_as_a_share(situation: Make) -> None:
    scenes = [s for rate in (6.0, 10.0, 14.0, 10.0) for s in full(situation, 1, rate, 0.0)]
    scenes = [replace(s, now=1000.0 + 10 * i) for i, s in enumerate(scenes)]
    found = capacity.facts(situation(), fold(scenes))
    assert found is not None
    assert found.low <= 1.0 <= found.high
    assert found.high > 1.0


def test_more_served_inside_the_slo_than_was_given_raises_it(situation: Make) -> None:
    given = CapacityFacts(request_rate=2.0)
    scene = situation(2, slo=GOOD, demand=Demand(request_rate=6.0), capacity=given)
    found = capacity.facts(scene, fold([scene]))
    assert found is not None
    assert (found.request_rate, found.source) == (3.0, "learned")


def test_less_served_than_given_changes_nothing(situation: Make) -> None:
    given = CapacityFacts(request_rate=2.0)
    scene = situation(2, slo=GOOD, demand=Demand(request_rate=1.0), capacity=given)
    assert capacity.facts(scene, fold([scene])) == given


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param({"covered": False}, id="uncovered"),
        pytest.param({"demand": Demand()}, id="demand unknown"),
        pytest.param({"slo": SloFacts(target=0.95, attainment_low=0.5)}, id="slo missed"),
    ],
)
def test_a_tick_that_proves_nothing_teaches_nothing(situation: Make, scene: dict[str, object]) -> None:
    base: dict[str, object] = {"slo": GOOD, "demand": Demand(request_rate=6.0)}
    assert fold([situation(2, **{**base, **scene})]) == Memory()


def test_a_fleet_with_a_silent_replica_is_not_known_to_be_at_its_limit(situation: Make, replica: MakeReplica) -> None:
    scene = situation(replicas=(replica("a", waiting=90.0), replica("b", state="stale")))
    assert not capacity.is_full(picture_of(scene, Memory()))


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        pytest.param({"waiting": 9.0}, True, id="queue"),
        pytest.param({"kv_usage": 0.95}, False, id="occupancy alone is not a limit"),
        pytest.param({"kv_usage": 0.95, "waiting": 1.0}, True, id="occupancy with a queue"),
        pytest.param({"preempt_rate": 1.0}, True, id="preemption"),
    ],
)
def test_what_counts_as_full(situation: Make, each: dict[str, float], expected: bool) -> None:
    assert capacity.is_full(picture_of(situation(2, each=each), Memory())) is expected
