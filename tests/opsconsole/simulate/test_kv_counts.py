"""Blocks by count: what is found again, what is evicted first, what is never lost."""

from __future__ import annotations

from opsconsole.simulate.kv_counts import KvCounts, Match
from opsconsole.simulate.sequence import Sequence


def held(kv: KvCounts, request: Sequence) -> Match:
    """Admit a request, compute all of its prompt, and publish."""
    match = kv.match(request)
    assert kv.fits(request, match, 0)
    kv.admit(request, match)
    request.computed = request.tokens
    kv.commit(request)
    return match


def gone(kv: KvCounts, *requests: Sequence) -> None:
    for request in requests:
        kv.release(request)


def prompt(number: int, tokens: int, *blocks: int) -> Sequence:
    return Sequence(number, 0.0, tokens, 8, blocks)


def test_a_prefix_is_found_again_but_never_the_last_token() -> None:
    kv = KvCounts(100, 16, 16, caching=True)
    first = prompt(0, 64, 1, 2, 3, 4)
    held(kv, first)
    gone(kv, first)
    assert kv.match(prompt(1, 64, 1, 2, 3, 4)).shared == 3  # one token must be computed
    assert kv.match(prompt(2, 65, 1, 2, 3, 4)).shared == 4
    assert kv.match(prompt(3, 65, 1, 9, 3, 4)).shared == 1  # without a gap
    assert kv.free == 100


def test_a_held_prefix_is_shared_and_counted_once() -> None:
    kv = KvCounts(100, 16, 64, caching=True)
    one, two = prompt(0, 130, 1, 2), prompt(1, 140, 1, 2)
    held(kv, one)
    assert kv.total - kv.free == 9
    assert held(kv, two) == Match(shared=2, own=0, unheld=0)
    assert kv.total - kv.free == 10
    gone(kv, one)
    assert kv.total - kv.free == 9
    gone(kv, two)
    assert kv.free == kv.total


def test_the_least_recently_used_goes_first_and_its_suffix_before_its_start() -> None:
    kv = KvCounts(8, 16, 16, caching=True)
    old, new = prompt(0, 64, 1, 2, 3, 4), prompt(1, 64, 5, 6, 7, 8)
    held(kv, old)
    held(kv, new)
    gone(kv, old, new)
    kv.take(2)
    assert kv.match(prompt(2, 80, 1, 2, 3, 4)).shared == 2
    assert kv.match(prompt(3, 80, 5, 6, 7, 8)).shared == 4
    kv.take(3)
    assert kv.match(prompt(4, 80, 1, 2, 3, 4)).shared == 0
    assert kv.match(prompt(5, 80, 5, 6, 7, 8)).shared == 3


def test_two_that_compute_the_same_block_publish_it_once() -> None:
    kv = KvCounts(20, 16, 16, caching=True)
    one, two = prompt(0, 40, 1, 2), prompt(1, 40, 1, 2)
    for request in (one, two):
        kv.admit(request, kv.match(request))  # both before either is computed
    for request in (one, two):
        request.computed = request.tokens
        kv.commit(request)
    assert one.held == [1, 2] and two.held == [None, None]
    gone(kv, one, two)
    assert kv.free == 20
    kv.take(16)  # the copies that nobody can find go first
    assert kv.match(prompt(2, 40, 1, 2)).shared == 2


def test_a_request_thrown_out_finds_its_own_work_again_as_far_as_it_was_not_taken() -> None:
    kv = KvCounts(10, 16, 16, caching=True)
    request = prompt(0, 160)
    held(kv, request)
    gone(kv, request)
    request.tokens, request.computed = 161, 0  # one token was made meanwhile
    assert kv.match(request).own == 10
    kv.take(4)
    assert kv.match(request) == Match(shared=0, own=6, unheld=6)
    other = prompt(1, 160)
    assert kv.match(other).own == 0


def test_without_a_cache_nothing_is_found() -> None:
    kv = KvCounts(10, 16, 16, caching=False)
    request = prompt(0, 64, 1, 2, 3, 4)
    held(kv, request)
    gone(kv, request)
    assert kv.match(prompt(1, 64, 1, 2, 3, 4)) == Match(0, 0, 0)
    kv.check(0)
