"""The fold: one tick to one snapshot."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from opsconsole.domain.fleet import FleetState, FoldOptions, PoolSpec, SloSpec, fold
from opsconsole.domain.health import HealthLimits
from opsconsole.domain.records import Buckets, FleetSnapshot, Interval, PoolView, ReplicaState, Sample, SourceView
from opsconsole.domain.replica import Observation, ReplicaRef
from opsconsole.errors import SourceError, SourceErrorKind

SPEC = PoolSpec("chat", model="m", minimum=1, maximum=4, slos=(SloSpec("default", 1.0, 0.1),), price_per_hour=2.0)
TIMEOUT = SourceError(SourceErrorKind.TIMEOUT, "no answer in 2 s", since=0.0)


def ref(name: str, **facts: Any) -> ReplicaRef:
    return ReplicaRef(name, "chat", **{"gpus": 1, "started_at": 0.0, **facts})


def page(name: str, at: float, **facts: Any) -> Observation:
    calm: dict[str, Any] = {"waiting": 0.0, "running": 3.0, "kv_usage": 0.4}
    return Observation(ref(name), Sample(name, at, **{**calm, **facts}), ready=True)


def silent(name: str) -> Observation:
    return Observation(ref(name), error=TIMEOUT)


def run(ticks: list[tuple[float, list[Observation]]], **facts: Any) -> tuple[FleetSnapshot, FleetState]:
    state = FleetState()
    pools = facts.pop("pools", [SPEC])
    snapshot = FleetSnapshot(0, 0.0, "", "")
    for number, (at, observations) in enumerate(ticks):
        snapshot, state = fold(number, at, observations, pools, state, **facts)
    return snapshot, state


def pool(snapshot: FleetSnapshot) -> PoolView:
    found = snapshot.pool("chat")
    assert found is not None
    return found


def histogram(*counts: float) -> Buckets:
    return Buckets((0.05, 0.1, 1.0, 2.0, math.inf), counts, counts[-1] * 0.3)


def test_one_tick_has_facts_but_no_rates() -> None:
    snapshot, _ = run([(1000.0, [page("a", 1000.0, output_tokens=50.0)])], want={"chat": 2}, interval=1.0)
    view = snapshot.replica("a")
    assert view is not None
    assert (view.state, view.waiting, view.running, view.output_rate) == (ReplicaState.OK, 0.0, 3.0, None)
    assert (pool(snapshot).want, pool(snapshot).ready, pool(snapshot).covered) == (2, 1, True)


def test_rates_come_from_two_ticks() -> None:
    ticks = [
        (1000.0 + t, [page("a", 1000.0 + t, output_tokens=50.0 * t, requests_started=2.0 * t)]) for t in (0.0, 10.0)
    ]
    snapshot, _ = run(ticks, interval=10.0)
    assert pool(snapshot).output_rate == 50.0
    assert pool(snapshot).request_rate == 2.0


def test_a_pool_s_latency_comes_from_merged_buckets_and_not_from_averages() -> None:
    """One fast and one slow replica: the average of their medians (0.525 s) is nobody's median."""
    zero = histogram(0, 0, 0, 0, 0)
    ticks = [
        (0.0, [page("fast", 0.0, ttft=zero), page("slow", 0.0, ttft=zero)]),
        (
            10.0,
            [
                page("fast", 10.0, ttft=histogram(300, 300, 300, 300, 300)),
                page("slow", 10.0, ttft=histogram(0, 0, 100, 100, 100)),
            ],
        ),
    ]
    snapshot, _ = run(ticks, interval=10.0)
    assert pool(snapshot).ttft.p50 == pytest.approx(0.05 * 200 / 300)
    assert pool(snapshot).ttft.count == 400


def test_attainment_is_exact_from_the_joint_counters() -> None:
    ticks = [
        (0.0, [page("a", 0.0, slo_outcomes={})]),
        (10.0, [page("a", 10.0, slo_outcomes={"default/met": 90.0, "default/missed": 10.0})]),
    ]
    snapshot, _ = run(ticks, interval=10.0)
    slo = pool(snapshot).slos[0]
    assert (slo.attainment, slo.exact) == (Interval(0.9, 0.9), True)
    assert slo.burn_short == pytest.approx(2.0)
    assert slo.budget_left == 0.0
    assert pool(snapshot).goodput == 9.0
    view = snapshot.replica("a")
    assert view is not None and view.attainment == Interval(0.9, 0.9)


def test_attainment_from_marginals_is_a_bound() -> None:
    zero = histogram(0, 0, 0, 0, 0)
    ticks = [
        (0.0, [page("a", 0.0, ttft=zero, tpot=zero)]),
        (10.0, [page("a", 10.0, ttft=histogram(0, 0, 90, 95, 100), tpot=histogram(50, 80, 100, 100, 100))]),
    ]
    slo = pool(run(ticks, interval=10.0)[0]).slos[0]
    assert slo.attainment is not None and not slo.exact
    assert [slo.attainment.low, slo.attainment.high] == pytest.approx([0.7, 0.8])
    assert (slo.ttft_ok, slo.tpot_ok) == (Interval(0.9, 0.9), Interval(0.8, 0.8))


def test_the_long_window_remembers_what_the_short_one_forgot() -> None:
    state, snapshot = FleetState(), FleetSnapshot(0, 0.0, "", "")
    met, missed = 0.0, 0.0
    for tick in range(120):
        at = 10.0 * tick
        met, missed = (met + 10, missed) if tick > 60 else (met, missed + 10)
        one = page("a", at, slo_outcomes={"default/met": met, "default/missed": missed})
        snapshot, state = fold(tick, at, [one], [SPEC], state, interval=10.0)
    slo = pool(snapshot).slos[0]
    assert slo.burn_short == 0.0
    assert slo.burn_long is not None and slo.burn_long > 5.0


def test_a_short_burn_window_is_over_when_it_has_passed() -> None:
    """Ten seconds, as on a single machine: twelve seconds after the last miss it burns no more."""
    options = FoldOptions(window_s=10.0, short_s=10.0, long_s=120.0)
    state, burns = FleetState(), {}
    for at in range(60):
        met, missed = (10.0 * max(0, at - 30), 10.0 * min(at, 30))
        one = page("a", float(at), slo_outcomes={"default/met": met, "default/missed": missed})
        snapshot, state = fold(at, float(at), [one], [SPEC], state, options=options)
        burns[at] = pool(snapshot).slos[0].burn_short
    assert burns[30] == pytest.approx(20.0)
    assert burns[44] == 0.0
    assert len(state.ledgers["chat"].bins) <= 62


def test_a_silent_replica_uncovers_the_pool_at_once_and_is_stale_later() -> None:
    ticks = [(1000.0, [page("a", 1000.0), page("b", 1000.0)]), (1001.0, [page("a", 1001.0), silent("b")])]
    snapshot, state = run(ticks)
    view = snapshot.replica("b")
    assert view is not None and view.state is ReplicaState.OK
    assert not pool(snapshot).covered
    snapshot, _ = fold(9, 1030.0, [page("a", 1030.0), silent("b")], [SPEC], state)
    view = snapshot.replica("b")
    assert view is not None and view.state is ReplicaState.STALE
    assert (view.waiting, view.output_rate, view.age) == (None, None, 30.0)
    assert (pool(snapshot).stale, pool(snapshot).covered, pool(snapshot).waiting) == (1, False, 0.0)


def test_a_replica_no_longer_listed_leaves_with_its_series() -> None:
    snapshot, state = run([(1000.0, [page("a", 1000.0), page("b", 1000.0)]), (1001.0, [page("a", 1001.0)])])
    assert [r.replica for r in snapshot.replicas] == ["a"]
    assert pool(snapshot).covered
    assert ("chat", "b") not in state.tracks


def test_a_failing_source_does_not_make_replicas_vanish() -> None:
    broken = [SourceView("kube", "kubernetes", ok=False, error="401")]
    _, state = run([(1000.0, [page("a", 1000.0)])])
    snapshot, state = fold(1, 1030.0, [], [SPEC], state, sources=broken)
    assert [r.state for r in snapshot.replicas] == [ReplicaState.STALE]
    assert not pool(snapshot).covered
    snapshot, state = fold(2, 1100.0, [], [SPEC], state, sources=broken)
    assert [r.state for r in snapshot.replicas] == [ReplicaState.DOWN]
    assert not pool(snapshot).covered
    snapshot, _ = fold(3, 1400.0, [], [SPEC], state, sources=broken)
    assert snapshot.replicas == ()


def test_two_accounts_of_one_replica_are_one_replica() -> None:
    kube = Observation(ref("a"), ready=True, draining=True, phase="serving", expected_ready_at=5.0)
    bare = Observation(ref("a"), Sample("a", 1000.0, running=2.0, waiting=0.0))
    for order in ([kube, bare], [bare, kube]):
        snapshot, _ = run([(1000.0, order)])
        assert [(r.state, r.running, r.streams) for r in snapshot.replicas] == [(ReplicaState.DRAINING, 2.0, 2)]


def test_the_order_of_observations_changes_nothing() -> None:
    def ticks(seed: int) -> list[tuple[float, list[Observation]]]:
        rng = random.Random(seed)
        made = []
        for t in (0.0, 10.0, 20.0):
            all_ = [page(f"r{i}", t, output_tokens=i * t, kv_usage=0.1 * i, waiting=float(i)) for i in range(6)]
            rng.shuffle(all_)
            made.append((t, all_))
        return made

    assert run(ticks(1), interval=10.0)[0] == run(ticks(2), interval=10.0)[0]


def test_states_are_counted_and_gpus_held_by_all_of_them() -> None:
    observations = [
        page("ok", 1000.0),
        Observation(ref("warm"), ready=False, phase="load", expected_ready_at=1060.0),
        Observation(ref("drain"), Sample("drain", 1000.0, running=1.0), draining=True),
        Observation(ref("down"), error=TIMEOUT),
    ]
    view = pool(run([(1000.0, observations)])[0])
    assert (view.ready, view.warming, view.draining, view.down, view.stale) == (1, 1, 1, 1, 0)
    assert (view.gpus, view.price_per_hour) == (4, 8.0)


def test_an_unknown_number_of_gpus_has_no_price() -> None:
    bare = Observation(ReplicaRef("a", "chat"), Sample("a", 1000.0))
    view = pool(run([(1000.0, [bare])])[0])
    assert (view.gpus, view.price_per_hour) == (None, None)


def test_a_replicas_own_role_goes_before_its_pools() -> None:
    seen = [page("a", 1000.0), replace(page("b", 1000.0), replica=ref("b", role="decode"))]
    snapshot, _ = fold(1, 1000.0, seen, [replace(SPEC, role="prefill")], FleetState())
    assert [view.role for view in snapshot.replicas] == ["prefill", "decode"]
    assert pool(snapshot).role == "prefill"


def test_occupancy_of_a_pool_is_weighted_by_size_where_sizes_are_known() -> None:
    def occupied(small: float | None) -> float | None:
        two = [
            page("a", 0.0, kv_usage=1.0, kv_capacity_tokens=small),
            page("b", 0.0, kv_usage=0.5, kv_capacity_tokens=3000.0),
        ]
        return pool(run([(0.0, two)])[0]).kv_usage

    assert occupied(1000.0) == pytest.approx(0.625)
    assert occupied(None) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(
            {"prefix_hits": 0.0, "prefix_queries": 0.0},
            {"prefix_hits": 30.0, "prefix_queries": 100.0},
            0.3,
            id="counters",
        ),
        pytest.param(
            {"prompt_tokens": 0.0, "prompt_tokens_computed": 0.0},
            {"prompt_tokens": 100.0, "prompt_tokens_computed": 60.0},
            0.4,
            id="computed against all",
        ),
        pytest.param({"prefix_hit_rate": 0.1}, {"prefix_hit_rate": 0.2}, 0.2, id="a gauge where nothing counts"),
        pytest.param({}, {}, None, id="unknown"),
    ],
)
def test_hit_rate(first: dict[str, float], second: dict[str, float], expected: float | None) -> None:
    snapshot, _ = run([(0.0, [page("a", 0.0, **first)]), (10.0, [page("a", 10.0, **second)])], interval=10.0)
    found = pool(snapshot).hit_rate
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_pool_nobody_configured_is_shown_anyway() -> None:
    snapshot, _ = run([(0.0, [page("a", 0.0, model="llama")])], pools=[])
    assert (pool(snapshot).model, pool(snapshot).minimum, pool(snapshot).slos) == ("llama", None, ())


def test_a_configured_pool_without_replicas_is_shown_empty_and_covered() -> None:
    view = pool(run([(0.0, [])])[0])
    assert (view.ready, view.waiting, view.gpus, view.covered) == (0, None, None, True)


def test_counters_of_two_processes_behind_one_address_are_not_believed() -> None:
    ticks = [
        (10.0 * i, [page("a", 10.0 * i, process_start=s, output_tokens=9.0)]) for i, s in enumerate((1.0, 90.0, 1.0))
    ]
    view = run(ticks, interval=10.0)[0].replicas[0]
    assert (view.state, view.output_rate) == (ReplicaState.STALE, None)
    assert "two processes answer behind one address" in view.why


def test_options_set_the_windows() -> None:
    ticks = [(10.0 * t, [page("a", 10.0 * t, output_tokens=float(t**2))]) for t in range(10)]
    wide = pool(run(ticks, interval=1.0)[0]).output_rate
    narrow = pool(run(ticks, interval=1.0, options=FoldOptions(window_s=10.0))[0]).output_rate
    assert wide == pytest.approx((81 - 9) / 60)
    assert narrow == pytest.approx(1.7)


def test_the_limits_of_health_are_the_callers_and_follow_slow_ticks() -> None:
    """At a tick of 30 s one missed page is not stale, and a queue is hot where the caller says so."""
    options = FoldOptions(health=HealthLimits(hot_queue=2.0))
    _, state = run([(1000.0, [page("a", 1000.0, waiting=3.0)])], interval=30.0, options=options)
    for at, expected in ((1060.0, ReplicaState.HOT), (1080.0, ReplicaState.STALE), (1160.0, ReplicaState.DOWN)):
        snapshot, state = fold(1, at, [silent("a")], [SPEC], state, interval=30.0, options=options)
        assert snapshot.replicas[0].state is expected


def test_several_classes_are_judged_apart() -> None:
    two = PoolSpec("chat", slos=(SloSpec("chat", 1.0, 0.1), SloSpec("batch", 60.0, None, target=0.5)))
    ticks = [
        (0.0, [page("a", 0.0, slo_outcomes={})]),
        (
            10.0,
            [
                page(
                    "a", 10.0, slo_outcomes={"chat/met": 9.0, "chat/missed": 1.0, "batch/met": 1.0, "batch/missed": 1.0}
                )
            ],
        ),
    ]
    view = pool(run(ticks, pools=[two], interval=10.0)[0])
    assert [s.attainment for s in view.slos] == [Interval(0.9, 0.9), Interval(0.5, 0.5)]
