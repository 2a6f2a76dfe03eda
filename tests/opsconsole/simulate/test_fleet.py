"""Whole runs of a simulated fleet: starts, drains, failures, stale signals, and books that add up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from opsconsole.errors import ConfigError, UsageError
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.run import Arrival, FleetSettings, PolicyHandle, simulate
from opsconsole.simulate.settings import DEFAULT_REPLICA, ColdStart, Failures, Phase, SloBounds
from opsconsole.simulate.validate import poisson
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import Limits, Situation

CALM = poisson(5.0, 600, 3, (1000, 1000), (100, 100))  # two minutes
LONG = poisson(5.0, 1000, 3, (1000, 1000), (100, 100))


@dataclass(slots=True)
class Scripted:
    """A law that wants what its script says at each instant, and remembers what it was told."""

    script: tuple[tuple[float, int], ...]
    name: str = "scripted"
    needs: tuple[str, ...] = ()
    period_s: float = 10.0
    told: list[Situation] | None = None

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        if self.told is None:
            self.told = []
        self.told.append(situation)
        target = [count for at, count in self.script if at <= situation.now][-1]
        return Decision("pool", situation.want, target, "script", "as scripted"), memory


def run(arrivals: Iterable[Arrival], script: tuple[tuple[float, int], ...], **settings: object) -> RunOutcome:
    return simulate(arrivals, PolicyHandle(Scripted(script)), FleetSettings(**settings))  # type: ignore[arg-type]


def told(arrivals: Iterable[Arrival], script: tuple[tuple[float, int], ...], **settings: object) -> list[Situation]:
    law = Scripted(script)
    simulate(arrivals, PolicyHandle(law), FleetSettings(**settings))  # type: ignore[arg-type]
    return law.told or []


def test_a_calm_fleet_serves_everything_inside_its_bounds_and_costs_what_it_is() -> None:
    out = run(CALM, ((0.0, 2),), initial=2)
    assert (out.offered, out.met, out.failed, out.attainment) == (600, 600, 0, 1.0)
    assert out.gpu_hours == pytest.approx(2 * CALM[-1].at / 3600)
    assert out.gpu_hours_starting == out.gpu_hours_draining == 0.0
    assert (out.scale_events, out.streams_cut, out.shortage_s) == (0, 0, 0.0)
    assert (out.prompt_tokens, out.output_tokens) == (600_000, 60_000)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_story() -> None:
    settings = FleetSettings(
        initial=2, failures=Failures(mean_between_s=60.0), cold_start=ColdStart.of(20.0, spread=0.3), rows=True
    )
    one, two = (simulate(CALM, PolicyHandle.named("reactive"), settings) for _ in range(2))
    other = simulate(CALM, PolicyHandle.named("reactive"), replace(settings, seed=2))
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())
    assert json.dumps(one.to_json()) != json.dumps(other.to_json())


def test_a_start_costs_from_the_first_second_and_serves_after_the_last_phase() -> None:
    start = ColdStart((Phase("pull", 30.0), Phase("load", 15.0)))
    out = run(CALM, ((0.0, 1), (20.0, 3)), cold_start=start)
    assert out.gpu_hours_starting == pytest.approx(2 * 45.0 / 3600)
    by_time = [(c.at, c.ready, c.starting) for c in out.replica_timeline]
    assert by_time == [(0.0, 1, 0), (20.0, 1, 2), (65.0, 3, 0)]
    assert (out.scale_ups, out.scale_downs) == (1, 0)


def test_a_start_that_is_taken_back_never_serves_and_has_cost_something() -> None:
    out = run(CALM, ((0.0, 1), (20.0, 2), (50.0, 1)), cold_start=ColdStart.of(60.0))
    assert out.gpu_hours_starting == pytest.approx(30.0 / 3600)
    assert max(c.ready for c in out.replica_timeline) == 1


def test_a_drained_replica_finishes_its_streams_first() -> None:
    busy = poisson(16.0, 1000, 3, (1000, 1000), (100, 100))
    out = run(busy, ((0.0, 2), (30.0, 1)), initial=2)
    assert out.streams_cut == 0 and out.failed == 0
    assert 0.0 < out.gpu_hours_draining < 60.0 / 3600
    assert out.scale_downs == 1


def test_a_drain_past_its_deadline_cuts_what_still_streams() -> None:
    long = [Arrival(1.0 + i, 100, 4000) for i in range(10)]
    out = run(long, ((0.0, 2), (30.0, 1)), initial=2, limits=Limits(1, 9, drain_deadline_s=5.0), patience_s=1000.0)
    assert out.streams_cut == out.failed > 0
    assert out.gpu_hours_draining == 0.0  # the load is over before: later seconds are nobody's
    assert out.offered == 10 and out.met == 10 - out.failed


def test_requests_wait_in_front_of_an_empty_pool_and_go_to_the_first_that_is_ready() -> None:
    settings = FleetSettings(
        initial=0, limits=Limits(0, 5), cold_start=ColdStart.of(30.0), rows=True, until_s=120.0, scrape_s=5.0
    )
    out = simulate([Arrival(1.0, 100, 10)], PolicyHandle.named("reactive"), settings)
    (row,) = out.request_rows
    assert row.ttft is not None and 30.0 < row.ttft < 60.0
    assert (out.met, out.failed) == (0, 0) and out.attainment == 0.0


def test_a_failure_loses_its_requests_and_is_replaced_without_being_asked() -> None:
    out = run(CALM, ((0.0, 1),), failures=Failures(at=(60.0,)), cold_start=ColdStart.of(20.0))
    assert out.failed > 0 and out.streams_cut == 0  # no law cut them
    assert out.gpu_hours_starting == pytest.approx(20.0 / 3600)
    assert [(c.ready, c.starting) for c in out.replica_timeline] == [(1, 0), (0, 1), (1, 0)]
    assert out.scale_events == 0


def test_a_law_sees_only_what_the_last_scrape_saw() -> None:
    situations = told(CALM, ((0.0, 1),), scrape_s=60.0)
    at = {s.now: s for s in situations}
    assert at[50.0].demand.request_rate is None and not at[50.0].covered
    first, second = at[60.0], at[110.0]
    assert first.demand == second.demand and first.demand.window_s == 60.0
    assert second.replicas[0].age == 50.0
    assert at[120.0].demand != second.demand
    arrived = sum(1 for a in CALM if a.at <= 60.0)
    assert first.demand.request_rate == pytest.approx(arrived / 60.0)


def test_a_replica_is_warming_until_somebody_has_read_it() -> None:
    situations = told(CALM, ((0.0, 1), (5.0, 2)), scrape_s=20.0, cold_start=ColdStart.of(25.0))
    states = {s.now: [r.state for r in s.replicas] for s in situations}
    assert states[20.0] == ["ok", "warming"]  # asked for at 10 s
    assert states[30.0] == ["ok", "warming"]  # starting
    assert states[40.0] == ["ok", "ok"]  # ready at 35 s, read at 40 s
    late = {s.now: [r.state for r in s.replicas] for s in told(LONG, ((0.0, 1), (5.0, 2)), scrape_s=60.0)}
    assert late[140.0] == late[170.0] == ["ok", "warming"] and late[180.0] == ["ok", "ok"]  # ready at 130 s


def test_overload_is_seen_as_queue_growth_and_missed_bounds() -> None:
    heavy = poisson(25.0, 3000, 4, (1000, 1000), (100, 100))
    situations = told(heavy, ((0.0, 1),), patience_s=5.0)
    last = [s for s in situations if s.now <= heavy[-1].at][-1]
    assert last.replicas[0].state == "saturated"
    assert (last.demand.waiting_growth or 0.0) > 5.0
    assert last.slo.attainment_high is not None and last.slo.attainment_high < 0.5
    assert (last.slo.burn_short or 0.0) > 10.0 and (last.slo.ttft_p95 or 0.0) > 1.0
    assert last.replicas[0].busy == pytest.approx(1.0)


def test_what_is_open_when_patience_ends_has_failed() -> None:
    heavy = poisson(25.0, 3000, 4, (1000, 1000), (100, 100))
    out = run(heavy, ((0.0, 1),), patience_s=5.0)
    assert out.offered == 3000 and out.failed > 1000
    assert out.attainment is not None and out.attainment < 0.5
    assert out.shortage_s == pytest.approx(120.0)


def test_the_warm_up_is_simulated_and_not_counted() -> None:
    out = run(CALM, ((0.0, 1),), warm_up_s=60.0, rows=True)
    assert out.offered == sum(1 for a in CALM if a.at >= 60.0) == len(out.request_rows)
    assert out.gpu_hours == pytest.approx((CALM[-1].at - 60.0) / 3600)
    assert out.mean_replicas == pytest.approx(1.0)


def test_a_request_that_no_replica_can_hold_is_refused() -> None:
    small = replace(DEFAULT_REPLICA, kv_blocks=100)
    out = run([Arrival(0.5, 1500, 200), Arrival(1.0, 100, 10)], ((0.0, 1),), replica=small)
    assert (out.offered, out.met, out.failed) == (2, 1, 1)


def test_a_full_queue_refuses_instead_of_keeping() -> None:
    heavy = poisson(40.0, 2000, 4, (1000, 1000), (100, 100))
    out = run(heavy, ((0.0, 1),), replica=replace(DEFAULT_REPLICA, max_queued=10))
    assert out.failed > 500
    assert out.ttft_p99 is not None and out.ttft_p99 < 3.0


@pytest.mark.parametrize("router", ["place", "round-robin", "random"])
def test_every_router_uses_the_whole_fleet(router: str) -> None:
    out = run(poisson(20.0, 1000, 5, (1000, 1000), (100, 100)), ((0.0, 3),), initial=3, router=router, rows=True)
    share = [sum(1 for r in out.request_rows if r.replica == f"r{i:04d}") for i in range(3)]
    assert sum(share) == 1000 and min(share) > 250


def test_the_live_rule_keeps_shared_prefixes_together() -> None:
    arrivals = [
        Arrival(a.at, 2148, 20, tuple(10 * (i % 16) + b for b in range(4)))
        for i, a in enumerate(poisson(12.0, 800, 6, (1, 1), (1, 1)))
    ]
    small = replace(DEFAULT_REPLICA, kv_blocks=1200)  # no replica can keep every opening
    hits = {
        router: run(arrivals, ((0.0, 4),), initial=4, replica=small, router=router).cached_tokens or 0
        for router in ("place", "random")
    }
    assert hits["place"] > 1.2 * hits["random"]


def test_a_predictive_law_is_asked_with_the_outlook_it_was_given() -> None:
    seen: list[float] = []

    def outlooks(now: float, demand: object) -> dict[str, object]:
        seen.append(now)
        return {}

    law = Scripted(((0.0, 1),))
    simulate(CALM, PolicyHandle(law, outlooks=outlooks), FleetSettings())  # type: ignore[arg-type]
    assert seen == [s.now for s in law.told or []]


@pytest.mark.parametrize(
    ("arrivals", "words"),
    [
        ([Arrival(-1.0, 10, 10)], "arrival 0 is at -1 s"),
        ([Arrival(float("nan"), 10, 10)], "arrival 0 is at nan s"),
        ([Arrival(2.0, 10, 10), Arrival(1.0, 10, 10)], "arrival 1 is at 1 s, before the one ahead of it at 2 s"),
        ([Arrival(0.0, 0, 10)], "arrival 0 has 0 prompt"),
        ([Arrival(0.0, 10, 0)], "0 output tokens"),
    ],
)
def test_an_impossible_arrival_is_named(arrivals: list[Arrival], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(arrivals, ((0.0, 1),))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"limits": Limits(5, 2)}, "minimum 5 is above maximum 2"),
        ({"scrape_s": 60.0, "limits": Limits(1, 9, stabilise_down_s=15.0)}, "shorter than the measurement lag 60 s"),
        ({"initial": 0}, "initial 0 replicas are outside the limits 1 to 1000"),
        ({"scrape_s": 0.0}, "scrape interval is 0 s: set it above 0 s"),
        ({"tick_s": -1.0}, "tick is -1 s: set it above 0 s"),
        ({"warm_up_s": 10.0, "until_s": 5.0}, "end of the load is 5 s: set it to 10 or more"),
    ],
)
def test_impossible_settings_are_named_with_the_number_needed(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        FleetSettings(**settings)  # type: ignore[arg-type]


def test_impossible_parts_are_named_too() -> None:
    with pytest.raises(ConfigError, match="cold-start phase pull is -1 s"):
        Phase("pull", -1.0)
    with pytest.raises(ConfigError, match="SLO target is 1"):
        SloBounds(target=1.0)
    with pytest.raises(ConfigError, match="failure at -3 s"):
        Failures(at=(-3.0,))
    with pytest.raises(ConfigError, match="kv_blocks is 0: set it to 1 or more"):
        replace(DEFAULT_REPLICA, kv_blocks=0)
    with pytest.raises(ConfigError, match="hash_tokens 500 is no multiple of block_size 16"):
        replace(DEFAULT_REPLICA, hash_tokens=500)
