"""The fluid fidelity on loads whose right answer is known by arithmetic."""

from __future__ import annotations

import json

import numpy as np
import pytest

from opsconsole.simulate.backtest import Stage, run, stage
from opsconsole.simulate.fluid import simulate_fluid
from opsconsole.simulate.latency import Latency, erlang_c, lagged
from opsconsole.simulate.settings import DEFAULT_REPLICA, ColdStart, FleetSettings, PolicyHandle, SloBounds
from opsconsole.simulate.traces import Kind, Lengths, Load, Trace, load_of
from policies.situation import CapacityFacts, Limits

LENGTHS = Lengths()
LATENCY = Latency(DEFAULT_REPLICA, LENGTHS, SloBounds())


def flat(worth: float, seconds: float = 3600.0) -> Load:
    """A steady load of so many saturated replicas' worth."""
    counts = np.full(round(seconds / 10), worth * LATENCY.rate * 10)
    return load_of(Trace("flat", Kind.SYNTHETIC, 10.0, counts))


def fixed(replicas: int, **more: object) -> FleetSettings:
    return FleetSettings(initial=replicas, limits=Limits(replicas, replicas), **more)  # type: ignore[arg-type]


def test_a_replica_at_its_full_budget_does_this_much() -> None:
    """1100 tokens at 38.752 ms / 512, and 100 x 1000 + 100 x 100 tokens of context at 91.02 ns: 93.3 ms a request."""
    each = 1100 * 0.0346 * 1.12 / 512 + (100 * 1000 + 100 * 100) * 131072 / 1.44e12
    assert 1.0 / LATENCY.rate == pytest.approx(each)
    assert LATENCY.rate == pytest.approx(10.72, abs=0.01)


def test_enough_replicas_meet_the_bounds_and_cost_their_hours() -> None:
    outcome = simulate_fluid(flat(5.0), PolicyHandle.named("static"), fixed(8))
    assert outcome.attainment is not None
    assert outcome.attainment > 0.999
    assert outcome.gpu_hours == pytest.approx(8.0)
    assert outcome.scale_events == 0
    assert outcome.shortage_s == 0.0
    assert outcome.fidelity == "fluid"


def test_a_tenth_too_little_is_behind_after_ten_seconds_and_never_again_in_time() -> None:
    """Work 11, supply 10: the wait grows by 0.1 s a second, so only about the first ten seconds are in time."""
    outcome = simulate_fluid(flat(11.0), PolicyHandle.named("static"), fixed(10))
    assert outcome.attainment is not None
    assert 0.001 < outcome.attainment < 0.006
    assert outcome.ttft_p99 == pytest.approx(0.99 * 360.0, rel=0.1)
    assert outcome.shortage_s == pytest.approx(3600.0, abs=60.0)


def test_a_backlog_is_worked_off_by_what_is_left_over() -> None:
    """Twice the supply for 60 s leaves 60 s of delay, which half a supply to spare works off in 120 s."""
    counts = np.concatenate([np.full(6, 8.0), np.full(100, 2.0)]) * LATENCY.rate * 10
    load = load_of(Trace("burst", Kind.SYNTHETIC, 10.0, counts))
    outcome = simulate_fluid(load, PolicyHandle.named("static"), fixed(4))
    assert outcome.shortage_s == pytest.approx(180.0, abs=60.0)


def test_starts_are_paid_from_the_first_second_and_serve_after_the_last() -> None:
    handle = PolicyHandle.named("static", replicas=10)
    settings = FleetSettings(initial=1, limits=Limits(1, 10), cold_start=ColdStart.of(300.0))
    outcome = simulate_fluid(flat(0.5), handle, settings)
    assert outcome.gpu_hours_starting == pytest.approx(9 * 300 / 3600)
    assert outcome.gpu_hours_ready == pytest.approx((3600 + 9 * 3300) / 3600)
    assert outcome.scale_ups == 1


def test_hours_and_requests_of_the_warm_up_are_not_counted() -> None:
    whole = simulate_fluid(flat(2.0), PolicyHandle.named("static"), fixed(4))
    half = simulate_fluid(flat(2.0), PolicyHandle.named("static"), fixed(4, warm_up_s=1800.0))
    assert half.gpu_hours == pytest.approx(whole.gpu_hours / 2)
    assert half.offered == pytest.approx(whole.offered / 2, rel=0.01)


def test_more_replicas_never_attain_less() -> None:
    day = np.sin(np.arange(720) / 60.0) * 3.0 + 6.0 + np.random.default_rng(1).normal(0, 1.0, 720)
    load = load_of(Trace("wave", Kind.SYNTHETIC, 10.0, np.maximum(0.0, day) * LATENCY.rate * 10))
    attained = [simulate_fluid(load, PolicyHandle.named("static"), fixed(n)).attainment for n in range(4, 14)]
    assert attained == sorted(attained, key=lambda a: a or 0.0)
    assert attained[-1] is not None
    assert attained[-1] > 0.99


def test_erlang_c_is_as_published() -> None:
    """M/M/4 at rho 0.8: chance to wait 0.596; one server: rho itself."""
    assert erlang_c(4, 0.8) == pytest.approx(0.596, abs=0.001)
    assert erlang_c(1, 0.7) == pytest.approx(0.7)


def test_lag_keeps_the_total_and_delays_it() -> None:
    values = np.zeros(100)
    values[10] = 6.0
    late = lagged(values, 5.0, 10.0)
    assert late.sum() == pytest.approx(6.0)
    assert late[:10].sum() == 0.0
    assert late[10] < 6.0
    assert (np.arange(100) * late).sum() / 6.0 - 10.0 == pytest.approx(0.5, abs=0.02)  # 5 s are half a bin


def small_stage() -> Stage:
    counts = 400.0 + 200.0 * np.sin(np.arange(1440) / 100.0)
    return stage(Trace("wave", Kind.SYNTHETIC, 10.0, counts), forecast=False)


def test_demand_is_scaled_to_what_the_clairvoyant_schedule_needs() -> None:
    found = small_stage()
    skip = round(found.warm_up_s / 10.0)
    assert found.oracle(120.0)[skip:].mean() == pytest.approx(20.0, abs=0.1)


def test_the_clairvoyant_law_does_as_its_schedule_and_meets_the_target() -> None:
    found = small_stage()
    outcome = run(found, "oracle", 120.0)
    assert outcome.attainment is not None
    assert outcome.attainment > 0.99
    skip = round(found.warm_up_s / 10.0)
    wanted = found.oracle(120.0)[skip:].sum() * 10.0 / 3600.0
    assert outcome.gpu_hours_ready + outcome.gpu_hours_starting == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("name", ["reactive", "keda-epp", "hpa-ttft", "wva-v2", "kpa", "dynamo-constant"])
def test_every_law_runs_and_the_same_inputs_give_the_same_bytes(name: str) -> None:
    found = small_stage()
    one, two = (json.dumps(run(found, name, 120.0).to_json()) for _ in range(2))
    assert one == two
    assert json.loads(one)["gpu_hours"] > 0


def test_a_longer_start_never_attains_more_for_a_reactive_law() -> None:
    found = small_stage()
    attained = [run(found, "reactive", cold).attainment or 0.0 for cold in (30.0, 300.0, 900.0)]
    assert attained[0] >= attained[1] >= attained[2]


def test_laws_are_told_the_capacity_and_how_it_splits() -> None:
    capacity = LATENCY.capacity(20)
    assert isinstance(capacity, CapacityFacts)
    assert capacity.request_rate is not None
    assert 0.85 < capacity.request_rate / LATENCY.rate < 0.97
    assert capacity.prompt_share == pytest.approx(1000 * 75.69e-6 / 0.0933, abs=0.01)
