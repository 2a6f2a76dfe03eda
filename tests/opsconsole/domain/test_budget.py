"""Weeks from minutes: sums of requests, ranges that stay ranges, and nothing where nothing was known."""

from __future__ import annotations

import pytest

from opsconsole.domain import budget
from opsconsole.domain.records import FleetSnapshot, Interval, PoolView, SloView

MOST = Interval(0.9, 0.9)


def minute(at: float, rate: float | None = 1.0, met: Interval | None = MOST, target: float = 0.95) -> FleetSnapshot:
    slo = SloView("chat", target=target, attainment=met)
    return FleetSnapshot(1, at, "f", "off", pools=(PoolView("p", request_rate=rate, slos=(slo,)),))


def test_a_busy_minute_weighs_more_than_a_quiet_one() -> None:
    minutes = [minute(0.0, 9.0, Interval(1.0, 1.0)), minute(60.0, 1.0, Interval(0.0, 0.0))]
    (view,) = budget.views(budget.together(map(budget.of_minute, minutes)), minutes[-1])
    assert (view.offered, view.met, view.minutes, view.since, view.until) == (600.0, Interval(0.9, 0.9), 2, 0.0, 60.0)
    assert view.left is not None and view.left.low == pytest.approx(-1.0)  # twice the 5 % that may miss


def test_a_range_stays_a_range() -> None:
    spent = budget.of_minute(minute(0.0, met=Interval(0.96, 0.98)))
    (view,) = budget.views(spent, minute(0.0))
    assert view.left is not None
    assert [view.left.low, view.left.high] == pytest.approx([0.2, 0.6])


@pytest.mark.parametrize("unknown", [minute(0.0, None), minute(0.0, 0.0), minute(0.0, met=None)])
def test_a_minute_of_which_nothing_is_known_counts_as_nothing(unknown: FleetSnapshot) -> None:
    assert budget.of_minute(unknown) == {}
    assert budget.views({}, unknown) == ()


def test_an_objective_that_may_never_miss_has_no_budget() -> None:
    (view,) = budget.views(budget.of_minute(minute(0.0)), minute(0.0, target=1.0))
    assert view.left is None and view.target == 1.0


def test_an_objective_that_is_gone_is_left_out() -> None:
    spent = budget.of_minute(minute(0.0))
    assert budget.views(spent, FleetSnapshot(1, 0.0, "f", "off", pools=(PoolView("other"),))) == ()
