"""The forecast floor: bought one lead ahead, kept while it will be needed, never a reason to shrink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import policy
from policies.compose import picture_of
from policies.decision import Verdict
from policies.memory import Memory
from policies.outlook import at, is_sound, path
from policies.predictive import forecast_floor
from policies.situation import (
    CapacityFacts,
    Demand,
    Limits,
    Outlook,
    ReplicaFacts,
    ScheduleWindow,
    Situation,
    Thresholds,
    Tier,
)

Make = Callable[..., Situation]
CAPACITY = CapacityFacts(request_rate=2.0, prompt_rate=1000.0, output_rate=500.0)


def steps(*values: float, unit: str = "requests/s") -> Outlook:
    """One value every minute, the same at every level but the top one, which is a fifth higher."""
    leads = tuple(60.0 * (i + 1) for i in range(len(values)))
    return Outlook(leads, (0.5, 0.9, 0.99), tuple((v, v, 1.2 * v) for v in values), unit, "mix")


@pytest.mark.parametrize(
    ("lead", "level", "expected"),
    [
        pytest.param(60.0, 0.5, 10.0, id="a given point"),
        pytest.param(90.0, 0.5, 15.0, id="between leads"),
        pytest.param(60.0, 0.945, 11.0, id="between levels"),
        pytest.param(0.0, 0.5, 10.0, id="before the first lead"),
        pytest.param(9e9, 0.5, 20.0, id="after the last lead nothing is extrapolated"),
        pytest.param(60.0, 0.1, 10.0, id="below the lowest level"),
        pytest.param(60.0, 0.9999, 12.0, id="above the highest level"),
    ],
)
def test_reading_a_forecast(lead: float, level: float, expected: float) -> None:
    assert at(steps(10.0, 20.0), lead, level) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "first", "last", "expected"),
    [
        pytest.param(0.0, 0.0, 180.0, 30.0, id="a peak inside"),
        pytest.param(0.0, 0.0, 90.0, 20.0, id="the end of the span"),
        pytest.param(0.0, 150.0, 170.0, 20.0, id="the start of the span"),
        pytest.param(60.0, 60.0, 75.0, 30.0, id="an instant's own step ends later"),
        pytest.param(60.0, 0.0, 30.0, 20.0, id="within a step what follows counts as far as the span reaches into it"),
        pytest.param(60.0, 180.0, 240.0, 10.0, id="what is over does not count"),
    ],
)
def test_the_highest_over_a_span(step: float, first: float, last: float, expected: float) -> None:
    found = path(replace(steps(10.0, 30.0, 10.0), step_s=step), 0.5)
    assert found is not None and found.highest(first, last) == pytest.approx(expected)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Outlook((), (), (), "requests/s", "m"), id="empty"),
        pytest.param(Outlook((60.0,), (0.5,), ((-1.0,),), "requests/s", "m"), id="negative"),
        pytest.param(Outlook((60.0,), (0.5,), ((float("nan"),),), "requests/s", "m"), id="NaN"),
        pytest.param(Outlook((60.0, 60.0), (0.5,), ((1.0,), (1.0,)), "requests/s", "m"), id="leads do not ascend"),
        pytest.param(Outlook((60.0,), (0.5, 0.9), ((1.0,),), "requests/s", "m"), id="a level is missing"),
        pytest.param(Outlook((60.0, 120.0), (0.5,), ((1.0,),), "requests/s", "m"), id="a lead is missing"),
    ],
)
def test_a_broken_forecast_is_no_forecast(situation: Make, broken: Outlook) -> None:
    assert not is_sound(broken)
    assert at(broken, 60.0, 0.5) is None
    assert path(broken, 0.5) is None
    scene = situation(2, outlooks={"requests/s": broken}, capacity=CAPACITY)
    result, _ = forecast_floor(picture_of(scene, Memory()), Memory())
    assert (result.wants, result.verdict) == (None, Verdict.UNKNOWN)


def floor(scene: Situation) -> tuple[int | None, str]:
    result, _ = forecast_floor(picture_of(scene, Memory()), Memory())
    return result.wants, result.text


@pytest.mark.parametrize(
    ("values", "want", "wants"),
    [
        pytest.param((2.0, 2.0, 9.0, 9.0, 9.0), 1, 5, id="needed one lead ahead: buy"),
        pytest.param((9.0, 2.0, 2.0, 2.0, 2.0), 1, 1, id="needed before a start could help: do not buy"),
        pytest.param((9.0, 2.0, 2.0, 2.0, 2.0), 4, 4, id="... but keep what is there"),
        pytest.param((2.0, 2.0, 2.0, 2.0, 9.0), 4, 4, id="needed within two leads: keep"),
        pytest.param((2.0, 2.0, 2.0, 2.0, 2.0), 4, 1, id="not needed: no floor"),
    ],
)
def test_what_is_bought_and_what_is_kept(situation: Make, values: tuple[float, ...], want: int, wants: int) -> None:
    scene = situation(
        want, outlooks={"requests/s": steps(*values)}, capacity=CAPACITY, lead_s=170.0, lead_assumed=False
    )
    assert floor(scene)[0] == wants


def test_a_burst_that_begins_as_a_replica_would_serve_is_bought_for_in_full(situation: Make) -> None:
    burst = replace(steps(2.0, 2.0, 9.0, 9.0), step_s=60.0)  # from the third minute on
    scene = situation(1, outlooks={"requests/s": burst}, capacity=CAPACITY, lead_s=120.0, lead_assumed=False)
    assert floor(scene)[0] == 5
    sooner = replace(scene, lead_s=60.0)
    assert (floor(sooner)[0] or 0) < 5, "there is time to start in the next minute"


def test_the_scarcest_measure_counts(situation: Make) -> None:
    outlooks = {
        "requests/s": steps(4.0, 4.0),
        "prompt tokens/s": steps(3000.0, 3000.0, unit="prompt tokens/s"),
        "output tokens/s": steps(2600.0, 2600.0, unit="output tokens/s"),
    }
    scene = situation(1, outlooks=outlooks, capacity=CAPACITY, lead_s=60.0)
    assert floor(scene)[0] == 6
    assert floor(replace(scene, role="prefill"))[0] == 3
    assert floor(replace(scene, role="decode"))[0] == 6


@pytest.mark.parametrize(
    ("values", "tiers", "wants"),
    [
        pytest.param((2.0, 2.0, 9.0, 9.0), (), 5, id="a plain start"),
        pytest.param((2.0, 2.0, 9.0, 9.0), (Tier("asleep", 20.0, 2),), 3, id="two could still wake later"),
        pytest.param((9.0, 9.0, 9.0, 9.0), (Tier("asleep", 60.0, 9),), 5, id="needed soon: the fast tier starts now"),
        pytest.param((2.0, 2.0, 9.0, 9.0), (Tier("slow", 900.0, 9),), 5, id="a tier slower than a start is none"),
    ],
)
def test_faster_tiers_are_waited_for(
    situation: Make, values: tuple[float, ...], tiers: tuple[Tier, ...], wants: int
) -> None:
    scene = situation(
        1, outlooks={"requests/s": steps(*values)}, capacity=CAPACITY, lead_s=170.0, lead_assumed=False, tiers=tiers
    )
    assert floor(scene)[0] == wants


def test_a_higher_quantile_buys_more_and_unsure_capacity_counts_low(situation: Make) -> None:
    scene = situation(1, outlooks={"requests/s": steps(10.0, 10.0)}, capacity=CAPACITY, lead_s=60.0)
    assert floor(scene)[0] == 5
    assert floor(replace(scene, thresholds=Thresholds(quantile=0.99)))[0] == 6
    assert floor(replace(scene, capacity=replace(CAPACITY, low=0.8)))[0] == 7


def test_the_sentence_has_lead_quantile_model_and_replicas(situation: Make) -> None:
    scene = situation(4, outlooks={"requests/s": steps(9.0, 9.0, 4.0, 4.0)}, capacity=CAPACITY, lead_s=180.0)
    assert floor(scene)[1] == (
        "forecast 90 % quantile in 180 s (assumed) is 4 requests/s (mix), 2 replicas' worth, wants 2; "
        "4.5 replicas' worth within 360 s keeps 4"
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param({}, "no forecast", id="none"),
        pytest.param(
            {"outlooks": {"requests/s": steps(1.0)}},
            "a forecast is there, but the capacity of a replica is not known yet",
            id="no capacity",
        ),
        pytest.param(
            {"outlooks": {"pages/s": steps(1.0)}, "capacity": CAPACITY}, "no forecast fits a known capacity", id="unit"
        ),
    ],
)
def test_without_the_facts_it_says_what_is_missing(situation: Make, facts: dict[str, object], said: str) -> None:
    assert floor(situation(2, **facts)) == (None, said)


def settled(scene: Situation, ticks: int = 12) -> list[int]:
    law, memory, targets = policy("predictive"), Memory(), []
    for tick in range(ticks):
        decision, memory = law.decide(replace(scene, now=scene.now + 10.0 * tick), memory)
        targets.append(decision.target)
    return targets


def test_a_low_forecast_never_lowers_what_the_load_needs(situation: Make) -> None:
    busy = situation(2, each={"waiting": 20.0}, outlooks={"requests/s": steps(0.0, 0.0)}, capacity=None)
    assert settled(busy, 1) == [4]


def test_a_forecast_holds_up_what_the_calm_moment_would_give_back(situation: Make) -> None:
    calm = situation(4, demand=Demand(request_rate=1.0), capacity=CAPACITY, lead_s=120.0)
    rising = replace(calm, outlooks={"requests/s": steps(1.0, 1.0, 7.0)})
    assert settled(calm)[-1] == 3
    assert settled(rising)[-1] == 4


def test_a_window_that_begins_within_the_lead_is_prepared(situation: Make) -> None:
    window = ScheduleWindow(start=1100.0, end=2000.0, minimum=5, note="launch")
    scene = situation(2, schedule=(window,), lead_s=120.0, lead_assumed=False)
    decision, _ = policy("predictive").decide(scene, Memory())
    assert (decision.target, decision.reason) == (5, "schedule launch begins in 100 s, lead 120 s, wants 5")
    early, _ = policy("predictive").decide(replace(scene, now=900.0), Memory())
    assert early.target == 2


def test_knobs_of_our_laws_turn_the_thresholds(situation: Make) -> None:
    scene = situation(1, outlooks={"requests/s": steps(10.0, 10.0)}, capacity=CAPACITY, lead_s=60.0)
    bold, _ = policy("predictive", quantile=0.99).decide(scene, Memory())
    plain, _ = policy("predictive").decide(scene, Memory())
    assert (plain.target, bold.target) == (5, 6)


rates = st.lists(st.floats(0.0, 60.0), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(rates, st.lists(st.floats(0.0, 30.0), min_size=6, max_size=6), st.integers(1, 8), st.floats(30.0, 400.0))
def test_more_predicted_load_never_gives_fewer_replicas(
    base: list[float], extra: list[float], want: int, lead: float
) -> None:
    members = tuple(
        ReplicaFacts(f"r{i}", "ok", waiting=0.0, running=1.0, kv_usage=0.1, preempt_rate=0.0) for i in range(want)
    )
    more = [b + e for b, e in zip(base, extra, strict=False)]
    targets = []
    for values in (base, more):
        scene = Situation(
            now=0.0,
            pool="p",
            model=None,
            want=want,
            replicas=members,
            demand=Demand(request_rate=1.0),
            capacity=CAPACITY,
            limits=Limits(1, 12, stabilise_down_s=20.0),
            lead_s=lead,
            outlooks={"requests/s": steps(*values)},
            covered=True,
            interval_s=10.0,
        )
        targets.append(settled(scene, 6))
    assert all(b >= a for a, b in zip(*targets, strict=True))
