"""Joint budgets: minimums first, then in proportion, and never over the budget on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import policy
from policies.memory import Memory
from policies.pools import Claim, apportion, decide_together, within
from policies.situation import Limits, Situation

Make = Callable[..., Situation]


@pytest.mark.parametrize(
    ("claims", "budget", "targets"),
    [
        pytest.param([Claim("p", 1, 2), Claim("d", 1, 3)], 8, [2, 3], id="enough for all"),
        pytest.param([Claim("p", 2, 6), Claim("d", 2, 6)], 8, [4, 4], id="halves"),
        pytest.param([Claim("p", 1, 3), Claim("d", 1, 9)], 8, [2, 6], id="in proportion"),
        pytest.param([Claim("p", 1, 9, minimum=1), Claim("d", 1, 1, minimum=1)], 4, [3, 1], id="minimums first"),
        pytest.param([Claim("p", 0, 2, gpus=4), Claim("d", 0, 4, gpus=2)], 8, [1, 2], id="replicas of several GPUs"),
        pytest.param([Claim("p", 4, 4), Claim("d", 4, 8)], 8, [3, 4], id="shrink first: the grower waits"),
        pytest.param([Claim("p", 3, 3), Claim("d", 4, 8)], 8, [2, 5], id="... and takes what is free meanwhile"),
        pytest.param(
            [Claim("p", 2, 5, minimum=3), Claim("d", 2, 5, minimum=3)], 4, [2, 2], id="a budget below minimums"
        ),
        pytest.param([Claim("p", 3, 3, minimum=3), Claim("d", 3, 3, minimum=3)], 4, [3, 3], id="... and all at theirs"),
        pytest.param([Claim("p", 2, 2, standing=3), Claim("d", 4, 8)], 8, [2, 5], id="one on its way out is not free"),
        pytest.param([Claim("p", 2, 6, ordered=6), Claim("d", 2, 6)], 8, [6, 2], id="what is ordered before the rest"),
        pytest.param([Claim("p", 0, 9, ordered=9), Claim("d", 0, 3, ordered=3)], 4, [3, 1], id="orders in proportion"),
        pytest.param([], 8, [], id="nobody"),
    ],
)
def test_apportioning(claims: list[Claim], budget: int, targets: list[int]) -> None:
    assert [g.target for g in apportion(claims, budget)] == targets


def test_grants_say_why() -> None:
    said = {g.pool: g.text for g in apportion([Claim("p", 4, 4), Claim("d", 4, 8)], 8)}
    assert said == {
        "p": "wants 4, its share of 8 GPUs is 3 replicas",
        "d": "wants 8, gets 4 now and 5 once other pools have given back (8 GPUs)",
    }
    assert apportion([Claim("p", 1, 2)], 4)[0].text == "gets the 2 replicas it wants"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(1, 4), st.integers(0, 9)), max_size=4),
    st.integers(1, 30),
)
def test_the_budget_is_never_exceeded_by_growth(raw: list[tuple[int, int, int, int]], budget: int) -> None:
    claims = [Claim(f"p{i}", have, wants, 0, gpus, pin) for i, (have, wants, gpus, pin) in enumerate(raw)]
    held = sum(c.current * c.gpus for c in claims)
    during = sum(max(c.current, g.target) * c.gpus for c, g in zip(claims, apportion(claims, budget), strict=True))
    assert during <= max(budget, held)
    turned = {g.pool: g.target for g in apportion(claims[::-1], budget)}
    assert turned == {g.pool: g.target for g in apportion(claims, budget)}


def test_pools_decide_together_and_keep_their_minimum(situation: Make) -> None:
    law = policy("reactive")
    hungry = {"each": {"waiting": 40.0}, "limits": Limits(2, 20)}
    scenes = [situation(2, pool="prefill", **hungry), situation(2, pool="decode", **hungry)]
    answers = decide_together(law, scenes, {}, 6, {})
    assert {pool: d.target for pool, (d, _) in answers.items()} == {"prefill": 3, "decode": 3}
    decision = answers["decode"][0]
    assert decision.binding == "joint budget"
    assert decision.reason.endswith("wants 4, its share of 6 GPUs is 3 replicas")
    tight = decide_together(law, scenes, {"decode": Memory()}, 2, {"prefill": 1})
    assert {d.target for d, _ in tight.values()} == {2}


def test_a_pin_is_served_before_what_others_want_and_after_their_minimums(situation: Make) -> None:
    pinned = situation(2, pool="prefill", limits=Limits(1, 20), pinned_minimum=9)
    hungry = situation(2, pool="decode", limits=Limits(3, 20), each={"waiting": 40.0})
    answers = decide_together(policy("reactive"), [pinned, hungry], {}, 10, {})
    assert {pool: d.target for pool, (d, _) in answers.items()} == {"prefill": 7, "decode": 3}


def test_gpus_of_a_replica_that_still_drains_are_given_to_nobody(situation: Make, replica: Callable[..., Any]) -> None:
    leaving = tuple(replica(f"r{i}", state="draining" if i == 2 else "ok") for i in range(3))
    prefill = situation(pool="prefill", replicas=leaving, want=2)
    decode = situation(2, pool="decode", each={"waiting": 40.0})
    decisions = {s.pool: policy("reactive").decide(s, Memory())[0] for s in (prefill, decode)}
    assert decisions["decode"].target > 2
    assert within([prefill, decode], decisions, 5, {})["decode"].target == 2
    gone = situation(pool="prefill", replicas=leaving[:2], want=2)
    assert within([gone, decode], decisions, 5, {})["decode"].target == 3
