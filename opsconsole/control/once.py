"""One decision and no daemon: on live sources after a few looks, or at a moment of a recording.

The same loop as the agent's, with a database that is thrown away and an actuator that refuses. The trap: a decision
rests on what came before it, so the past is fed through the loop first; of a recording, the ten minutes before.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opsconsole.act.actuator import Actuator, PoolState
from opsconsole.act.null import NullActuator
from opsconsole.clock import Clock, SystemClock
from opsconsole.config import Loaded
from opsconsole.control.agent import Parts, compose, observed_state
from opsconsole.control.configured import agent_settings, sources
from opsconsole.control.foresight import Foresight, ForesightOptions, foresight_options
from opsconsole.control.loop import Loop
from opsconsole.control.observing import Queue, as_observation
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.domain.fleet import PoolSpec, SloSpec
from opsconsole.domain.records import DecisionView, FleetSnapshot, SourceView, TickRecord
from opsconsole.domain.replica import Observation
from opsconsole.errors import RecordingError
from opsconsole.history.reader import Reader
from opsconsole.history.store import Store
from policies.situation import CapacityFacts, Limits

LOOKS = 3
LOOK_EVERY_S = 1.0
BEFORE_S = 600.0
KNOWN_S = 86400.0  # of a recording, known to its forecasts


class Past:
    """A recording's own clock and world: `index` says which tick it is."""

    def __init__(self, snapshots: Sequence[FleetSnapshot]) -> None:
        self.snapshots = snapshots
        self.index = 0

    def now(self) -> float:
        return self.snapshots[self.index].at

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def actuators(self) -> dict[str, Actuator]:
        """For each pool whose wanted count was recorded: one that says it and refuses the rest."""
        known = {p.pool for s in self.snapshots for p in s.pools if p.want is not None}
        return {pool: NullActuator(self._state) for pool in known}

    def queues(self) -> dict[str, Queue]:
        """For each pool whose router was heard: what waited in it."""
        known = {p.pool for s in self.snapshots for p in s.pools if p.gateway_waiting is not None}
        return {pool: functools.partial(self._queue, pool) for pool in known}

    async def _queue(self, pool: str) -> float | None:
        view = self.snapshots[self.index].pool(pool)
        return None if view is None else view.gateway_waiting

    def _state(self, pool: str) -> PoolState:
        snapshot = self.snapshots[self.index]
        view = snapshot.pool(pool)
        if view is None or view.want is None:
            return observed_state(snapshot, pool)
        return PoolState(pool, view.want)


class Played:
    """A recording as a source: at each instant, what was seen then."""

    name = "recording"

    def __init__(self, past: Past) -> None:
        self._past = past

    async def observe(self, now: float) -> tuple[Observation, ...]:
        return tuple(as_observation(view) for view in self._past.snapshots[self._past.index].replicas)

    def status(self) -> SourceView:
        bad = [s for s in self._past.snapshots[self._past.index].sources if not s.ok]
        return replace(bad[0], name=self.name) if bad else SourceView(self.name, "recording", True, age=0.0)

    async def close(self) -> None:
        return None


async def decide_live(loaded: Loaded, clock: Clock | None = None) -> TickRecord:
    """Look a few times, a second apart, and decide on the last."""
    ticking = clock or SystemClock()
    found = tuple(sources(loaded, ticking))
    settings = replace(agent_settings(loaded), mode=Mode.ADVISE, decide_every_s=None)
    try:
        with tempfile.TemporaryDirectory(prefix="opsconsole-once-") as folder:
            loop, store = await _loop(replace(settings, data_dir=Path(folder)), Parts(found), ticking)
            try:
                for _ in range(LOOKS - 1):
                    await loop.tick()
                    await ticking.sleep(LOOK_EVERY_S)
                return await loop.tick()
            finally:
                store.close()
    finally:
        for source in found:
            await source.close()


async def decide_recorded(loaded: Loaded, path: Path, at: float) -> TickRecord:
    """What the loop decides at `at` of a recording, after the ten minutes before it."""
    reader = Reader(path)
    try:
        snapshots = [s for s in reader.range(at - BEFORE_S, at, limit=2000) if s.replicas]
        known = [past.decision for past in reader.decisions_at(at)]
    finally:
        reader.close()
    if not snapshots:
        raise RecordingError(f"{path} has no replicas recorded in the ten minutes before that moment.")
    settings = agent_settings(loaded)
    if not loaded.config.pool:
        settings = replace(settings, pools=pools_of(snapshots[-1], known))
    settings = replace(settings, mode=Mode.ADVISE, interval_s=snapshots[-1].interval, fleet=snapshots[-1].fleet)
    past = Past(snapshots)
    with tempfile.TemporaryDirectory(prefix="opsconsole-once-") as folder:
        series = foresight_options(settings).series
        seen = ForesightOptions(series, path, snapshots[0].at - KNOWN_S, fits=False, waits=True)
        parts = Parts([Played(past)], past.actuators(), forecasting=Foresight(seen, past), queues=past.queues())
        loop, store = await _loop(replace(settings, data_dir=Path(folder)), parts, past)
        try:
            for index in range(len(snapshots)):
                past.index = index
                record = await loop.tick()
            return record
        finally:
            store.close()


async def _loop(settings: AgentSettings, parts: Parts, clock: Clock) -> tuple[Loop, Store]:
    store = Store(settings.database)
    return await compose(settings, parts, store, clock, threaded=False), store


def pools_of(snapshot: FleetSnapshot, decisions: Sequence[DecisionView] = ()) -> tuple[PoolSettings, ...]:
    """Pools as recorded, where no configuration says more; capacity and lead as the law of then knew them."""
    made = []
    known = {decision.pool: decision for decision in decisions}
    for view in snapshot.pools:
        low, high = view.minimum, view.maximum
        slos = tuple(SloSpec(slo.name, slo.ttft, slo.tpot, slo.target) for slo in view.slos)
        spec = PoolSpec(view.pool, view.model, low, high, slos, view.price_per_hour)
        limits = Limits(1 if low is None else low, max(10, len(snapshot.replicas)) if high is None else high)
        made.append(_as_then(PoolSettings(spec, limits), known.get(view.pool)))
    return tuple(made)


def _as_then(pool: PoolSettings, decision: DecisionView | None) -> PoolSettings:
    if decision is None:
        return pool
    told = decision.capacity
    if told is not None:
        rates = (told.request_rate, told.prompt_rate, told.output_rate)
        pool = replace(pool, capacity=CapacityFacts(*rates, told.low, told.high, told.source, told.samples))
    return pool if decision.lead is None else replace(pool, lead_s=decision.lead)
