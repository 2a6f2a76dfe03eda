"""Attainment is joint, exact where it can be and a bound where it cannot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.domain import slo
from opsconsole.domain.records import Buckets, Interval


def histogram(*counts: float) -> Buckets:
    """Bounds 1 s and 2 s."""
    return Buckets((1.0, 2.0, math.inf), counts)


def test_the_joint_counters_are_exact() -> None:
    assert slo.exact(90.0, 10.0).attainment == Interval(0.9, 0.9)


def test_nothing_offered_is_neither_good_nor_bad() -> None:
    assert slo.exact(0.0, 0.0).attainment is None
    assert slo.burn_rate(slo.Tally(), 0.95) is None
    assert slo.budget_left(slo.Tally(), 0.95) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(Interval(0.9, 0.9), Interval(0.8, 0.8), Interval(0.7, 0.8), id="exact marginals"),
        pytest.param(Interval(0.3, 0.4), Interval(0.5, 0.6), Interval(0.0, 0.4), id="low ones bound nothing below"),
        pytest.param(Interval(1.0, 1.0), Interval(0.6, 0.7), Interval(0.6, 0.7), id="a perfect one"),
    ],
)
def test_marginals_bound_the_joint_share(one: Interval, other: Interval, expected: Interval) -> None:
    found = slo.joint_bound(one, other)
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50))
def test_the_true_joint_share_lies_in_the_bound(requests: list[tuple[bool, bool]]) -> None:
    n = len(requests)
    a, b = sum(x for x, _ in requests) / n, sum(y for _, y in requests) / n
    found = slo.joint_bound(Interval(a, a), Interval(b, b))
    assert found.low - 1e-9 <= sum(x and y for x, y in requests) / n <= found.high + 1e-9


@pytest.mark.parametrize(
    ("ttft", "tpot", "bounds", "failed", "expected"),
    [
        pytest.param(histogram(90, 95, 100), histogram(80, 90, 100), (1.0, 1.0), 0.0, (100, 70, 80), id="both"),
        pytest.param(histogram(90, 95, 100), None, (1.0, None), 0.0, (100, 90, 90), id="only one is bounded"),
        pytest.param(
            histogram(90, 95, 100), histogram(0, 0, 0), (1.0, 1.0), 0.0, (100, 90, 90), id="one-token requests"
        ),
        pytest.param(histogram(90, 95, 100), histogram(80, 90, 100), (1.0, 1.0), 100.0, (200, 70, 80), id="failures"),
        pytest.param(histogram(0, 0, 0), histogram(0, 0, 0), (1.0, 1.0), 3.0, (3, 0, 0), id="only failures"),
    ],
)
def test_tally_from_marginals(
    ttft: Buckets,
    tpot: Buckets | None,
    bounds: tuple[float | None, float | None],
    failed: float,
    expected: tuple[float, float, float],
) -> None:
    found = slo.from_marginals(ttft, tpot, *bounds, failed)
    assert found is not None
    assert (found.offered, found.met_low, found.met_high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ttft", "bounds"),
    [
        pytest.param(None, (1.0, None), id="a bounded latency without a histogram"),
        pytest.param(histogram(1, 1, 1), (None, None), id="nothing is bounded"),
    ],
)
def test_no_tally_without_the_facts(ttft: Buckets | None, bounds: tuple[float | None, float | None]) -> None:
    assert slo.from_marginals(ttft, None, *bounds) is None


@pytest.mark.parametrize(
    ("met", "missed", "target", "burn", "left"),
    [
        pytest.param(95, 5, 0.95, 1.0, 0.0, id="spent evenly"),
        pytest.param(90, 10, 0.95, 2.0, 0.0, id="twice too fast"),
        pytest.param(99, 1, 0.95, 0.2, 0.8, id="a fifth spent"),
        pytest.param(100, 0, 1.0, 0.0, 1.0, id="a perfect target met"),
        pytest.param(999, 1, 1.0, 10.0, 0.0, id="a perfect target missed burns fast and not infinitely"),
    ],
)
def test_burn_and_budget(met: float, missed: float, target: float, burn: float, left: float) -> None:
    tally = slo.exact(met, missed)
    assert slo.burn_rate(tally, target) == pytest.approx(burn)
    assert slo.budget_left(tally, target) == pytest.approx(left)


def test_an_interval_burns_by_its_upper_end() -> None:
    assert slo.burn_rate(slo.Tally(100, 80, 95), 0.9) == pytest.approx(0.5)


def test_goodput_counts_the_sure_part() -> None:
    assert slo.goodput(slo.Tally(100, 80, 95), 10.0) == 8.0
    assert slo.goodput(slo.Tally(100, 80, 95), 0.0) is None


def test_totals_add_and_unknown_ones_are_left_out() -> None:
    assert slo.total([None, slo.exact(1, 2), slo.exact(3, 4)]) == slo.exact(4, 6)
    assert slo.total([None]) is None
