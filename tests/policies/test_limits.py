"""Bounds in force, impossible limits, and which bound wins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policies.limits import bounds
from policies.situation import Limits, ScheduleWindow, Situation

Make = Callable[..., Situation]


@pytest.mark.parametrize(
    ("limits", "lag", "said"),
    [
        pytest.param(Limits(5, 3), 0.0, "minimum 5 is above maximum 3: raise maximum or lower minimum", id="min > max"),
        pytest.param(Limits(-1, 3), 0.0, "minimum -1 is below 0: set it to 0 or more", id="negative"),
        pytest.param(
            Limits(2, 9, budget=1), 0.0, "budget 1 is below minimum 2: raise budget or lower minimum", id="budget"
        ),
        pytest.param(Limits(step_up=0), 0.0, "step_up 0 can never move the pool", id="step up"),
        pytest.param(Limits(step_down=0), 0.0, "step_down 0 can never move the pool", id="step down"),
        pytest.param(Limits(drains_at_once=0), 0.0, "drains_at_once 0 can never drain", id="drains"),
        pytest.param(Limits(stabilise_up_s=-1), 0.0, "stabilise_up -1 s is negative", id="negative window"),
        pytest.param(
            Limits(stabilise_down_s=10), 60.0, "stabilise_down 10 s is shorter than the measurement lag 60 s", id="lag"
        ),
        pytest.param(Limits(1, to_zero_after_s=5), 0.0, "to_zero_after is set but minimum is 1", id="zero"),
    ],
)
def test_impossible_limits_are_named_with_their_numbers(limits: Limits, lag: float, said: str) -> None:
    assert any(problem.startswith(said) for problem in limits.problems(lag))


def test_possible_limits_have_no_problems() -> None:
    assert Limits().problems(60.0) == ()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({"limits": Limits(1, 9)}, (1, 9), id="the operator's"),
        pytest.param({"limits": Limits(1, 9, budget=4)}, (1, 4), id="a budget"),
        pytest.param({"limits": Limits(1, 9), "pinned_minimum": 4}, (4, 9), id="a pin"),
        pytest.param({"limits": Limits(1, 9), "pinned_minimum": 40}, (9, 9), id="a pin above the maximum"),
        pytest.param({"limits": Limits(1, 9, budget=2), "pinned_minimum": 4}, (4, 4), id="a pin wins over a budget"),
        pytest.param(
            {"limits": Limits(1, 9), "schedule": (ScheduleWindow(900, 1100, 3, 5),)}, (3, 5), id="a schedule in force"
        ),
        pytest.param(
            {"limits": Limits(1, 9), "schedule": (ScheduleWindow(1001, 1100, 3, 5),)}, (1, 9), id="a later schedule"
        ),
        pytest.param(
            {"limits": Limits(1, 9), "schedule": (ScheduleWindow(0, 2000, 3), ScheduleWindow(0, 2000, 6))},
            (6, 9),
            id="the larger of two minima",
        ),
    ],
)
def test_bounds_in_force(situation: Make, facts: dict[str, object], expected: tuple[int, int]) -> None:
    found = bounds(situation(2, **facts))
    assert (found.minimum, found.maximum) == expected
