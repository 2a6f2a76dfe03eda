"""The process that makes the built-in load: asks the router as users would and writes every request down.

A process of its own, so that neither screen nor decisions slow it down. `python -m opsconsole.local.load FILE` with the
fields of `LoadOrder`. Trap: on SIGTERM it stops asking but waits for what runs; only a second one, or the end of its
grace, gives those up as bad.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Target
from opsconsole.bench.openloop import run_open_loop
from opsconsole.bench.workload import build
from opsconsole.clock import SystemClock
from opsconsole.local.loads import DAY_SECONDS, draw_load
from opsconsole.local.runs import RunLog

SEGMENT = 3600.0  # s of load drawn at a time where no end is named


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """What to ask, of whom, and where to write it down."""

    url: str
    model: str
    database: str
    run_id: str
    load: str
    sustained: float
    seconds: float | None
    seed: int
    bounds: Bounds
    api_key: str | None = None
    grace: float = 30.0
    day: float = DAY_SECONDS  # of the diurnal load

    def save(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_order(path: Path) -> LoadOrder:
    """What `save` wrote."""
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return LoadOrder(**{**raw, "bounds": Bounds(**raw["bounds"])})


async def run(order: LoadOrder) -> None:
    """Ask until the end or a signal; write as replies come."""
    clock = SystemClock()
    stop, stopped_at = asyncio.Event(), [0.0]

    def asked_to_stop() -> None:
        stopped_at[0] = stopped_at[0] or clock.now()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop)
    log = RunLog(Path(order.database), order.run_id, order.bounds)
    started = clock.now()
    config = {"sustained": order.sustained, "seed": order.seed, "bounds": str(order.bounds)}
    log.open(started, order.load, config)
    try:
        segment = 0
        while not stop.is_set() and (segment == 0 or order.seconds is None):
            await _segment(order, segment, log, clock, stop)
            segment += 1
        await _sit_out(started + order.seconds if order.seconds else 0.0, clock, stop)
    finally:
        log.close(stopped_at[0] or (started + order.seconds if order.seconds else clock.now()))


async def _sit_out(end: float, clock: SystemClock, stop: asyncio.Event) -> None:
    """A quiet end belongs to the run: in it the fleet shrinks."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, end - clock.now())):
            await stop.wait()


async def _segment(order: LoadOrder, number: int, log: RunLog, clock: SystemClock, stop: asyncio.Event) -> None:
    seed = order.seed + 2 * number
    arrivals = draw_load(order.load, order.sustained, order.seconds or SEGMENT, Random(seed), order.day)
    asks = build("demo", arrivals, seed + 1)
    log.begin_segment(clock.now(), number)
    target = Target(url=order.url, model=order.model, api_key=order.api_key)
    await run_open_loop(target, arrivals, asks, clock, grace=order.grace, seen=log.add, stop=stop)


def main() -> None:
    """The process."""
    asyncio.run(run(read_order(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
