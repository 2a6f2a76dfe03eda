"""Which worker has probably cached which prefix chunk: what this router sent where, bounded and forgetting.

Mutable on purpose: a persistent map would cost more per request than the decision. It must not read a clock; `now` is
given. The traps: an entry without a time to live outlives the engine's own eviction; a worker that restarted has lost
its cache, so entries carry the worker's generation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence


class RoutingMemory:
    """An LRU over chunk hashes, each with its holders: worker -> (generation, last used)."""

    def __init__(self, entries: int = 100_000, ttl_s: float = 300.0, chunks: int = 256) -> None:
        self._chunks: OrderedDict[int, dict[str, tuple[int, float]]] = OrderedDict()
        self._starts: dict[str, float | None] = {}
        self._generations: dict[str, int] = {}
        self._entries = entries
        self._ttl_s = ttl_s
        self._most = chunks

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

    def matches(self, hashes: Sequence[int], workers: Collection[str], now: float) -> dict[str, int]:
        """How many leading chunks each worker is believed to hold."""
        found: dict[str, int] = {}
        remaining = set(workers)
        for position, chunk in enumerate(hashes[: self._most]):
            holders = self._chunks.get(chunk)
            if holders is None:
                break
            remaining = {w for w in remaining if w in holders and self._holds(w, holders[w], now)}
            if not remaining:
                break
            for worker in remaining:
                found[worker] = position + 1
        return found

    def remember(self, hashes: Sequence[int], worker: str, now: float) -> None:
        """The worker now computes, and so caches, these chunks."""
        entry = (self._generations.get(worker, 0), now)
        for chunk in hashes[: self._most]:
            holders = self._chunks.get(chunk)
            if holders is None:
                self._chunks[chunk] = {worker: entry}
            else:
                holders[worker] = entry
                self._chunks.move_to_end(chunk)
        while len(self._chunks) > self._entries:
            self._chunks.popitem(last=False)

    def check(self) -> None:
        """Raise AssertionError when the bounds do not hold."""
        assert len(self._chunks) <= self._entries, f"{len(self._chunks)} chunks, at most {self._entries}"
        assert all(self._chunks.values()), "a chunk without holders"

    def _holds(self, worker: str, entry: tuple[int, float], now: float) -> bool:
        generation, used = entry
        return generation == self._generations.get(worker, 0) and now - used <= self._ttl_s
