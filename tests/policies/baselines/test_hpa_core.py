"""The HPA algorithm by its own rules: fills, tolerance, combination, windows, rates."""

from __future__ import annotations

import pytest

from policies.baselines.hpa_core import (
    Behaviour,
    Pod,
    RatePolicy,
    average_metric,
    behave,
    combine,
    pods_metric,
    value_metric,
)
from policies.memory import Memory


@pytest.mark.parametrize(
    ("values", "current", "expected"),
    [
        pytest.param([0.8, 0.8], 2, 2, id="on target"),
        pytest.param([0.88, 0.86], 2, 2, id="inside the tolerance"),
        pytest.param([1.0, 1.0], 2, 3, id="r 1.25 of 2 is 2.5"),
        pytest.param([0.2, 0.2, 0.2], 3, 1, id="r 0.25 of 3 is 0.75"),
        pytest.param([0.0, 1.0, 1.0], 3, 3, id="a loading pod that reports 0 is counted: r 0.83 of 3 is 2.5"),
    ],
)
def test_pods_metric_over_what_reports(values: list[float], current: int, expected: int) -> None:
    assert pods_metric([Pod(v) for v in values], 0.8, current) == expected


@pytest.mark.parametrize(
    ("pods", "current", "expected"),
    [
        pytest.param(
            [Pod(0.4), Pod(None)], 2, 2, id="missing fills with the target when shrinking: r' 0.75 of 2 is 1.5"
        ),
        pytest.param([Pod(1.6), Pod(None)], 2, 2, id="missing fills with 0 when growing: r' is 1"),
        pytest.param([Pod(2.4), Pod(None)], 2, 3, id="r' 1.5 of 2 is 3"),
        pytest.param(
            [Pod(1.0), Pod(None, pending=True)], 2, 2, id="pending fills with 0 when growing: opposite sides hold"
        ),
        pytest.param([Pod(0.4), Pod(0.4), Pod(None, pending=True)], 3, 1, id="pending is left out when shrinking"),
        pytest.param([Pod(None), Pod(None, pending=True)], 2, None, id="nobody reports: an error"),
        pytest.param([Pod(1.0), Pod(1.0), Pod(1.0), Pod(None)], 5, 5, id="a growing ratio never lowers"),
    ],
)
def test_pods_metric_with_missing_and_pending_pods(pods: list[Pod], current: int, expected: int | None) -> None:
    assert pods_metric(pods, 0.8, current) == expected


@pytest.mark.parametrize(
    ("value", "ready", "current", "expected"),
    [
        pytest.param(2.0, 4, 4, 8, id="twice the target"),
        pytest.param(1.05, 4, 4, 4, id="inside the tolerance"),
        pytest.param(2.0, 0, 4, 0, id="zero ready recommends zero"),
        pytest.param(0.3, 0, 0, 1, id="from zero there is no tolerance"),
        pytest.param(0.5, 4, 4, 2, id="half"),
    ],
)
def test_value_metric(value: float, ready: int, current: int, expected: int) -> None:
    assert value_metric(value, 1.0, ready, current) == expected


@pytest.mark.parametrize(
    ("total", "current", "expected"),
    [
        pytest.param(27.0, 8, 6, id="27 over 5 is 5.4"),
        pytest.param(41.0, 8, 8, id="41 over 40 is inside the tolerance"),
        pytest.param(0.0, 8, 0, id="nothing"),
        pytest.param(1.0, 0, 1, id="from zero"),
    ],
)
def test_average_metric(total: float, current: int, expected: int) -> None:
    assert average_metric(total, 5.0, current) == expected


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        pytest.param([3, 5], 5, id="the largest"),
        pytest.param([3, None], 4, id="one failed and the rest would shrink: hold"),
        pytest.param([6, None], 6, id="one failed and the rest would grow"),
        pytest.param([None, None], None, id="all failed"),
    ],
)
def test_combination(wants: list[int | None], expected: int | None) -> None:
    assert combine(wants, 4) == expected


def play(steps: list[tuple[float, int]], current: int, behaviour: Behaviour) -> list[int]:
    memory, path = Memory(), []
    for now, desired in steps:
        current, memory = behave(memory, "x", now, current, desired, behaviour)
        path.append(current)
    return path


@pytest.mark.parametrize(
    ("current", "desired", "expected"),
    [
        pytest.param(1, 50, 5, id="4 pods beat 100 % of 1"),
        pytest.param(10, 50, 20, id="100 % of 10 beats 4 pods"),
        pytest.param(3, 5, 5, id="inside both"),
    ],
)
def test_default_rate_up(current: int, desired: int, expected: int) -> None:
    assert play([(0.0, desired)], current, Behaviour()) == [expected]


def test_the_rate_counts_what_the_period_already_added() -> None:
    assert play([(0.0, 50), (5.0, 50), (15.0, 50), (30.0, 50)], 10, Behaviour()) == [20, 20, 40, 50]


def test_the_down_window_keeps_the_largest_recommendation_of_300_s() -> None:
    steps = [(0.0, 6), *((15.0 * i, 2) for i in range(1, 22))]
    path = play(steps, 6, Behaviour())
    assert path[19] == 6  # t = 285 s: the 6 of t = 0 is still inside
    assert path[20] == 2


def test_a_new_hpa_begins_with_what_is_there() -> None:
    path = play([(15.0 * i, 2) for i in range(22)], 6, Behaviour())
    assert path == [6] * 20 + [2, 2]


def test_the_up_window_waits_for_the_smallest_recommendation() -> None:
    window = Behaviour(up_window_s=30.0)
    assert play([(0.0, 2), (15.0, 6), (30.0, 5), (45.0, 5), (60.0, 5)], 2, window) == [2, 2, 5, 5, 5]


def test_down_policies_take_the_largest_change() -> None:
    slow = Behaviour(
        down_window_s=0.0, down=(RatePolicy(pods=1, period_s=60.0), RatePolicy(percent=10.0, period_s=60.0))
    )
    assert play([(0.0, 1), (30.0, 1), (60.0, 1)], 30, slow) == [27, 27, 24]
    nobody = Behaviour(down_window_s=0.0, down=(), up=())
    assert play([(0.0, 1), (1.0, 9)], 5, nobody) == [1, 9]
