"""A forecast of the past is the one the decision was made from."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.control.past_forecast import forecasts_then
from opsconsole.domain.records import DecisionView
from opsconsole.domain.wire import to_json
from opsconsole.history.reader import PastDecision
from policies.situation import Outlook


def decided(situation: Any) -> PastDecision:
    return PastDecision(100.0, 7, DecisionView(100.0, "chat", 1, 2, "forecast", "more comes"), situation, None, {})


def outlook(unit: str) -> Outlook:
    return Outlook((60.0, 120.0), (0.5, 0.9), ((1.0, 2.0), (3.0, 4.0)), unit, "ets")


def test_the_units_come_in_the_order_of_the_present_ones() -> None:
    kept = {unit: to_json(outlook(unit)) for unit in ("output tokens/s", "requests/s")}
    first, second = forecasts_then([decided({"outlooks": kept})])
    assert (first.unit, second.unit) == ("requests/s", "output tokens/s")
    assert (first.pool, first.made_at, first.model, first.leads) == ("chat", 100.0, "ets", (60.0, 120.0))
    assert first.quantiles == ((1.0, 2.0), (3.0, 4.0)) and first.record == ()


@pytest.mark.parametrize("situation", [None, "old", {}, {"outlooks": None}, {"outlooks": {"x": 3}},
                                       {"outlooks": {"x": {"leads": "soon"}}}])  # fmt: skip
def test_what_was_not_kept_or_cannot_be_read_is_no_forecast(situation: Any) -> None:
    assert forecasts_then([decided(situation)]) == ()
