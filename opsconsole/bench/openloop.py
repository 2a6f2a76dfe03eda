"""Sends every request at its time, whatever became of the ones before.

Each request is a task of its own on a fresh connection without any pool limit, on an absolute schedule: sleeping
relative gaps loses up to half of the rate on a busy machine. Trap: requests still running when the grace ends count as
bad; dropping them would flatter an overloaded server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import aiohttp

from opsconsole.bench.arrivals import Arrival
from opsconsole.bench.client import Record, Target, ask_once
from opsconsole.bench.workload import Ask
from opsconsole.clock import Clock

STOP_GRACE = 5.0  # s for what runs when the run is told to stop

Seen = Callable[[Record], None]


def open_session() -> aiohttp.ClientSession:
    """A client that never queues: no limit on connections, none reused (some servers drop kept ones), no time-outs."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**18,
    )


async def run_open_loop(
    target: Target,
    arrivals: Sequence[Arrival],
    asks: Sequence[Ask],
    clock: Clock,
    *,
    grace: float = 30.0,
    seen: Seen | None = None,
    stop: asyncio.Event | None = None,
) -> list[Record]:
    """All records in order of arrival. `stop` ends the arrivals early; what runs then still gets a short grace."""
    bodies = [target.body(ask) for ask in asks]
    async with open_session() as session:
        start = clock.monotonic() + 0.05

        async def one(index: int, intended: float) -> Record:
            body = bodies[index]
            record = await ask_once(session, target, body, index=index, start=start, intended=intended, clock=clock)
            if seen is not None:
                seen(record)
            return record

        tasks: list[asyncio.Task[Record]] = []
        for index, arrival in enumerate(arrivals):
            if await _wait_until(start + arrival.at, clock, stop):
                break
            tasks.append(asyncio.create_task(one(index, arrival.at)))
        for task in await _still_running(tasks, grace, clock, stop):
            task.cancel()
        return list(await asyncio.gather(*tasks))


async def _wait_until(deadline: float, clock: Clock, stop: asyncio.Event | None) -> bool:
    """True when the run was stopped meanwhile."""
    while (left := deadline - clock.monotonic()) > 0:
        if stop is not None and stop.is_set():
            return True
        await clock.sleep(min(left, 0.25) if stop is not None else left)
    return stop is not None and stop.is_set()


async def _still_running(
    tasks: Sequence[asyncio.Task[Record]], grace: float, clock: Clock, stop: asyncio.Event | None
) -> set[asyncio.Task[Record]]:
    """What is unfinished when the grace is over; a wish to stop shortens it."""
    running, end = set(tasks), clock.monotonic() + grace
    is_hurried = False
    while running and (left := end - clock.monotonic()) > 0:
        if stop is not None and stop.is_set() and not is_hurried:
            end, is_hurried = min(end, clock.monotonic() + STOP_GRACE), True
            continue
        _, running = await asyncio.wait(running, timeout=min(left, 0.25) if stop is not None else left)
    return running


async def run_closed_loop(
    target: Target, asks: Sequence[Ask], clock: Clock, *, users: int, seconds: float
) -> tuple[list[Record], float]:
    """`users` at a time, each asking again when answered, for `seconds`; also the time really taken.

    Only for finding out what a server can do: latencies under a closed loop say nothing about users.
    """
    waiting = iter(enumerate(asks))
    async with open_session() as session:
        start = clock.monotonic()
        records: list[Record] = []

        async def user() -> None:
            for index, ask in waiting:
                now = clock.monotonic() - start
                if now >= seconds:
                    return
                body = target.body(ask)
                records.append(
                    await ask_once(session, target, body, index=index, start=start, intended=now, clock=clock)
                )

        await asyncio.gather(*(user() for _ in range(users)))
        return records, clock.monotonic() - start
