"""Replicas' worth of a demand: by the largest ratio, or both together where shares are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from policies import policy
from policies.capacity import facts, key
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, Outlook, Situation
from policies.worth import Rates, prompt_share, worth

PLAIN = CapacityFacts(request_rate=10.0, prompt_rate=8000.0, output_rate=1000.0)
SHARED = replace(PLAIN, prompt_share=0.75)


@pytest.mark.parametrize(
    ("rates", "capacity", "role", "wanted"),
    [
        pytest.param(Rates(20.0, 16000.0, 4000.0), PLAIN, None, 4.0, id="largest ratio: answers 4000 / 1000"),
        pytest.param(Rates(20.0, 16000.0, 4000.0), SHARED, None, 2.5, id="together: 0.75 x 2 + 0.25 x 4"),
        pytest.param(Rates(20.0, None, 4000.0), SHARED, None, 4.0, id="prompts unknown: the largest of what is known"),
        pytest.param(Rates(20.0, 16000.0, 4000.0), SHARED, "prefill", 2.0, id="a prefill pool does not write"),
        pytest.param(Rates(20.0, 16000.0, 4000.0), SHARED, "decode", 4.0, id="a decode pool does not read"),
        pytest.param(Rates(None, None, None), SHARED, None, None, id="nothing known"),
        pytest.param(Rates(20.0, 1.0, 1.0), CapacityFacts(), None, None, id="no capacity known"),
    ],
)
def test_worth(rates: Rates, capacity: CapacityFacts, role: str | None, wanted: float | None) -> None:
    assert worth(rates, capacity, role) == (None if wanted is None else pytest.approx(wanted))


def test_more_of_any_rate_is_never_worth_less() -> None:
    values = (0.0, 500.0, 5000.0)
    for capacity, low in product((PLAIN, SHARED), product(values, values, values)):
        for i in range(3):
            more = list(low)
            more[i] += 300.0
            before, after = worth(Rates(*low), capacity), worth(Rates(*more), capacity)
            assert before is not None
            assert after is not None
            assert after >= before


def _outlook(unit: str, value: float) -> Outlook:
    return Outlook((60.0, 600.0), (0.5, 0.9), ((value, value), (value, value)), unit, "test")


def test_the_forecast_floor_adds_prompts_and_answers_up(situation: object) -> None:
    """Prompts 2 and answers 4 replicas' worth: 3 replicas where they take 75 and 25 % of the time, else 4."""
    outlooks = {
        "prompt tokens/s": _outlook("prompt tokens/s", 16000.0),
        "output tokens/s": _outlook("output tokens/s", 4000.0),
    }
    for capacity, wanted in ((PLAIN, 4), (SHARED, 3)):
        made: Situation = situation(1, capacity=capacity, outlooks=outlooks, demand=Demand())  # type: ignore[operator]
        decision, _ = policy("predictive").decide(made, Memory())
        floor = next(rule for rule in decision.rules if rule.rule == "forecast")
        assert floor.wants == wanted


def test_a_minute_at_the_limit_corrects_the_given_capacity_by_one_factor(situation: object) -> None:
    """9600 prompt and 2000 output tokens/s at the limit: 0.75 x 1.2 + 0.25 x 2 = 1.4, 85 % of it 1.19."""
    made: Situation = situation(2, capacity=SHARED)  # type: ignore[operator]
    name = key(made.pool, made.model, made.kind, "full")
    memory = Memory().push(name, (900.0, 5.0, 9600.0, 2000.0), keep_s=1e9)
    learned = facts(made, memory)
    assert learned is not None
    assert learned.source == "learned"
    assert learned.request_rate == pytest.approx(11.9)
    assert learned.prompt_rate == pytest.approx(9520.0)
    assert learned.prompt_share == 0.75


FULL = (Rates(None, 9000.0, 500.0), Rates(None, 4000.0, 2000.0))  # both a replica at its limit


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        pytest.param((), 8000 / (8000 + 2.3 * 1000), id="nothing seen: by what tokens cost elsewhere"),
        pytest.param((Rates(None, 8000.0, 1000.0),), 8000 / 10300, id="the same mix says nothing of the shares"),
        pytest.param(
            FULL * 20,
            (8000 / 10300 + 20 * (0.625 * 0.5 + 1.5 * 1.0)) / (1 + 20 * (0.625**2 + 1.5**2)),
            id="9/8 of prompts with 1/2 of answers, and 1/2 with 2, each a full replica",
        ),
    ],
)
def test_the_share_of_prompts_is_what_replicas_at_their_limit_say(limits: tuple[Rates, ...], wanted: float) -> None:
    """Least squares of share x prompts + (1 - share) x answers = 1, one row's weight on what is usual."""
    assert prompt_share(8000.0, 1000.0, limits) == pytest.approx(wanted)


def test_a_share_of_nothing_is_unknown() -> None:
    assert prompt_share(0.0, 1000.0) is None
    assert prompt_share(1000.0, 0.0) is None


def test_what_is_learned_at_the_limit_knows_the_share(situation: object) -> None:
    made: Situation = situation(2)  # type: ignore[operator]
    name = key(made.pool, made.model, made.kind, "full")
    learned = facts(made, Memory().push(name, (900.0, 10.0, 8000.0, 1000.0), keep_s=1e9))
    assert learned is not None
    assert learned.prompt_share == pytest.approx(8000 / 10300)
