"""Who holds which KV block: tables, reference counts, the free queue, copy-on-write.

It knows block ids and request ids, and must not know tensors, budgets or queues. Questions (`can_...`,
`blocks_for_...`) never change anything; acts assume that the question was asked. The trap: a block with no holder
may still be cached, so "free" means "can be taken", and taking it evicts what it held.

The free queue is the eviction order: taken from the head. A finished request gives back its blocks tail first,
cached ones to the end of the queue and the others to its head, which makes it least recently used with the longest
suffix evicted first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.plan import BlockCopy
from engine.prefix_cache import PrefixCache, extend_chain
from engine.request import Request


class Match(NamedTuple):
    """A cached prefix: its blocks, the tokens they cover, and how many of the blocks nobody holds."""

    blocks: tuple[int, ...]
    tokens: int
    unheld: int


class BlockManager:
    """All blocks of one engine. `order` is the initial free order; results must not depend on it."""

    def __init__(self, count: int, block_size: int, caching: bool = True, order: Iterable[int] | None = None) -> None:
        self.count = count
        self.block_size = block_size
        self._caching = caching
        self._cache = PrefixCache()
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count) if order is None else order)
        self._references = [0] * count
        self._tables: dict[str, list[int]] = {}
        self._registered: dict[str, int] = {}  # request id -> full blocks already offered to the cache
        if sorted(self._free) != list(range(count)):
            raise ValueError(f"The initial order must name each of the {count} blocks once.")

    @property
    def free(self) -> int:
        """Blocks that can be taken, cached ones without a holder included."""
        return len(self._free)

    @property
    def used_fraction(self) -> float:
        return 1.0 - len(self._free) / self.count

    @property
    def cached(self) -> int:
        """Blocks whose content can be found by prefix."""
        return len(self._cache)

    def table(self, request_id: str) -> tuple[int, ...]:
        return tuple(self._tables[request_id])

    def match(self, request: Request) -> Match:
        """The longest cached prefix. At least the last token stays to be computed: it is what gets sampled from."""
        if not self._caching:
            return Match((), 0, 0)
        extend_chain(request.hashes, request.tokens, self.block_size, request.salt)
        blocks = self._cache.longest(request.hashes, (len(request.tokens) - 1) // self.block_size)
        unheld = sum(1 for block in blocks if self._references[block] == 0)
        return Match(tuple(blocks), len(blocks) * self.block_size, unheld)

    def can_admit(self, request: Request, match: Match, reserve: int) -> bool:
        """Whether all tokens so far fit, beside `reserve` blocks that stay free."""
        fresh = self._blocks_for(len(request.tokens)) - len(match.blocks)
        return fresh + match.unheld + reserve <= len(self._free)

    def admit(self, request: Request, match: Match) -> None:
        """Give the request its cached prefix and fresh blocks for the rest of its tokens."""
        if request.request_id in self._tables:
            raise ValueError(f"Request {request.request_id} has blocks already.")
        for block in match.blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1
        fresh = self._blocks_for(len(request.tokens)) - len(match.blocks)
        self._tables[request.request_id] = [*match.blocks, *(self._take() for _ in range(fresh))]
        self._registered[request.request_id] = len(match.blocks)

    def growth(self, request: Request, end: int) -> int:
        """Fresh blocks needed before positions `request.computed .. end - 1` can be written."""
        table = self._tables[request.request_id]
        first = request.computed // self.block_size
        shared = sum(1 for block in table[first : self._blocks_for(end)] if self._references[block] > 1)
        return shared + max(0, self._blocks_for(end) - len(table))

    def can_grow(self, request: Request, end: int) -> bool:
        return self.growth(request, end) <= len(self._free)

    def grow(self, request: Request, end: int) -> list[BlockCopy]:
        """Make positions up to `end` writable; shared blocks among them are replaced by copies of their own."""
        table = self._tables[request.request_id]
        copies: list[BlockCopy] = []
        for index in range(request.computed // self.block_size, min(len(table), self._blocks_for(end))):
            shared = table[index]
            if self._references[shared] > 1:
                table[index] = self._take()
                self._references[shared] -= 1
                copies.append(BlockCopy(shared, table[index]))
        while len(table) < self._blocks_for(end):
            table.append(self._take())
        return copies

    def fork(self, parent: str, child: str) -> None:
        """The child holds the parent's blocks too; whoever writes first gets a copy."""
        if child in self._tables:
            raise ValueError(f"Request {child} has blocks already.")
        self._tables[child] = list(self._tables[parent])
        self._registered[child] = self._registered[parent]
        for block in self._tables[child]:
            self._references[block] += 1

    def commit(self, request: Request) -> None:
        """Publish the full blocks whose tokens are now computed."""
        full = request.computed // self.block_size
        start = self._registered[request.request_id]
        if not self._caching or full <= start:
            return
        extend_chain(request.hashes, request.tokens, self.block_size, request.salt)
        table = self._tables[request.request_id]
        for index in range(start, full):
            self._cache.register(table[index], request.hashes[index])
        self._registered[request.request_id] = full

    def release(self, request_id: str) -> None:
        """Take back everything a request holds. Its cached blocks stay findable until they are needed."""
        del self._registered[request_id]
        for block in reversed(self._tables.pop(request_id)):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                self._free.move_to_end(block, last=block in self._cache)

    def eviction_order(self) -> Sequence[int]:
        """The free queue, head first."""
        return tuple(self._free)

    def check(self) -> None:
        """Every block has exactly one fate, and every count agrees with the tables."""
        self._cache.check()
        holders = Counter(block for table in self._tables.values() for block in table)
        for block in range(self.count):
            assert self._references[block] == holders[block], f"block {block} is held {holders[block]} times"
            assert (self._references[block] == 0) == (block in self._free), f"block {block} is neither held nor free"
        for request_id, table in self._tables.items():
            assert len(set(table)) == len(table), f"{request_id} holds a block twice"
            assert self._registered[request_id] <= len(table), f"{request_id} published more than it holds"
        assert self._registered.keys() == self._tables.keys(), "books differ on who holds blocks"

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        self._cache.evict(block)
        self._references[block] = 1
        return block
