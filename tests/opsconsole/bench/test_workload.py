"""Workloads: the lengths promised, prefixes shared where promised, nothing repeated between seeds."""

from __future__ import annotations

import statistics

import pytest

from opsconsole.bench.arrivals import Arrival
from opsconsole.bench.workload import WORKLOADS, build
from opsconsole.errors import UsageError

MANY = [Arrival(0.0)] * 1500


def lengths(name: str) -> list[int]:
    return [len(ask.prompt) for ask in build(name, MANY, 1)]


def test_chat_prompts_and_answers_have_the_lengths_promised() -> None:
    asks = build("A", MANY, 1)
    assert statistics.mean(len(ask.prompt) for ask in asks) == pytest.approx(256, rel=0.08)
    assert statistics.mean(ask.max_tokens for ask in asks) == pytest.approx(64, rel=0.08)
    assert all(32 <= len(ask.prompt) <= 1024 and 16 <= ask.max_tokens <= 160 for ask in asks)


def test_a_shared_prefix_is_shared_and_its_tails_are_not() -> None:
    asks = build("B", MANY[:50], 2)
    assert {len(ask.prompt) for ask in asks} == {1600}
    assert len({ask.prompt[:1500] for ask in asks}) == 1
    assert len({ask.prompt[1500:] for ask in asks}) == 50
    assert {ask.max_tokens for ask in asks} == {48}


def test_one_mixed_prompt_in_ten_is_long() -> None:
    assert sum(length == 3000 for length in lengths("C")) == pytest.approx(150, rel=0.3)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_fresh_seed_shares_nothing_with_the_last_one(name: str) -> None:
    first, second = build(name, MANY[:20], 1), build(name, MANY[:20], 2)
    assert not {ask.prompt for ask in first} & {ask.prompt for ask in second}
    assert build(name, MANY[:20], 1) == first


def test_the_demo_is_in_words_with_common_openings() -> None:
    asks = build("demo", MANY[:200], 3)
    assert all(isinstance(ask.prompt, str) for ask in asks)
    openings = {" ".join(str(ask.prompt).split()[:48]) for ask in asks if len(str(ask.prompt).split()) > 48}
    assert len(openings) == 3


def test_the_sizes_of_a_trace_win() -> None:
    (ask,) = build("A", [Arrival(0.0, 17, 3)], 1)
    assert (len(ask.prompt), ask.max_tokens) == (17, 3)


def test_text_stands_for_ids_where_a_server_takes_no_ids() -> None:
    (ask,) = build("A", [Arrival(0.0, 17, 3)], 1, text=True)
    assert isinstance(ask.prompt, str) and len(ask.prompt.split()) == 17


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="known are A, B, C"):
        build("D", MANY[:1], 1)
