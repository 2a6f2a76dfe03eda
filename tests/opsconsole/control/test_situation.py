"""A snapshot becomes a situation: words, unknowns, demand, the class in most trouble."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsconsole.control.settings import NodeTier, PoolSettings
from opsconsole.control.situation import STATES, Surroundings, growth, situation_of
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import (
    FleetSnapshot,
    Interval,
    LatencyView,
    PoolView,
    ReplicaState,
    ReplicaView,
    SloView,
    SourceView,
)
from policies.situation import Tier

NOW = 1000.0
POOL = PoolSettings(PoolSpec("chat", "m"), lead_s=77.0)


def replica(name: str, state: ReplicaState = ReplicaState.OK, age: float | None = 0.2, **more: object) -> ReplicaView:
    seen = None if age is None else NOW - age
    return ReplicaView(name, "chat", state, "why", seen_at=seen, age=age, **more)  # type: ignore[arg-type]


def snapshot(*replicas: ReplicaView, pool: PoolView | None = None, ok: bool = True) -> FleetSnapshot:
    views = (pool or PoolView("chat", covered=True),)
    return FleetSnapshot(1, NOW, "f", "act", replicas, views, (SourceView("s", "scrape", ok),), interval=1.0)


def test_every_state_has_its_word() -> None:
    assert set(STATES) == set(ReplicaState)


def test_only_the_pools_own_replicas_are_told_and_unknown_stays_unknown() -> None:
    other = ReplicaView("x", "other", ReplicaState.OK, "why")
    made = situation_of(snapshot(replica("r0"), other), POOL, Surroundings(want=3))
    (facts,) = made.replicas
    assert (facts.name, facts.state, facts.waiting, facts.kv_usage) == ("r0", "ok", None, None)
    assert (made.want, made.lead_s, made.lead_assumed, made.model) == (3, 77.0, True, "m")
    assert made.demand.request_rate is None and made.demand.mean_prompt is None


@pytest.mark.parametrize(
    ("age", "error", "seen"), [(0.2, None, True), (5.0, None, False), (None, None, False), (0.2, "refused", False)]
)
def test_a_replica_was_seen_only_if_it_answered_in_this_tick(age: float | None, error: str | None, seen: bool) -> None:
    made = situation_of(snapshot(replica("r0", age=age, error=error)), POOL, Surroundings(1))
    assert made.replicas[0].seen is seen


def test_a_replica_that_answers_and_cannot_be_believed_is_frozen() -> None:
    made = situation_of(
        snapshot(replica("r0", ReplicaState.STALE), replica("r1", ReplicaState.STALE, age=60.0)), POOL, Surroundings(2)
    )
    assert [r.frozen for r in made.replicas] == [True, False]


def test_a_pod_that_cannot_be_placed_is_no_supply() -> None:
    made = situation_of(
        snapshot(replica("r0", ReplicaState.WARMING, phase="Unschedulable: no gpu")), POOL, Surroundings(1)
    )
    assert made.replicas[0].unschedulable


def test_a_pod_that_falls_again_and_again_is_no_supply() -> None:
    made = situation_of(snapshot(replica("r0", ReplicaState.WARMING, phase="failing")), POOL, Surroundings(1))
    assert (made.replicas[0].falling, made.replicas[0].unschedulable) == (True, False)


def test_a_failing_source_uncovers_the_pool() -> None:
    assert situation_of(snapshot(), POOL, Surroundings(1)).covered
    assert not situation_of(snapshot(ok=False), POOL, Surroundings(1)).covered


def test_the_class_in_most_trouble_binds() -> None:
    slos = (
        SloView("chat", ttft=1.0, target=0.95, attainment=Interval(0.97, 0.99)),
        SloView("agent", ttft=5.0, target=0.9, attainment=Interval(0.7, 0.95)),
        SloView("new", ttft=2.0, target=0.99),
    )
    pool = PoolView("chat", slos=slos, ttft=LatencyView(p95=0.7))
    made = situation_of(snapshot(pool=pool), POOL, Surroundings(1))
    assert (made.slo.ttft, made.slo.attainment_low, made.slo.target, made.slo.ttft_p95) == (5.0, 0.7, 0.9, 0.7)


def test_demand_has_its_means_and_the_pool_its_kind_and_cost() -> None:
    pool = PoolView("chat", request_rate=2.0, prompt_rate=200.0, output_rate=50.0, price_per_hour=3.0)
    members = (replica("a", gpu="L4", gpus=2), replica("b", gpu="A100"), replica("c", gpu="L4"))
    made = situation_of(snapshot(*members, pool=pool), POOL, Surroundings(1))
    assert (made.demand.mean_prompt, made.demand.mean_output, made.kind) == (100.0, 25.0, "L4")
    assert [r.cost for r in made.replicas] == [6.0, None, None]
    idle = situation_of(snapshot(pool=PoolView("chat", request_rate=0.0, prompt_rate=0.0)), POOL, Surroundings(1))
    assert idle.demand.mean_prompt is None, "no traffic has no mean"


def test_the_queues_growth_is_over_half_a_minute_and_needs_two_readings() -> None:
    assert growth([(float(t), float(t * 2)) for t in range(100)]) == pytest.approx(2.0)
    assert growth([(0.0, 5.0)]) is None
    assert growth([(0.0, None), (1.0, None)]) is None
    assert growth([(0.0, 1.0), (50.0, None), (60.0, 9.0)]) is None, "the older reading is too old"
    assert growth([]) is None


def on(name: str, node: str | None, pool: str = "chat") -> ReplicaView:
    return ReplicaView(name, pool, ReplicaState.OK, "why", node=node)


@pytest.mark.parametrize(
    ("replicas", "ok", "available"),
    [
        pytest.param((), True, (4, 1), id="nothing runs: two nodes of two, and one"),
        pytest.param((on("a", "n9"),), True, (4, 1), id="what runs elsewhere takes nothing"),
        pytest.param((on("a", "n1"), on("b", "n1")), True, (2, 1), id="a node that is full"),
        pytest.param((on("a", "n1", "other"), on("b", "n3", "other")), True, (3, 0), id="another pool's count too"),
        pytest.param((on("a", None),), True, (3, 0), id="whose node is not known may be on any of them"),
        pytest.param(tuple(on(f"r{i}", None) for i in range(9)), True, (0, 0), id="never fewer than none"),
        pytest.param((), False, None, id="while a source fails nobody knows"),
    ],
)
def test_a_tier_can_supply_what_its_nodes_have_room_for(
    replicas: tuple[ReplicaView, ...], ok: bool, available: tuple[int, int] | None
) -> None:
    tiers = (NodeTier("pulled", 45.0, frozenset({"n1", "n2"}), 2), NodeTier("hot", 20.0, frozenset({"n3"})))
    made = situation_of(snapshot(*replicas, ok=ok), replace(POOL, tiers=tiers), Surroundings(want=3))
    wanted = () if available is None else (Tier("pulled", 45.0, available[0]), Tier("hot", 20.0, available[1]))
    assert made.tiers == wanted
