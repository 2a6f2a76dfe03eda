"""The counts that others are to bring about: where an HPA or KEDA holds the pen, we publish instead of writing.

Knows pools, counts and ages, and nothing of who reads them. The trap: an unknown count must be unknown to the reader
as well. A count that no decision has stood by for a while is withdrawn, not repeated: a dead loop that kept saying 3
would look healthy, and one that said 0 would remove a fleet. Nor may a clock that was set back give a count more time:
one from the future is as unknown as an old one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

PATIENCE_S = 60.0  # without a decision for so long, a count is unknown


@dataclass(frozen=True, slots=True)
class Desired:
    """Replicas a pool should have; `at` is the last decision that stands by it, Unix seconds."""

    count: int
    at: float


class Board:
    """Desired counts by pool, for one agent. `pools` are those that leave their scale to others."""

    def __init__(self, pools: frozenset[str] = frozenset(), patience_s: float = PATIENCE_S) -> None:
        self.pools = pools
        self._patience_s = patience_s
        self._counts: dict[str, Desired] = {}
        self._moved = asyncio.Event()

    def count(self, pool: str) -> int | None:
        """What was last published, however old; None before the first."""
        found = self._counts.get(pool)
        return None if found is None else found.count

    def publish(self, pool: str, count: int, at: float) -> None:
        """An applied plan: the new count. A lower one is published only once its drains are done."""
        if count < 0:
            raise ValueError(f"{count} replicas cannot be published for {pool}")
        moved = self.count(pool) != count
        self._counts[pool] = Desired(count, at)
        if moved:
            self._move()

    def affirm(self, pool: str, current: int, at: float) -> None:
        """A decision was made at `at`: the published count stands; before the first, what is there now is it."""
        found = self._counts.get(pool)
        if found is None:
            self.publish(pool, current, at)
        else:
            self._counts[pool] = replace(found, at=at)

    def desired(self, pool: str, now: float) -> Desired | None:
        """The count to bring about, or None: nothing was decided, or not for a while."""
        found = self._counts.get(pool)
        return None if found is None or abs(now - found.at) > self._patience_s else found

    async def moved(self) -> None:
        """Wait until some count changes."""
        await self._moved.wait()

    def _move(self) -> None:
        before, self._moved = self._moved, asyncio.Event()
        before.set()
