"""The only place that reads time or sleeps.

Everything else takes a `Clock`, so that ten minutes of control loop run in milliseconds under `ManualClock`, and a
recording replays at any speed. `now()` is Unix seconds (for people and journals), `monotonic()` is for durations and
deadlines. Mixing the two is the trap: a wall clock may step.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """Time as an object. Both readings are in seconds."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def cpu_seconds() -> float:
    """CPU time of this process, all its threads together: what others do on the machine does not count."""
    return time.process_time()


class ManualClock:
    """A clock that moves only when told; sleepers wake in order of their deadlines."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking every sleeper whose deadline passes, each at its own instant."""
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            deadline, _, wake = heapq.heappop(self._sleepers)
            self._step(deadline - self._elapsed)
            if not wake.done():
                wake.set_result(None)
            for _ in range(5):  # let the woken task run, and what it wakes in turn
                await asyncio.sleep(0)
        self._step(target - self._elapsed)
        await asyncio.sleep(0)

    def _step(self, seconds: float) -> None:
        self._now += seconds
        self._elapsed += seconds
