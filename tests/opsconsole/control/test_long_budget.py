"""The month's sums are read a day at a time, kept up with, and lose what has grown too old."""

from __future__ import annotations

from collections.abc import Iterator

from opsconsole.control.long_budget import LongBudget
from opsconsole.domain.budget import DAY_S, MONTH_S
from opsconsole.domain.records import FleetSnapshot, Interval, PoolView, SloView
from opsconsole.history.reader import Bounds

HOUR_S = 3600.0


def hour(at: float) -> FleetSnapshot:
    slo = SloView("chat", target=0.9, attainment=Interval(0.95, 0.95))
    return FleetSnapshot(1, at, "f", "off", pools=(PoolView("p", request_rate=1.0, slos=(slo,)),))


class Minutes:
    """A reader's two questions, over one line an hour."""

    def __init__(self, first: float) -> None:
        self.first = first
        self.asked: list[tuple[float, float]] = []

    def bounds(self) -> Bounds:
        return Bounds(self.first, self.first + 365 * DAY_S)

    def totals(self, since: float, until: float) -> Iterator[FleetSnapshot]:
        self.asked.append((since, until))
        at = self.first
        while at < until:
            if at >= since:
                yield hour(at)
            at += HOUR_S


def caught_up(budget: LongBudget, reader: Minutes, now: float) -> int:
    steps = 1
    while not budget.catch_up(reader, now):  # type: ignore[arg-type]
        steps += 1
    return steps


def test_a_month_is_read_a_day_at_a_time_and_only_once() -> None:
    budget, reader = LongBudget(), Minutes(0.0)
    now = 3 * DAY_S + 60
    assert caught_up(budget, reader, now) == 4
    (view,) = budget.views(hour(now))
    assert (view.minutes, view.since, view.until) == (73, 0.0, now)
    assert caught_up(budget, reader, now + HOUR_S) == 1
    assert reader.asked[-1] == (now, now + HOUR_S)
    assert budget.views(hour(now + HOUR_S))[0].minutes == 74


def test_what_is_older_than_a_month_is_forgotten() -> None:
    budget, reader = LongBudget(), Minutes(0.0)
    caught_up(budget, reader, 2 * DAY_S)
    caught_up(budget, reader, MONTH_S + DAY_S)
    (view,) = budget.views(hour(MONTH_S + DAY_S))
    assert (view.since, view.minutes) == (DAY_S, 30 * 24)


def test_a_long_past_begins_a_month_ago() -> None:
    budget, reader = LongBudget(), Minutes(0.0)
    caught_up(budget, reader, 40 * DAY_S)
    assert reader.asked[0] == (10 * DAY_S, 11 * DAY_S)
    assert budget.views(hour(40 * DAY_S))[0].since == 10 * DAY_S
