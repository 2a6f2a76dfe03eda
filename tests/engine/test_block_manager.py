"""Blocks: tables, references, copy-on-write, eviction order, and `check()` after any sequence of operations."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.block_manager import BlockManager
from engine.plan import BlockCopy
from engine.request import Request, SamplingParams


def request(name: str, tokens: list[int], salt: str = "") -> Request:
    return Request(name, tuple(tokens), SamplingParams(max_tokens=100), 0.0, salt=salt)


def run(blocks: BlockManager, item: Request) -> int:
    """Admit a request and compute its prompt; returns the tokens found in the cache."""
    match = blocks.match(item)
    assert blocks.can_admit(item, match, reserve=0)
    blocks.admit(item, match)
    item.computed = len(item.tokens)
    blocks.commit(item)
    blocks.check()
    return match.tokens


def test_waste_is_less_than_one_block_per_sequence() -> None:
    blocks = BlockManager(100, 16)
    lengths = [1, 15, 16, 17, 100, 161]
    for number, length in enumerate(lengths):
        run(blocks, request(str(number), [number] * length))
    held = sum(len(blocks.table(str(number))) for number in range(len(lengths)))
    assert held * 16 - sum(lengths) <= 15 * len(lengths)


def test_a_block_is_taken_when_the_last_one_is_full() -> None:
    blocks = BlockManager(4, 16)
    item = request("a", list(range(16)))
    run(blocks, item)
    assert len(blocks.table("a")) == 1
    item.tokens.append(7)
    assert blocks.growth(item, 17) == 1 and blocks.grow(item, 17) == []
    assert len(blocks.table("a")) == 2
    for length in range(18, 33):
        item.tokens.append(7)
        item.computed = length - 1
        assert blocks.growth(item, length) == 0


def test_the_same_block_aligned_prompt_twice_finds_all_but_its_last_block() -> None:
    blocks = BlockManager(8, 16)
    tokens = list(range(32))
    assert run(blocks, request("a", tokens)) == 0
    assert run(blocks, request("b", tokens)) == 16


def test_only_computed_blocks_can_be_found() -> None:
    blocks = BlockManager(8, 16)
    first, second = request("a", list(range(40))), request("b", list(range(40)))
    blocks.admit(first, blocks.match(first))
    assert blocks.match(second).tokens == 0
    first.computed = 17
    blocks.commit(first)
    assert blocks.match(second).tokens == 16


def test_salts_do_not_share_and_the_same_salt_does() -> None:
    blocks = BlockManager(16, 16)
    tokens = list(range(40))
    run(blocks, request("a", tokens, "tenant-a"))
    assert run(blocks, request("b", tokens, "tenant-b")) == 0
    assert run(blocks, request("c", tokens, "tenant-a")) == 32


def test_without_caching_nothing_is_found() -> None:
    blocks = BlockManager(16, 16, caching=False)
    run(blocks, request("a", list(range(40))))
    assert run(blocks, request("b", list(range(40)))) == 0 and blocks.cached == 0


def test_the_first_block_evicted_is_the_last_of_the_oldest_sequence() -> None:
    blocks = BlockManager(4, 16)
    for name, start in (("old", 0), ("new", 100)):
        run(blocks, request(name, list(range(start, start + 32))))
    last_of_old = blocks.table("old")[-1]
    blocks.release("old")
    blocks.release("new")
    assert blocks.eviction_order()[0] == last_of_old
    run(blocks, request("third", [900] * 16))
    assert blocks.match(request("again", [*range(32), 5])).tokens == 16
    assert blocks.match(request("again", [*range(100, 132), 5])).tokens == 32


def test_blocks_without_content_are_taken_before_cached_ones() -> None:
    blocks = BlockManager(4, 16)
    run(blocks, request("a", list(range(40))))  # two full blocks and a partial one
    partial = blocks.table("a")[-1]
    blocks.release("a")
    assert blocks.eviction_order()[0] == partial and blocks.cached == 2


def test_a_hit_takes_blocks_out_of_the_free_queue() -> None:
    blocks = BlockManager(3, 16)
    run(blocks, request("a", list(range(33))))
    blocks.release("a")
    again = request("b", list(range(33)))
    match = blocks.match(again)
    assert match.unheld == 2
    # Two cached blocks are free now and will be held: with one fresh block and a reserve of one nothing is left.
    assert blocks.can_admit(again, match, reserve=0) and not blocks.can_admit(again, match, reserve=1)
    blocks.admit(again, match)
    assert blocks.free == 0
    blocks.check()


def test_a_fork_shares_blocks_and_the_first_to_write_gets_a_copy() -> None:
    blocks = BlockManager(8, 16)
    parent, child = request("p", list(range(20))), request("c", list(range(20)))
    run(blocks, parent)
    blocks.fork("p", "c")
    child.computed = 20
    before = blocks.table("p")
    assert blocks.table("c") == before and blocks.free == 6
    for item in (parent, child):
        item.tokens.append(1)
    copies = blocks.grow(child, 21)
    assert copies == [BlockCopy(before[1], blocks.table("c")[1])]
    assert blocks.grow(parent, 21) == [] and blocks.table("p") == before, "the last holder writes in place"
    assert blocks.table("c")[0] == before[0]
    blocks.check()


def test_content_held_twice_is_registered_once() -> None:
    blocks = BlockManager(8, 16)
    first, second = request("a", list(range(17))), request("b", list(range(17)))
    for item in (first, second):
        blocks.admit(item, blocks.match(item))
    for item in (first, second):
        item.computed = 17
        blocks.commit(item)
    assert blocks.cached == 1
    blocks.release("b")
    assert blocks.eviction_order()[0] in (2, 3)
    blocks.check()


def test_errors_of_callers_are_told() -> None:
    blocks = BlockManager(8, 16)
    item = request("a", [1])
    run(blocks, item)
    with pytest.raises(ValueError, match="has blocks already"):
        blocks.admit(item, blocks.match(item))
    with pytest.raises(ValueError, match="has blocks already"):
        blocks.fork("a", "a")
    with pytest.raises(ValueError, match="must name each"):
        BlockManager(3, 16, order=[0, 1, 1])


class AnyOperations(RuleBasedStateMachine):
    """Admit, grow, commit, fork and release in any order, on few blocks and few distinct prompts."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = BlockManager(12, 4, order=random.Random(3).sample(range(12), 12))
        self.held: dict[str, Request] = {}
        self.number = 0

    def _new(self, tokens: list[int], salt: str = "") -> Request:
        self.number += 1
        return request(str(self.number), tokens, salt)

    @rule(family=st.integers(0, 2), length=st.integers(1, 20), salt=st.sampled_from(["", "s"]))
    def admit(self, family: int, length: int, salt: str) -> None:
        item = self._new([family] * length, salt)
        match = self.blocks.match(item)
        assert match.tokens < length
        if self.blocks.can_admit(item, match, reserve=0):
            self.blocks.admit(item, match)
            item.computed = match.tokens
            self.held[item.request_id] = item

    @precondition(lambda self: self.held)
    @rule(data=st.data(), count=st.integers(1, 6))
    def compute(self, data: st.DataObject, count: int) -> None:
        item = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        item.computed = min(len(item.tokens), item.computed + count)
        self.blocks.commit(item)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), token=st.integers(0, 1))
    def generate(self, data: st.DataObject, token: int) -> None:
        item = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        if item.computed == len(item.tokens) and self.blocks.can_grow(item, len(item.tokens) + 1):
            item.tokens.append(token)
            for copy in self.blocks.grow(item, len(item.tokens)):
                assert copy.dst in self.blocks.table(item.request_id)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        parent = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        child = self._new(parent.tokens, parent.salt)
        child.computed, child.hashes = parent.computed, list(parent.hashes)
        self.blocks.fork(parent.request_id, child.request_id)
        self.held[child.request_id] = child

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[name]
        self.blocks.release(name)

    @invariant()
    def holds(self) -> None:
        self.blocks.check()
        assert 0.0 <= self.blocks.used_fraction <= 1.0


TestAnyOperations = AnyOperations.TestCase
TestAnyOperations.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
