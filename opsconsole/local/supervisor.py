"""The owner of every process of single-node mode: keeps what lives in line with what is wanted.

It decides nothing about how many; the agent does, over the socket (`supervisor_api`). Trap: minimum and maximum are
held here as well, on every path, because a wrong count on a small machine takes the machine down.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.clock import Clock
from opsconsole.local.changes import Act, Acts, Change
from opsconsole.local.companions import Companions
from opsconsole.local.life import STOP_GRACE, WorkerLife
from opsconsole.local.settings import POOL, Measured, UpSettings
from opsconsole.local.workers import Phase, Worker, Workers


class Supervisor:
    """Workers and companions (router, agent), kept as wanted."""

    def __init__(self, settings: UpSettings, settings_file: Path, clock: Clock, companions: Companions) -> None:
        self.settings = settings
        self.workers = Workers(settings.minimum, settings.devices, self._announce)
        self.acts = Acts()
        self.companions = companions
        self.bounds: Bounds | None = settings.bounds
        self.is_stopping = False
        self._file = settings_file
        self._clock = clock
        self._lives: dict[str, WorkerLife] = {}
        self._moved = asyncio.Event()

    def start(self) -> None:
        """Start the first worker alone: calibration wants a quiet machine; the rest follow at `begin`."""
        self._add(self._clock.now())

    async def begin(self, measured: Measured) -> None:
        """Calibration is over: the bounds are known, so companions and the other workers may start."""
        self.bounds = measured.bounds
        starts = [worker.ready_at - worker.decided_at for worker in self.workers if worker.ready_at is not None]
        measured = replace(measured, start_s=max(starts, default=None))
        self.settings = replace(self.settings, bounds=measured.bounds, measured=measured)
        self.settings.save(self._file)
        await asyncio.gather(*(life.tell_bounds() for life in self._lives.values()))
        await self.companions.start()
        await self._fill(self._clock.now())

    async def change(self, change: Change) -> None:
        """Carry out one wish; a wish taken before is not carried out again."""
        if change.act_id in self.acts:
            return
        before = {worker.name for worker in self.workers}
        at = self._clock.now()
        if change.kind == "undrain":
            returning = await self._undrain(change.names)
            self.acts.take(change.act_id, Act(change.kind, at, returning=tuple(returning)))
            return
        leaving = await (self._scale(change) if change.kind == "scale" else self._drain(change))
        coming = tuple(worker.name for worker in self.workers if worker.name not in before)
        self.acts.take(change.act_id, Act(change.kind, at, coming, tuple(worker.name for worker in leaving)))

    async def stop(self, grace: float) -> None:
        """End everything: companions first, then the workers with what is left of the grace."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.workers.changed()
        began = self._clock.monotonic()
        await self.companions.stop(grace)
        left = max(0.0, grace - (self._clock.monotonic() - began))
        await asyncio.gather(*(life.stop(min(STOP_GRACE, left)) for life in self._lives.values()))

    async def wait_moved(self, version: int, seconds: float) -> None:
        """Until the version differs from `version`, at most `seconds`."""
        if version == self.workers.version and not self.is_stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._moved.wait()

    def state(self, events_after: int = 0) -> dict[str, Any]:
        """Everything there is to know, for router, agent and console."""
        workers = self.workers
        return {
            "pool": POOL,
            "version": workers.version,
            "want": workers.want,
            "minimum": self.settings.minimum,
            "maximum": self.settings.maximum,
            "owner": None,
            "stopping": self.is_stopping,
            "url": self.settings.url,
            "bounds": self.bounds.limits() if self.bounds else None,
            "members": [worker.to_json() for worker in workers],
            "companions": {
                companion.name: {"pid": companion.pid, "alive": companion.is_alive, "restarts": companion.restarts}
                for companion in (self.companions.router, self.companions.agent)
                if companion is not None
            },
            "events": [event.to_json() for event in workers.events if event.seq > events_after],
        }

    async def _scale(self, change: Change) -> list[Worker]:
        """Bring the pool to what is wanted, the named ones going first. Undraining is cheaper than starting."""
        want = change.want if change.want is not None else self.workers.want
        bounded = min(self.settings.maximum, max(self.settings.minimum, want))
        now = self._clock.now()
        if bounded != self.workers.want:
            text = f"{bounded} workers are wanted, before it was {self.workers.want}"
            self.workers.note(now, "", "scale", text, want=bounded)
        self.workers.want = bounded
        self.workers.changed()
        await self._fill(change.decided_at or now)
        surplus = self.workers.surplus(change.names)
        for worker in surplus:
            self._lives[worker.name].drain(self._deadline(change))
        return surplus

    async def _drain(self, change: Change) -> list[Worker]:
        """Drain these; as many fewer are wanted, but never less than the minimum (then others start)."""
        chosen = [worker for worker in self.workers.members if worker.name in change.names]
        self.workers.want = max(self.settings.minimum, self.workers.want - len(chosen))
        for worker in chosen:
            self._lives[worker.name].drain(self._deadline(change))
        await self._fill(change.decided_at or self._clock.now(), undrain=False)
        return chosen

    async def _undrain(self, names: tuple[str, ...]) -> list[str]:
        """Put these back into service, where they still live and fit under the maximum."""
        returned = []
        for worker in [w for w in self.workers if w.name in names and w.phase is Phase.DRAIN]:
            if len(self.workers.members) < self.settings.maximum and await self._lives[worker.name].undrain():
                self.workers.want = len(self.workers.members)
                returned.append(worker.name)
        self.workers.changed()
        return returned

    def _deadline(self, change: Change) -> float:
        return self.settings.drain_deadline if change.deadline_s is None else change.deadline_s

    def _announce(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _fill(self, decided_at: float, undrain: bool = True) -> None:
        """Undrain, then add, until as many live as are wanted."""
        draining = [worker for worker in self.workers if worker.phase is Phase.DRAIN] if undrain else []
        while draining and len(self.workers.members) < self.workers.want:
            await self._lives[draining.pop().name].undrain()
        while len(self.workers.members) < self.workers.want:
            self._add(decided_at)

    def _add(self, decided_at: float) -> None:
        worker = self.workers.add(decided_at, self._clock.now())
        for name in [name for name in self._lives if self.workers.get(name) is None]:
            del self._lives[name]
        self._lives[worker.name] = WorkerLife(
            worker, self.workers, self.settings, self._clock, lambda: self.bounds, self.acts.cuts
        )
