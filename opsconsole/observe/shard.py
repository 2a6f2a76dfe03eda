"""One reader process of a sharded scrape: takes targets on its standard input, gives observations on its output.

Run as `python -m opsconsole.observe.shard` by `sharded.py` and by nobody else. It ends when its input does, so it never
outlives its owner. The trap: anything printed on standard output would break the frames; this module prints nothing.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from typing import Any

from opsconsole.clock import SystemClock
from opsconsole.domain.records import SourceView
from opsconsole.garbage import Collector
from opsconsole.observe.scrape import ScrapeSource
from opsconsole.observe.source import Target

LENGTH = 8  # bytes before a frame, big endian


def framed(value: object) -> bytes:
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """The next value, or EOFError. Only our own processes write here, which is why it may be a pickle."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error


class _Told:
    """The targets last told."""

    def __init__(self) -> None:
        self.wanted: tuple[Target, ...] = ()

    async def targets(self, now: float) -> tuple[Target, ...]:
        return self.wanted

    def status(self) -> SourceView:
        return SourceView("told", "static", True, 0.0)

    async def close(self) -> None:
        return None


async def main() -> None:
    """In: options, then (number, targets or None for as before, now). Out: (number, observations, status)."""
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    told, clock = _Told(), SystemClock()
    collector = Collector(clock)
    try:
        source = ScrapeSource(told, clock, await read_frame(reader))
    except EOFError:
        return
    try:
        while True:
            number, targets, now = await read_frame(reader)
            if targets is not None:
                told.wanted = targets
            found = await source.observe(now)
            await asyncio.to_thread(_give, framed((number, found, source.status())))
            collector.rest()
    except (EOFError, BrokenPipeError):
        return
    finally:
        await source.close()


def _give(frame: bytes) -> None:
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
