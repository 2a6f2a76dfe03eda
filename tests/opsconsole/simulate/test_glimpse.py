"""What a scrape happens to see: gauges whose means and spreads are those of chance arrivals, and a minute of TTFT."""

from __future__ import annotations

import math
from statistics import fmean, pvariance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.simulate.glimpse import NORMAL, WINDOW_S, Glimpse, Seconds, Seen, _gamma
from opsconsole.simulate.latency import LEFT, Latency, pooled
from opsconsole.simulate.settings import DEFAULT_REPLICA, SloBounds
from opsconsole.simulate.traces import ASSUMED, Floats

LATENCY = Latency(DEFAULT_REPLICA, ASSUMED, SloBounds())
FEW = settings(max_examples=60, deadline=None)
LOADS = st.floats(0.0, 1.0)


def drawn(replicas: int, utilisation: float, wait: float, count: int = 4000) -> list[Seen]:
    """Many scrapes of one steady fleet."""
    glimpse, rate = Glimpse(LATENCY, 1), LATENCY.rate * utilisation * replicas
    return [glimpse.at(replicas, rate, utilisation, wait, 0.0) for _ in range(count)]


def midpoints(count: int = 20_000) -> list[float]:
    return [(i + 0.5) / count for i in range(count)]


def upto(seconds: float) -> Floats:
    """Every request had its first token after so long."""
    return np.where(seconds <= LEFT, 1.0, 0.0)


@FEW
@given(st.integers(0, 200), st.floats(0.0, 2000.0), LOADS, st.floats(0.0, 30.0), st.floats(0.0, 1e5))
def test_gauges_are_never_negative_and_a_queue_is_whole(
    replicas: int, rate: float, utilisation: float, wait: float, behind: float
) -> None:
    seen = Glimpse(LATENCY, 1).at(replicas, rate, utilisation, wait, behind)
    assert seen.waiting >= 0.0 and seen.running >= 0.0
    assert math.isfinite(seen.waiting) and math.isfinite(seen.running)
    if replicas and not behind:
        assert seen.waiting == round(seen.waiting)


@FEW
@given(st.integers(0, 50), LOADS, st.floats(1.0, 1e5))
def test_a_backlog_is_told_as_it_is_whatever_the_chance(replicas: int, utilisation: float, behind: float) -> None:
    seen = Glimpse(LATENCY, 1).at(replicas, 10.0, utilisation, 3.0, behind)
    assert seen == Seen(behind, LATENCY.running(utilisation))


@FEW
@given(st.integers(0, 50), LOADS, st.sampled_from([0.0, 40.0]))
def test_a_law_that_holds_another_fleet_meets_the_same_chance(replicas: int, utilisation: float, behind: float) -> None:
    """However large the first fleet is, the second scrape is that of the same draws."""
    one, other = Glimpse(LATENCY, 7), Glimpse(LATENCY, 7)
    one.at(8, 40.0, 0.5, 0.1, 0.0)
    other.at(replicas, 40.0, utilisation, 0.1, behind)
    assert one.at(8, 40.0, 0.5, 0.1, 0.0) == other.at(8, 40.0, 0.5, 0.1, 0.0)


def test_another_seed_is_another_chance() -> None:
    first, second = (Glimpse(LATENCY, seed).at(8, 60.0, 0.7, 0.2, 0.0) for seed in (1, 2))
    assert first.running != second.running


@pytest.mark.parametrize(("replicas", "utilisation"), [(1, 0.6), (8, 0.3), (8, 0.8), (50, 0.7)])
def test_sequences_that_run_spread_around_their_mean_by_a_bursts_weight(replicas: int, utilisation: float) -> None:
    seen = [s.running for s in drawn(replicas, utilisation, 0.0)]
    mean = LATENCY.running(utilisation)
    assert fmean(seen) == pytest.approx(mean, rel=0.02)
    # as many as a Poisson number at least; more, since a burst also makes each stay longer
    poisson = mean / replicas
    low, high = utilisation * 0.95, utilisation * 1.05
    power = math.log(LATENCY.step(high) / LATENCY.step(low)) / math.log(high / low)
    assert pvariance(seen) == pytest.approx(poisson * (1 + (power * LATENCY.work_spread) ** 2 / 2), rel=0.08)
    assert pvariance(seen) > poisson


@pytest.mark.parametrize(("replicas", "utilisation", "wait"), [(4, 0.5, 0.05), (8, 0.7, 0.2), (20, 0.9, 1.0)])
def test_the_mean_queue_is_littles_law_and_those_who_came_during_the_step(
    replicas: int, utilisation: float, wait: float
) -> None:
    rate = LATENCY.rate * utilisation * replicas
    came = rate * LATENCY.residual(utilisation) * (1.0 - math.exp(-LATENCY.running(utilisation)))
    joining = came * NORMAL.cdf(math.sqrt(came)) + math.sqrt(came) * NORMAL.pdf(math.sqrt(came))  # a normal, cut at 0
    seen = fmean(s.waiting for s in drawn(replicas, utilisation, wait))
    assert seen == pytest.approx(rate * wait + joining, rel=0.05)


def test_fewer_queues_of_the_same_mean_are_more_uneven() -> None:
    few, many = (drawn(replicas, 0.8, 4.0 / replicas) for replicas in (3, 60))
    assert pooled(60, 0.8) < 60
    assert pvariance(s.waiting for s in few) > 1.5 * pvariance(s.waiting for s in many)


def test_where_nothing_arrives_nothing_waits() -> None:
    assert {Glimpse(LATENCY, seed).at(4, 0.0, 0.0, 0.0, 0.0).waiting for seed in range(50)} == {0.0}


@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        pytest.param(10.0, 10.0, id="many groups: near a normal"),
        pytest.param(10.0, 100.0, id="one queue that is always there: an exponential"),
        pytest.param(10.0, 190.0, id="just above the change of forms"),
        pytest.param(10.0, 210.0, id="just below it"),
        pytest.param(0.2, 4.0, id="mostly nobody"),
    ],
)
def test_a_gamma_has_the_mean_and_the_spread_it_was_given(mean: float, variance: float) -> None:
    values = [_gamma(mean, variance, share) for share in midpoints()]
    assert fmean(values) == pytest.approx(mean, rel=0.04)
    assert pvariance(values) == pytest.approx(variance, rel=0.12)


@FEW
@given(st.floats(1e-5, 1e4), st.floats(0.05, 50.0), st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)))
def test_a_gammas_quantiles_are_not_negative_and_in_order(mean: float, spread: float, at: tuple[float, float]) -> None:
    variance = mean * mean * spread
    ends = [_gamma(mean, variance, share) for share in at]
    assert min(ends) >= 0.0 and all(map(math.isfinite, ends))
    if mean * mean / variance >= 0.5:
        assert (ends[0] - ends[1]) * (at[0] - at[1]) >= 0.0  # rising
    else:
        assert (ends[0] - ends[1]) * (at[0] - at[1]) <= 0.0  # falling: the atom at zero is at the top


def test_with_two_kinds_of_seconds_a_quantile_is_that_of_the_slower_share() -> None:
    seconds = Seconds()
    seconds.add(94.0, upto(0.1))
    seconds.add(6.0, upto(2.0))
    assert seconds.close(15.0) == pytest.approx(2.0, rel=0.07)  # grid of LEFT
    assert Seconds().close(15.0) is None
    fewer = Seconds()
    fewer.add(96.0, upto(0.1))
    fewer.add(4.0, upto(2.0))
    assert fewer.close(15.0) == pytest.approx(0.1, rel=0.07)
    assert fewer.close(15.0, 0.99) == pytest.approx(2.0, rel=0.07)


def test_a_scrape_looks_back_one_minute_and_no_further() -> None:
    seconds = Seconds()
    seconds.add(100.0, upto(5.0))
    told = [seconds.close(0.0)]
    for scrape in range(1, 6):
        seconds.add(100.0, upto(0.5))
        told.append(seconds.close(15.0 * scrape))
    assert told[0] == pytest.approx(5.0, rel=0.07)
    assert all(t == pytest.approx(5.0, rel=0.07) for t in told[1:4])  # a quarter of the minute and more
    assert WINDOW_S == 15.0 * 4
    assert told[4] == told[5] == pytest.approx(0.5, rel=0.07)


def test_silence_for_a_minute_is_unknown_and_not_the_last_answer() -> None:
    seconds = Seconds()
    seconds.add(3.0, upto(0.5))
    assert seconds.close(0.0) is not None
    assert [seconds.close(at) is None for at in (30.0, 59.0, 60.0, 90.0)] == [False, False, True, True]


def test_a_first_token_that_never_came_is_told_as_the_longest_time_there_is() -> None:
    seconds = Seconds()
    seconds.add(1.0, np.zeros(LEFT.size))
    assert seconds.close(0.0) == float(LEFT[-1])
