"""One worker from its decision to its end: start, follow the phases, restart after a crash, drain out, go.

Carries out; how many live is decided by the supervisor's caller. Trap: a worker leaves only after the router has
stopped placing on it (routers follow the version), it refuses new requests itself, and its streams are done or the
deadline has passed; only then comes the signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from opsconsole.bench.bounds import Bounds
from opsconsole.clock import Clock
from opsconsole.local.processes import Health, WorkerProcess
from opsconsole.local.settings import UpSettings
from opsconsole.local.workers import Phase, Worker, Workers

START_POLL, DRAIN_POLL, READY_POLL = 0.1, 0.1, 1.0  # s
MUTE_LIMIT = 30.0  # s without an answer until a worker that has answered before counts as hung
SETTLE = 0.3  # s for a request that was placed just before the drain to arrive
STOP_GRACE = 3.0  # s for a worker without streams to leave by itself


class WorkerLife:
    """Runs one worker; all methods belong to the supervisor's event loop."""

    def __init__(
        self,
        worker: Worker,
        workers: Workers,
        settings: UpSettings,
        clock: Clock,
        bounds: Callable[[], Bounds | None],
        cuts: MutableMapping[str, int],
    ) -> None:
        self.worker = worker
        self._workers = workers
        self._settings = settings
        self._clock = clock
        self._bounds = bounds
        self._cuts = cuts  # streams cut by a drain's deadline, by worker
        self._process: WorkerProcess | None = None
        self._is_ending = False
        self._cut = 0
        self._drain_task: asyncio.Task[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name=worker.name)

    async def tell_bounds(self) -> None:
        """Tell the engine the bounds it counts by."""
        bounds = self._bounds()
        if bounds is not None and self._process is not None and self.worker.is_ready:
            await self._process.post("/slo", {"slo": f"default:{bounds}"})

    def drain(self, deadline_s: float) -> None:
        """Begin to leave; a worker that serves nobody leaves at once."""
        serves = self.worker.is_ready
        now = self._clock.now()
        self.worker.drain_deadline = now + deadline_s
        words = f"up to {deadline_s:g} s for its streams" if serves else "at once, it does not serve yet"
        self._workers.note(now, self.worker.name, "drain", f"{self.worker.name} drains, {words}")
        self._workers.enter(self.worker, Phase.DRAIN, now)
        self._drain_task = asyncio.get_running_loop().create_task(self._drain_out(deadline_s if serves else 0.0))

    async def undrain(self) -> bool:
        """Serve again; False when it is too late."""
        if self._is_ending or self._process is None or self.worker.phase is not Phase.DRAIN:
            return False
        if self._drain_task is not None:
            self._drain_task.cancel()
        if await self._process.post("/undrain") is None:
            self.drain(max(0.0, (self.worker.drain_deadline or 0.0) - self._clock.now()))
            return False
        self._workers.returned(self.worker, self._clock.now())
        return True

    async def stop(self, grace: float) -> None:
        """End for good, by force after `grace` seconds."""
        self._is_ending = True
        if self._drain_task is not None:
            self._drain_task.cancel()
        if self._process is not None:
            await self._process.stop(grace)
        else:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _drain_out(self, deadline_s: float) -> None:
        end = self._clock.monotonic() + deadline_s
        if self._process is not None and deadline_s > 0:
            await self._process.post("/drain")
            await self._clock.sleep(SETTLE)
            while self._clock.monotonic() < end:
                streams = await self._process.streams()
                self.worker.streams = streams if streams is not None else self.worker.streams
                if streams == 0 or not self._process.is_alive:
                    break
                await self._clock.sleep(DRAIN_POLL)
            else:
                self._cut = await self._process.streams() or 0
        self._is_ending = True
        if self._process is not None:
            await self._process.stop(0.0 if self._cut else STOP_GRACE)  # what was counted as cut is cut
        else:
            self._task.cancel()
            self._leave("before it had started")

    async def _run(self) -> None:
        while not self._is_ending:
            how = await self._one_life()
            if self._is_ending or self.worker.phase is Phase.DRAIN:
                break
            wait = self._workers.crashed(self.worker, how, self._clock.now())
            await self._clock.sleep(wait)
            self._workers.restarting(self.worker, self._clock.now())
        self._leave(f"with {self._cut} streams cut at the deadline" if self._cut else "with no stream cut")

    def _leave(self, words: str) -> None:
        if self.worker.phase is not Phase.GONE:
            self._cuts[self.worker.name] = self._cut
            text = f"{self.worker.name} is gone, {words}"
            self._workers.gone(self.worker, text, self._clock.now(), cut=float(self._cut))

    async def _one_life(self) -> str:
        await self._clock.sleep(self._settings.start_delay)
        process = WorkerProcess(self.worker, self._settings)
        bounds = self._bounds()
        try:
            await process.start(str(bounds) if bounds else None)
        except OSError as error:
            return f"could not be started ({error})"
        self._process = process
        self._workers.enter(self.worker, Phase.LOAD, self._clock.now())
        watch = asyncio.get_running_loop().create_task(self._watch(process))
        try:
            return await process.wait()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            self._process = None
            await process.close()

    async def _watch(self, process: WorkerProcess) -> None:
        """Follow the phases of a start, then see that it keeps answering."""
        heard: float | None = None
        while True:
            health = await process.health()
            now = self._clock.monotonic()
            heard = now if health.answers else heard
            if self.worker.phase is not Phase.DRAIN:
                await self._follow(process, health)
            if heard is not None and now - heard > MUTE_LIMIT:
                text = f"{self.worker.name} has not answered for {MUTE_LIMIT:g} s and is killed"
                self._workers.note(self._clock.now(), self.worker.name, "mute", text)
                process.kill()
                return
            await self._clock.sleep(READY_POLL if self.worker.is_ready else START_POLL)

    async def _follow(self, process: WorkerProcess, health: Health) -> None:
        if health.ready and not self.worker.is_ready:
            self._workers.enter(self.worker, Phase.READY, self._clock.now())
            with suppress(OSError):
                await self.tell_bounds()
        elif health.answers and self.worker.phase is Phase.LOAD:
            self._workers.enter(self.worker, Phase.WARM, self._clock.now())
        if self.worker.is_ready:
            self.worker.streams = await process.streams()
