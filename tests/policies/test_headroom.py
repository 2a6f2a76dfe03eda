"""Times the forecast that is bought because the fleet misses more than any of its levels explains."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import headroom
from policies.compose import picture_of
from policies.headroom import AIM, FALL, GAIN, MOST, SERIES
from policies.hindsight import LEVEL
from policies.memory import Memory
from policies.picture import Picture
from policies.predictive import forecast_floor
from policies.situation import CapacityFacts, Demand, Limits, Outlook, Situation, SloFacts, Thresholds

Make = Callable[..., Situation]
TARGET = 0.99
AIMED = AIM * (1.0 - TARGET)
LEVELS = (0.5, 0.9, 0.99, 0.995)
FORECAST = Outlook((60.0, 600.0), LEVELS, ((2.0, 3.0, 4.0, 4.2),) * 2, "requests/s", "mix")


def seen(situation: Make, attained: float | None, target: float | None = TARGET, **facts: object) -> Picture:
    slo = SloFacts(target=target, attainment_low=attained, attainment_high=attained, ttft=1.0)
    plain: dict[str, object] = {"lead_s": 60.0, "lead_assumed": False, "capacity": CapacityFacts(request_rate=1.0)}
    return picture_of(situation(4, **{**plain, "slo": slo, **facts}), Memory())


def told(memory: Memory, *steps: Picture, leads: float = 0.2, weight: float = 1.0, spent: bool = True) -> Memory:
    for picture in steps:
        memory = headroom.learn(picture, memory, leads, weight, spent)
    return memory


@pytest.mark.parametrize(
    ("attained", "leads", "weight", "spent", "times"),
    [
        pytest.param(0.5, 1.0, 1.0, True, 1.0 + GAIN * (0.5 - AIMED), id="what is missed raises it"),
        pytest.param(0.5, 0.2, 1.0, True, 1.0 + 0.2 * GAIN * (0.5 - AIMED), id="by the time it lasted"),
        pytest.param(0.5, 1.0, 3.0, True, 1.0 + 3 * GAIN * (0.5 - AIMED), id="and by the requests it hit"),
        pytest.param(0.5, 1.0, 1.0, False, 1.0, id="not while a higher level of the forecast is left"),
        pytest.param(1.0, 1.0, 1.0, True, 1.0, id="never below the forecast"),
        pytest.param(0.0, 99.0, 1.0, True, MOST, id="never beyond the most: an outage is no burst"),
        pytest.param(None, 1.0, 1.0, True, 1.0, id="an unknown attainment says nothing"),
    ],
)
def test_one_stretch_moves_it(
    situation: Make, attained: float | None, leads: float, weight: float, spent: bool, times: float
) -> None:
    memory = told(Memory(), seen(situation, attained), leads=leads, weight=weight, spent=spent)
    assert headroom.in_force(memory) == pytest.approx(times, abs=1e-5)


def test_it_comes_down_more_slowly_and_is_forgotten_at_one(situation: Make) -> None:
    high = told(Memory(), seen(situation, 0.5), leads=1.0)
    lower = told(high, seen(situation, 1.0), leads=1.0, spent=False)
    assert headroom.in_force(high) - headroom.in_force(lower) == pytest.approx(FALL * GAIN * AIMED, abs=1e-5)
    gone = told(high, *[seen(situation, 1.0)] * 200, leads=1.0)
    assert gone == Memory()


def test_without_a_target_nothing_is_learned(situation: Make) -> None:
    assert told(Memory(), seen(situation, 0.5, target=None), leads=9.0) == Memory()


def test_where_no_number_of_replicas_can_meet_the_slo_none_are_bought_for_it(situation: Make) -> None:
    slow = CapacityFacts(request_rate=1.0, idle_ttft=3.0)
    assert told(Memory(), seen(situation, 0.0, capacity=slow), leads=9.0) == Memory()


@given(seed=st.integers(0, 10**6), noise=st.floats(1.2, 2.2))
@settings(max_examples=20, deadline=None)
def test_bursts_within_a_step_are_met_to_the_target_whatever_their_size(seed: int, noise: float) -> None:
    """The miss itself is fed back, so no shape of the bursts is assumed."""
    draw, memory, met, count = random.Random(seed), Memory(), 0, 0
    for step in range(6000):
        inside = draw.uniform(0.0, noise) <= headroom.in_force(memory)
        memory = told(memory, seen(_plain, float(inside)), leads=0.2)
        if step >= 3000:
            met, count = met + inside, count + 1
    assert met / count >= TARGET - 0.002


def _plain(want: int, **facts: object) -> Situation:
    plain = Situation(now=1000.0, pool="p", model="m", want=want, replicas=(), limits=Limits(1, 100))
    return replace(plain, **facts)  # type: ignore[arg-type]


def floor(situation: Make, memory: Memory, **facts: object) -> tuple[int | None, str]:
    scene = situation(
        4, capacity=CapacityFacts(request_rate=1.0), lead_s=60.0, lead_assumed=False, slo=SloFacts(target=TARGET),
        outlooks={"requests/s": FORECAST}, demand=Demand(request_rate=2.0), **facts,
    )  # fmt: skip
    result, _ = forecast_floor(picture_of(scene, memory), memory)
    return result.wants, result.text


def test_the_forecast_s_floor_is_raised_by_it_and_says_so(situation: Make) -> None:
    memory = Memory().with_rows(SERIES, ((1000.0, 1.5),))
    assert floor(situation, Memory())[0] == 4
    wants, text = floor(situation, memory)
    assert wants == 6
    assert text.endswith("1.5 times that is bought, for more was missed than the target allows")


def test_an_operator_s_quantile_is_bought_as_it_is(situation: Make) -> None:
    memory = Memory().with_rows(SERIES, ((1000.0, 1.5),))
    assert floor(situation, memory, thresholds=Thresholds(quantile=0.99))[0] == 4


def test_what_the_levels_would_have_bought_is_reckoned_without_it(situation: Make) -> None:
    def asked(memory: Memory) -> tuple[tuple[float, ...], ...]:
        scene = situation(
            4, capacity=CapacityFacts(request_rate=1.0), lead_s=60.0, lead_assumed=False, slo=SloFacts(target=TARGET),
            outlooks={"requests/s": FORECAST}, demand=Demand(request_rate=2.0),
        )  # fmt: skip
        _, after = forecast_floor(picture_of(scene, memory), memory)
        assert after.series(LEVEL)
        return after.series("level-wanted")

    assert asked(Memory().with_rows(SERIES, ((1000.0, 2.0),))) == asked(Memory())
