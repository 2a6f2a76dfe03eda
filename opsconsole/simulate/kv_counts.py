"""KV blocks of one simulated replica, counted instead of named: who holds how many, what is cached, what goes first.

The rules are the engine's block manager's: plain blocks are taken before cached ones, cached ones least recently used
first and the longest suffix first; what a request computed stays findable until it is taken. Two kinds of cached
content: shared prefix blocks (ids that came with the arrival, `hash_tokens` tokens each) and the rest of one request,
which only that request can find again, after a preemption. It must not know time or batches. The trap: `free` counts
cached blocks nobody holds; taking them evicts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from opsconsole.simulate.sequence import Sequence


class Match(NamedTuple):
    """A cached prefix: shared ids, the request's own blocks behind them, and how many of all these nobody holds."""

    shared: int
    own: int
    unheld: int


NOTHING = Match(0, 0, 0)


class KvCounts:
    """All blocks of one replica."""

    __slots__ = ("_cached", "_caching", "_hash_tokens", "_holders", "_ratio", "free", "plain", "size", "total")

    def __init__(self, total: int, size: int, hash_tokens: int, caching: bool) -> None:
        self.total, self.size, self.free = total, size, total
        self.plain = total  # free blocks without content
        self._hash_tokens = hash_tokens
        self._ratio = hash_tokens // size  # blocks of one shared id
        self._caching = caching
        self._holders: dict[int, int] = {}  # shared id -> requests that hold it; 0 = cached, free to take
        self._cached: OrderedDict[object, int] = OrderedDict()  # free cached content -> blocks, in order of eviction

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def match(self, request: Sequence) -> Match:
        """The longest cached prefix; the last token always stays to be computed."""
        if not self._caching:
            return NOTHING
        shared = unheld = 0
        if request.blocks:
            holders = self._holders
            for block in request.blocks[: min(request.prompt, request.tokens - 1) // self._hash_tokens]:
                held = holders.get(block)
                if held is None:
                    break
                shared += 1
                if held == 0:
                    unheld += 1
            unheld *= self._ratio
        own = 0
        if request.own is not None and shared == self._shareable(request):
            own = self._cached.get(request.own, 0)
        return Match(shared, own, unheld + own)

    def matched_tokens(self, match: Match) -> int:
        return (match.shared * self._ratio + match.own) * self.size

    def fits(self, request: Sequence, match: Match, reserve: int) -> bool:
        """Whether all tokens so far fit beside `reserve` blocks that stay free."""
        fresh = -(-request.tokens // self.size) - match.shared * self._ratio - match.own
        return fresh + match.unheld + reserve <= self.free

    def admit(self, request: Sequence, match: Match) -> None:
        """Hold the cached prefix and fresh blocks for the rest of the tokens so far."""
        if match.shared:
            shared = request.blocks[: match.shared]
            for block in shared:
                if self._holders[block] == 0:
                    del self._cached[block]
                    self.free -= self._ratio
                self._holders[block] += 1
            request.held = list(shared)
        if match.own:
            del self._cached[request.own]
            self.free -= match.own
        request.own = None
        request.table = -(-request.tokens // self.size)
        self.take(request.table - match.shared * self._ratio - match.own)

    def take(self, count: int) -> None:
        """Take free blocks, evicting where no plain ones are left."""
        self.free -= count
        if count <= self.plain:
            self.plain -= count
            return
        count -= self.plain
        self.plain = 0
        cached = self._cached
        while count > 0:
            content, blocks = cached.popitem(last=False)
            if type(content) is int:
                del self._holders[content]
                self.plain += max(0, blocks - count)
            elif blocks > count:
                cached[content] = blocks - count
                cached.move_to_end(content, last=False)
            count -= blocks

    def commit(self, request: Sequence) -> None:
        """Publish the shared ids that are computed by now. One that another request published first stays plain."""
        if not request.blocks or not self._caching:
            return
        full = min(len(request.blocks), min(request.computed, request.prompt) // self._hash_tokens)
        for block in request.blocks[len(request.held) : full]:
            if block in self._holders:
                request.held.append(None)
            else:
                self._holders[block] = 1
                request.held.append(block)

    def release(self, request: Sequence) -> None:
        """Take back everything; tail first, so that the longest suffix is evicted first."""
        shared = len(request.held) * self._ratio
        own = max(0, request.computed // self.size - shared) if self._caching else 0
        self.plain += request.table - shared - own
        self.free += request.table - shared
        if own:
            request.own = object()
            self._cached[request.own] = own
        for block in reversed(request.held):
            if block is None:
                self.plain += self._ratio
                self.free += self._ratio
                continue
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._cached[block] = self._ratio
                self.free += self._ratio
        request.held = []
        request.table = 0

    def check(self, tables: int) -> None:
        """Every block is held, cached or plain; `tables` is what all running requests hold, shared ids once."""
        cached = sum(self._cached.values())
        assert self.plain >= 0 and self.free == self.plain + cached, "free blocks are neither plain nor cached"
        assert self.free + tables == self.total, f"{self.total - self.free - tables} blocks are held by nobody"
        for content in self._cached:
            assert type(content) is not int or self._holders[content] == 0, "cached content is held and free at once"

    def shared_holdings(self) -> dict[int, int]:
        """Requests that hold each shared id, for checks."""
        return {block: held for block, held in self._holders.items() if held}

    def _shareable(self, request: Sequence) -> int:
        return min(len(request.blocks), request.prompt // self._hash_tokens)
