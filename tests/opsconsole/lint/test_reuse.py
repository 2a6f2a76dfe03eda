"""Reuse under the engine's rule: equal to a naive computation on random prompts, with budget, lifetime and salt."""

from __future__ import annotations

import random
from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.lint.reuse import EngineRule, RadixTree
from opsconsole.lint.waste import ModelShape, Rates, waste


def naive(seen: list[list[int]], prompt: list[int]) -> int:
    best = 0
    for other in seen:
        n = 0
        while n < min(len(other), len(prompt)) and other[n] == prompt[n]:
            n += 1
        best = max(best, n)
    return best


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=24), max_size=30))
def test_the_tree_finds_the_longest_common_start(prompts: list[list[int]]) -> None:
    tree = RadixTree()
    seen: list[list[int]] = []
    for prompt in prompts:
        assert tree.add(array("q", prompt), len(prompt)) == naive(seen, prompt)
        seen.append(prompt)


def test_whole_blocks_are_reused_and_the_last_token_is_computed() -> None:
    rule = EngineRule(unit=16)
    assert [rule.reused(common, 64) for common in (0, 15, 16, 47, 63, 64)] == [0, 0, 16, 32, 48, 48]
    assert EngineRule(unit=1).reused(64, 64) == 63
    assert EngineRule(unit=16, minimum=1024).reused(1000, 2000) == 0


def test_a_salt_separates_prompts() -> None:
    tree = RadixTree()
    prompt = array("q", range(32))
    assert tree.add(prompt, 32, "a") == 0
    assert tree.add(prompt, 32, "b") == 0
    assert tree.add(prompt, 32, "a") == 32


def test_an_entry_is_gone_after_its_lifetime() -> None:
    tree = RadixTree(EngineRule(ttl_s=60))
    prompt = array("q", range(32))
    tree.add(prompt, 32, at=0.0)
    assert tree.add(prompt, 32, at=50.0) == 32
    assert tree.add(prompt, 32, at=200.0) == 0


def test_an_entry_is_gone_once_the_budget_was_written_since() -> None:
    rng = random.Random(3)
    prompt = array("q", range(32))
    for budget, expected in ((1000, 32), (100, 0)):
        tree = RadixTree(EngineRule(), budget)
        tree.add(prompt, 32)
        for _ in range(5):
            tree.add(array("q", [rng.randrange(10**9) for _ in range(40)]), 40)
        assert tree.add(prompt, 32) == expected


def test_waste_matches_the_worked_example_of_an_8b_model() -> None:
    shape = ModelShape(8e9, layers=32, heads=32, kv_heads=8, head_dim=128)
    made = waste([(2200, 16, 2176)], Rates(shape, peak_flops=989e12, price_per_million=2.0))
    assert made.tokens == 2160
    assert made.gpu_seconds is not None
    assert 0.085 < made.gpu_seconds < 0.095
    assert made.kv_bytes == 2160 * 131_072
    assert made.money is not None
    assert abs(made.money - 2160e-6 * 2.0 * 0.9) < 1e-9
    assert waste([(100, 0, 50)], Rates()).gpu_seconds is None
    assert waste([(100, 0, 50)], Rates(tokens_per_gpu_second=1000)).gpu_seconds == 0.05
