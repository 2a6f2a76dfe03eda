"""Which worker has probably cached which prefix chunk: what this router sent where, bounded and forgetting.

Mutable on purpose: a persistent map would cost more per request than the decision. It must not read a clock; `now` is
given. The traps: an entry without a time to live outlives the engine's own eviction; a worker that restarted has lost
its cache, so entries carry the worker's generation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Match(NamedTuple):
    """How many leading chunks a worker is believed to hold, and how many of those many requests share."""

    chunks: int
    shared: int


class Shared(NamedTuple):
    """A prefix after which requests went different ways: where it ends, and who is believed to hold it."""

    end: int  # the hash of its last chunk, which covers all before it
    chunks: int
    requests: int  # that began with it
    forks: int
    holders: tuple[str, ...]
    last: float  # when one last did, by the caller's clock


class _Chunk:
    """Who holds one chunk (worker -> generation, last used), how often it came, how many different ones followed."""

    __slots__ = ("depth", "followers", "holders", "uses")

    def __init__(self, depth: int) -> None:
        self.holders: dict[str, tuple[int, float]] = {}
        self.followers = self.uses = 0
        self.depth = depth


class RoutingMemory:
    """An LRU over chunk hashes. A chunk that many different ones follow ends a prefix that many requests share."""

    def __init__(self, entries: int = 100_000, ttl_s: float = 300.0, chunks: int = 256, shared_from: int = 8) -> None:
        self._chunks: OrderedDict[int, _Chunk] = OrderedDict()
        self._forked: set[int] = set()  # chunks that two or more different ones follow
        self._starts: dict[str, float | None] = {}
        self._generations: dict[str, int] = {}
        self._entries = entries
        self._ttl_s = ttl_s
        self._most = chunks
        self._shared_from = shared_from

    def __len__(self) -> int:
        return len(self._chunks)

    def meet(self, worker: str, started_at: float | None) -> None:
        """Note a worker; one that started anew since has an empty cache."""
        before = self._starts.get(worker)
        if before is not None and started_at is not None and before != started_at:
            self.forget(worker)
        if started_at is not None:
            self._starts[worker] = started_at

    def forget(self, worker: str) -> None:
        """Drop all that is believed of one worker; in constant time, stale entries fall out as they are met."""
        self._generations[worker] = self._generations.get(worker, 0) + 1

    def matches(self, hashes: Sequence[int], workers: Collection[str], now: float) -> dict[str, Match]:
        """What each worker is believed to hold of this prefix, without a gap."""
        found: dict[str, Match] = {}
        remaining = set(workers)
        shared = 0
        for depth, hash_ in enumerate(hashes[: self._most], start=1):
            chunk = self._chunks.get(hash_)
            if chunk is None:
                break
            remaining = {w for w in remaining if w in chunk.holders and self._holds(w, chunk.holders[w], now)}
            if not remaining:
                break
            if chunk.followers >= self._shared_from:
                shared = depth
            for worker in remaining:
                found[worker] = Match(depth, shared)
        return found

    def remember(self, hashes: Sequence[int], worker: str, now: float) -> None:
        """The worker now computes, and so caches, these chunks."""
        entry = (self._generations.get(worker, 0), now)
        before: _Chunk | None = None
        before_hash = 0
        for depth, hash_ in enumerate(hashes[: self._most], start=1):
            chunk = self._chunks.get(hash_)
            if chunk is None:
                chunk = self._chunks[hash_] = _Chunk(depth)
                if before is not None:
                    before.followers += 1
                    if before.followers > 1:
                        self._forked.add(before_hash)
            else:
                self._chunks.move_to_end(hash_)
            chunk.holders[worker] = entry
            chunk.uses += 1
            before, before_hash = chunk, hash_
        while len(self._chunks) > self._entries:
            self._forked.discard(self._chunks.popitem(last=False)[0])

    def shared(self, now: float, most: int = 20) -> list[Shared]:
        """The prefixes that save most when they are cached: long ones that many requests began with."""
        found = []
        for hash_ in self._forked:
            chunk = self._chunks[hash_]
            holders = tuple(sorted(w for w, entry in chunk.holders.items() if self._holds(w, entry, now)))
            last = max(used for _, used in chunk.holders.values())
            found.append(Shared(hash_, chunk.depth, chunk.uses, chunk.followers, holders, last))
        return sorted(found, key=lambda s: (-s.chunks * s.requests, s.end))[:most]

    def check(self) -> None:
        """Raise AssertionError when the bounds do not hold."""
        assert len(self._chunks) <= self._entries, f"{len(self._chunks)} chunks, at most {self._entries}"
        assert all(c.holders for c in self._chunks.values()), "a chunk without holders"
        assert all(self._chunks[hash_].followers > 1 for hash_ in self._forked), "a fork that is none"

    def _holds(self, worker: str, entry: tuple[int, float], now: float) -> bool:
        generation, used = entry
        return generation == self._generations.get(worker, 0) and now - used <= self._ttl_s
