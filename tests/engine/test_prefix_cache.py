"""The chain over full blocks, and the two maps that mirror each other."""

from __future__ import annotations

from engine.prefix_cache import PrefixCache, extend_chain, root_hash


def chain_of(tokens: list[int], salt: str = "") -> list[bytes]:
    chain: list[bytes] = []
    extend_chain(chain, tokens, 16, salt)
    return chain


def shared(one: list[bytes], other: list[bytes]) -> int:
    return sum(1 for a, b in zip(one, other, strict=False) if a == b)


def test_two_thousand_shared_tokens_are_125_blocks() -> None:
    prefix = list(range(2000))
    assert shared(chain_of([*prefix, 1, 2, 3]), chain_of([*prefix, 9, 9, 9])) == 125


def test_a_change_of_the_first_token_shares_nothing() -> None:
    assert shared(chain_of(list(range(2000))), chain_of([7, *range(1, 2000)])) == 0


def test_a_change_of_the_last_token_costs_one_block() -> None:
    assert shared(chain_of(list(range(2000))), chain_of([*range(1999), 7])) == 124


def test_equal_blocks_at_different_places_have_different_hashes() -> None:
    chain = chain_of([5] * 64)
    assert len(set(chain)) == 4


def test_a_salt_separates_every_block_and_the_same_salt_none() -> None:
    tokens = list(range(64))
    assert shared(chain_of(tokens, "a"), chain_of(tokens, "b")) == 0
    assert shared(chain_of(tokens, "a"), chain_of(tokens, "a")) == 4


def test_a_chain_grows_as_if_it_had_been_built_at_once() -> None:
    tokens = list(range(100))
    grown: list[bytes] = []
    for end in (5, 16, 40, 41, 100):
        extend_chain(grown, tokens[:end], 16, "s")
    assert grown == chain_of(tokens, "s")


def test_roots_differ_by_salt() -> None:
    assert root_hash("") != root_hash("0")


def test_the_longest_prefix_stops_at_the_first_gap_and_at_the_limit() -> None:
    cache = PrefixCache()
    chain = chain_of(list(range(80)))
    for block, digest in ((3, chain[0]), (1, chain[1]), (9, chain[3])):
        assert cache.register(block, digest)
    assert cache.longest(chain, 5) == [3, 1]
    assert cache.longest(chain, 1) == [3]
    cache.check()


def test_content_is_registered_once_and_forgotten_with_its_block() -> None:
    cache = PrefixCache()
    digest = chain_of(list(range(16)))[0]
    assert cache.register(4, digest)
    assert not cache.register(5, digest)
    assert 4 in cache and 5 not in cache and list(cache.blocks()) == [4]
    assert cache.evict(4)
    assert not cache.evict(4)
    assert len(cache) == 0
    cache.check()
