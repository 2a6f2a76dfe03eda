"""Direct scraping over several processes, where one core cannot read every page in a tick.

It must not read pages itself: each shard runs the very `ScrapeSource` that runs in one process otherwise. A target
stays with its shard, chosen by its address, so that one named twice is still seen. The trap: an answer that comes after
its tick belongs to an older question; frames are numbered and late ones are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import zlib
from dataclasses import dataclass

from opsconsole.clock import Clock
from opsconsole.domain.records import SourceView
from opsconsole.errors import SourceError, SourceErrorKind
from opsconsole.observe.scrape import ScrapeOptions, canonical_url
from opsconsole.observe.shard import framed, read_frame
from opsconsole.observe.source import Observation, Target, TargetProvider

GRACE_S = 0.5  # beyond a shard's own budget, for its answer to travel


@dataclass(slots=True)
class _Shard:
    """One reader process and what was last said to it."""

    process: asyncio.subprocess.Process | None = None
    told: tuple[Target, ...] | None = None
    status: SourceView | None = None
    waiting: asyncio.Future[tuple[Observation, ...]] | None = None
    number: int = 0  # of the question that is waited for
    listener: asyncio.Task[None] | None = None


class ShardedSource:
    """A `Source` like `ScrapeSource`, whose reading is done by `shards` processes."""

    def __init__(
        self,
        targets: TargetProvider,
        clock: Clock,
        options: ScrapeOptions | None = None,
        shards: int = 2,
        name: str = "scrape",
    ) -> None:
        self.name = name
        self._provider, self._clock = targets, clock
        self._options = options or ScrapeOptions()
        self._shards = [_Shard() for _ in range(max(1, shards))]
        self._number = 0

    async def observe(self, now: float) -> tuple[Observation, ...]:
        self._number += 1
        parts = self._parts(await self._provider.targets(now))
        asks = [self._ask(shard, part, now) for shard, part in zip(self._shards, parts, strict=True)]
        return tuple(observation for found in await asyncio.gather(*asks) for observation in found)

    def status(self) -> SourceView:
        provider = self._provider.status()
        views = [shard.status for shard in self._shards if shard.told and shard.status is not None]
        ages = [view.age for view in views if view.age is not None]
        age = min(ages) if ages else None
        if not provider.ok:
            return SourceView(self.name, "scrape", False, age, provider.error, provider.error_kind, provider.retry_at)
        words = "; ".join(view.error for view in views if view.error)
        kind = next((view.error_kind for view in views if view.error_kind), None)
        return SourceView(self.name, "scrape", any(v.ok for v in views) or not views, age, words or None, kind)

    async def close(self) -> None:
        await asyncio.gather(*(self._end(shard) for shard in self._shards))
        await self._provider.close()

    def _parts(self, targets: tuple[Target, ...]) -> list[tuple[Target, ...]]:
        parts: list[list[Target]] = [[] for _ in self._shards]
        for target in targets:
            key = canonical_url(target.url) if target.url else target.replica.name
            parts[zlib.crc32(key.encode()) % len(parts)].append(target)
        return [tuple(part) for part in parts]

    async def _ask(self, shard: _Shard, part: tuple[Target, ...], now: float) -> tuple[Observation, ...]:
        """A shard's answer, or an error for each of its targets: a shard that fell is started again next time."""
        if not part and shard.process is None:
            shard.told = part
            return ()
        try:
            async with asyncio.timeout(self._options.budget_s + self._options.spread_s + GRACE_S):
                return await self._question(shard, part, now)
        except TimeoutError:
            words, kind = "its reader process is behind", SourceErrorKind.TIMEOUT
        except (EOFError, OSError) as error:
            await self._end(shard)
            words, kind = f"its reader process ended ({error or 'no answer'})", SourceErrorKind.INTERNAL
        failed = SourceError(kind, words, now)
        shard.status = SourceView(self.name, "scrape", False, None, words, kind.value)
        return tuple(Observation(target.replica, error=failed) for target in part)

    async def _question(self, shard: _Shard, part: tuple[Target, ...], now: float) -> tuple[Observation, ...]:
        if shard.listener is not None and shard.process is not None and shard.listener.done():
            raise EOFError("it ended between two ticks")
        if shard.process is None:
            shard.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "opsconsole.observe.shard",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**20,
            )  # fmt: skip
            shard.told = None
            shard.listener = asyncio.create_task(_listen(shard, shard.process))
            _write(shard.process, self._options)
        shard.number = self._number
        shard.waiting = asyncio.get_running_loop().create_future()
        _write(shard.process, (shard.number, None if part == shard.told else part, now))
        shard.told = part
        assert shard.process.stdin is not None
        await shard.process.stdin.drain()
        return await shard.waiting

    async def _end(self, shard: _Shard) -> None:
        process, shard.process, shard.told = shard.process, None, None
        if process is None:
            return
        if shard.listener is not None:
            shard.listener.cancel()
            await asyncio.gather(shard.listener, return_exceptions=True)
        with contextlib.suppress(OSError, RuntimeError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            async with asyncio.timeout(2.0):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _listen(shard: _Shard, process: asyncio.subprocess.Process) -> None:
    """Reads every frame to its end, asked for or not: a read given up in the middle would lose the thread for good."""
    assert process.stdout is not None
    try:
        while True:
            number, found, status = await read_frame(process.stdout)
            shard.status = status
            if number == shard.number and shard.waiting is not None and not shard.waiting.done():
                shard.waiting.set_result(tuple(found))
    except EOFError as error:
        if shard.waiting is not None and not shard.waiting.done():
            shard.waiting.set_exception(error)


def _write(process: asyncio.subprocess.Process, value: object) -> None:
    assert process.stdin is not None
    process.stdin.write(framed(value))
