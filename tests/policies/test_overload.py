"""What proved too much is not tried again within the hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies import overload
from policies.compose import decide, picture_of
from policies.memory import Memory
from policies.situation import Demand, Situation

Make = Callable[..., Situation]


@pytest.mark.parametrize(
    ("demand", "held", "noted"),
    [
        pytest.param(Demand(request_rate=6.0, waiting_growth=1.0), 30.0, 2.0, id="a growing queue"),
        pytest.param(Demand(request_rate=6.0, waiting_growth=1.0), 20.0, None, id="not for long"),
        pytest.param(Demand(request_rate=6.0, waiting_growth=-1.0), 90.0, None, id="a queue being worked off"),
        pytest.param(Demand(request_rate=6.0), 90.0, None, id="growth unknown"),
        pytest.param(Demand(waiting_growth=1.0), 90.0, None, id="demand unknown"),
    ],
)
def test_what_is_noted(situation: Make, demand: Demand, held: float, noted: float | None) -> None:
    memory = overload.remember(picture_of(situation(3, demand=demand), Memory()), held, Memory())
    assert overload.least(memory, 1000.0) == noted


def test_it_is_noted_once_a_minute_or_when_it_is_less(situation: Make) -> None:
    memory = Memory()
    for now, rate in ((0.0, 6.0), (10.0, 9.0), (20.0, 3.0), (90.0, 6.0)):
        scene = situation(3, now=now, demand=Demand(request_rate=rate, waiting_growth=1.0))
        memory = overload.remember(picture_of(scene, memory), 60.0, memory)
    assert memory.series(overload.SERIES) == ((0.0, 2.0), (20.0, 1.0), (90.0, 2.0))


def test_it_is_forgotten_after_an_hour() -> None:
    memory = Memory(rows={overload.SERIES: ((0.0, 1.0), (1800.0, 2.0))})
    assert [overload.least(memory, t) for t in (3600.0, 3601.0, 5401.0)] == [1.0, 2.0, None]


def test_a_shrink_back_into_it_is_refused_in_words(situation: Make) -> None:
    memory = Memory(rows={overload.SERIES: ((900.0, 1.1),)})
    scene = situation(6, demand=Demand(request_rate=5.5))
    decision, _ = decide(scene, memory)
    assert decision.reason.endswith(
        "demand would be 1.1 requests/s a replica on 5, and 1.1 was too much within the hour"
    )
    calm, _ = decide(replace(scene, demand=Demand(request_rate=2.0)), memory)
    assert "would carry the load of 6" in calm.reason
