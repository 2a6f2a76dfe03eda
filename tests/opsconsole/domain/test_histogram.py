"""Histograms: matched by bound, never by position; bounds said as bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.domain.histogram import (
    add,
    difference,
    discard_reason,
    is_sound,
    latency,
    merge,
    quantile,
    share_under,
)
from opsconsole.domain.records import Buckets, Interval, LatencyView

INF = math.inf


def buckets(bounds: tuple[float, ...], counts: tuple[float, ...], total: float | None = None) -> Buckets:
    return Buckets((*bounds, INF), counts, total)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(buckets((1, 2), (1, 2, 3)), True, id="sound"),
        pytest.param(Buckets((1, 2), (1, 2)), False, id="no +Inf"),
        pytest.param(buckets((1, 2), (1, 3, 2)), False, id="counts fall"),
        pytest.param(buckets((2, 1), (1, 2, 3)), False, id="bounds fall"),
        pytest.param(buckets((1,), (1, 2, 3)), False, id="lengths differ"),
        pytest.param(buckets((1,), (-1, 2)), False, id="negative"),
        pytest.param(Buckets((), ()), False, id="empty"),
    ],
)
def test_what_is_a_sound_histogram(value: Buckets, expected: bool) -> None:
    assert is_sound(value) is expected


@pytest.mark.parametrize(
    ("value", "finished", "said"),
    [
        pytest.param(buckets((1,), (5, 9), 4.0), 9.0, None, id="believable"),
        pytest.param(buckets((1,), (5, 9), 4.0), None, None, id="nothing to compare with"),
        pytest.param(buckets((1,), (5, 9), 0.0), None, "it counts 9 observations that sum to nothing", id="no sum"),
        pytest.param(
            buckets((1,), (5, 90), 4.0), 20.0, "it counts 90 observations for 20 finished requests", id="too many"
        ),
        pytest.param(buckets((1,), (9, 5)), None, "its buckets are not cumulative", id="not cumulative"),
    ],
)
def test_what_is_discarded_and_why(value: Buckets, finished: float | None, said: str | None) -> None:
    assert discard_reason(value, finished) == said


def test_difference_of_two_readings() -> None:
    old, new = buckets((1, 2), (1, 2, 3), 4.0), buckets((1, 2), (2, 5, 9), 14.0)
    assert difference(old, new) == buckets((1, 2), (1, 3, 6), 10.0)


def test_after_a_reset_all_of_the_new_reading_counts() -> None:
    old, new = buckets((1,), (5, 9)), buckets((1,), (2, 3))
    assert difference(old, new) is new


def test_different_layouts_have_no_difference() -> None:
    assert difference(buckets((1,), (1, 1)), buckets((2,), (2, 2))) is None


def test_merge_uses_the_bounds_both_have() -> None:
    """`le` 0.5 and 2 stand in one layout each; 1 and 4 in both."""
    one, other = buckets((0.5, 1, 4), (1, 2, 3, 4), 5.0), buckets((1, 2, 4), (10, 20, 30, 40), 50.0)
    assert merge([one, None, other]) == buckets((1, 4), (12, 33, 44), 55.0)


def test_merge_of_nothing_is_unknown() -> None:
    assert merge([None]) is None


def test_unknown_sums_stay_unknown() -> None:
    assert add(buckets((1,), (1, 2), 3.0), buckets((1,), (1, 2))).sum is None


@pytest.mark.parametrize(
    ("q", "value", "lower_bound"),
    [
        pytest.param(0.0, 0.0, False, id="minimum"),
        pytest.param(0.25, 0.5, False, id="inside the first bucket"),
        pytest.param(0.5, 1.0, False, id="at an edge"),
        pytest.param(0.75, 1.5, False, id="inside the second bucket"),
        pytest.param(0.8, 1.6, False, id="linear"),
    ],
)
def test_quantiles_are_linear_inside_a_bucket(q: float, value: float, lower_bound: bool) -> None:
    found = quantile(buckets((1, 2), (50, 100, 100)), q)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.lower_bound is lower_bound


def test_beyond_the_last_finite_bound_a_quantile_is_only_a_lower_bound() -> None:
    found = quantile(buckets((1, 2), (50, 90, 100)), 0.95)
    assert found is not None
    assert (found.value, found.lower_bound) == (2.0, True)


@pytest.mark.parametrize("q", [-0.1, 1.1])
def test_a_quantile_outside_the_unit_interval_is_unknown(q: float) -> None:
    assert quantile(buckets((1,), (1, 1)), q) is None


def test_nothing_observed_has_no_quantile_and_no_share() -> None:
    empty = buckets((1,), (0, 0))
    assert quantile(empty, 0.5) is None
    assert share_under(empty, 1.0) is None


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(1.0, Interval(0.5, 0.5), id="at an edge it is exact"),
        pytest.param(1.5, Interval(0.5, 0.9), id="between edges it is an interval"),
        pytest.param(0.5, Interval(0.0, 0.5), id="below the first edge"),
        pytest.param(3.0, Interval(0.9, 1.0), id="above the last finite edge"),
    ],
)
def test_share_under_a_bound(bound: float, expected: Interval) -> None:
    assert share_under(buckets((1, 2), (50, 90, 100)), bound) == expected


def test_p99_needs_enough_observations() -> None:
    few, many = latency(buckets((1, 2), (5, 9, 9))), latency(buckets((1, 2), (50, 100, 100)))
    assert few.p99 is None and few.p95 is not None
    assert many.p99 == pytest.approx(1.98)
    assert latency(None) == latency(buckets((1,), (0, 0))) == LatencyView()


def test_a_capped_quantile_marks_the_view() -> None:
    assert latency(buckets((1,), (50, 100))).lower_bound


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.001, 50.0), min_size=1, max_size=60), st.floats(0.01, 60.0))
def test_the_true_share_lies_in_the_interval(values: list[float], bound: float) -> None:
    edges = (0.1, 0.5, 1.0, 5.0, 10.0)
    counts = tuple(float(sum(v <= e for v in values)) for e in (*edges, INF))
    found = share_under(buckets(edges, counts), bound)
    assert found is not None
    assert found.low - 1e-9 <= sum(v <= bound for v in values) / len(values) <= found.high + 1e-9
