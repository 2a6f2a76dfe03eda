"""What a lead costs: the supply a forecast asks for at it and at shorter ones, averaged over decisions."""

from __future__ import annotations

import pytest

from opsconsole.control.deciding import Decided
from opsconsole.control.lead_price import MEMORY_S, LeadBook
from opsconsole.domain.records import CapacityView, DecisionView, LeadNeed
from policies.situation import Limits, Outlook, Situation

LEVELS = {"chat": 0.9}
CAPACITY = CapacityView(request_rate=5.0, low=0.5)
LIMITS = Limits(1, 100)
RISING = Outlook((60.0, 120.0, 240.0), (0.5, 0.9), ((9.0, 10.0), (9.0, 20.0), (9.0, 40.0)), "requests/s", "m")


def decided(
    now: float,
    outlook: Outlook | None = RISING,
    capacity: CapacityView | None = CAPACITY,
    lead: float | None = 120.0,
    limits: Limits = LIMITS,
) -> Decided:
    outlooks = {} if outlook is None else {outlook.unit: outlook}
    situation = Situation(now, "chat", "m", 3, (), outlooks=outlooks, limits=limits, interval_s=20.0)
    return Decided(situation, DecisionView(now, "chat", 3, 3, "", "", capacity=capacity, lead=lead), {})


def noted(*items: Decided) -> tuple[LeadNeed, ...]:
    book = LeadBook()
    for item in items:
        book.note([item], LEVELS)
    return book.told("chat")


def test_each_lead_holds_the_most_of_the_level_within_two_of_it() -> None:
    told = noted(decided(0.0), decided(15.0))
    # At 2.5 requests/s a replica: 10 up to 60 s, 20 at 120 s, 40 at 240 s; starts of 0, 25, 50, 75 and 100 s.
    assert [need.lead for need in told] == [20.0, 45.0, 70.0, 95.0, 120.0]
    assert [need.replicas for need in told] == pytest.approx([4.0, 6.0, 9.333, 12.667, 16.0])


def test_means_are_over_time_and_a_day_is_remembered() -> None:
    low = Outlook((60.0, 240.0), (0.5, 0.9), ((1.0, 10.0), (1.0, 10.0)), "requests/s", "m")
    assert noted(decided(0.0), decided(30.0), decided(60.0, low))[-1].replicas == pytest.approx(10.0)
    assert noted(decided(0.0), decided(10.0), decided(9000.0, low))[-1].replicas == pytest.approx(5.714, abs=1e-3)
    days = noted(*(decided(60.0 * i, RISING if i < 1440 else low) for i in range(6 * 1440)))
    assert days[-1].replicas == pytest.approx(4.0 + 12.0 * (1 - 60.0 / MEMORY_S) ** (5 * 1440), abs=1e-3)


def test_the_bounds_of_the_pool_hold_whatever_the_lead() -> None:
    told = noted(*(decided(at, limits=Limits(8, 10)) for at in (0.0, 15.0)))
    assert [need.replicas for need in told] == pytest.approx([8.0, 8.0, 9.333, 10.0, 10.0])


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param({"outlook": None}, id="no forecast"),
        pytest.param({"capacity": None}, id="no capacity"),
        pytest.param({"capacity": CapacityView(prompt_rate=5.0)}, id="another unit's capacity"),
        pytest.param({"lead": None}, id="no lead"),
        pytest.param({"lead": 20.0}, id="no start within the lead"),
    ],
)
def test_what_is_unknown_is_not_averaged(unknown: dict[str, object]) -> None:
    assert noted(decided(0.0, **unknown), decided(15.0, **unknown)) == ()  # type: ignore[arg-type]


def test_one_decision_is_no_average_yet() -> None:
    assert noted(decided(0.0)) == ()
