"""A recording played through the loop: the agent's own fold, laws, alerts, journal and API, on what was seen before.

It changes nothing and asks nobody; how many replicas were wanted is what the recording says. Time is the recording's:
it stands still within a tick and jumps to the next. The trap: the first tick needs the hour before it, so the past of
the recording is copied into the replay's own database, and what was decided then is not taken for what is decided now.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opsconsole.act.actuator import Actuator, PoolState
from opsconsole.act.null import NullActuator
from opsconsole.clock import Clock, SystemClock
from opsconsole.config import Loaded, load
from opsconsole.control import logs
from opsconsole.control.agent import Parts, compose, end_on_signals, observed_state, serve, watch_parent
from opsconsole.control.configured import agent_settings
from opsconsole.control.foresight import Foresight, ForesightOptions, foresight_options
from opsconsole.control.loop import Loop, wait
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.domain.fleet import PoolSpec, SloSpec
from opsconsole.domain.records import DecisionView, FleetSnapshot, JournalEntry, TickRecord
from opsconsole.domain.wire import dumps
from opsconsole.errors import OpsConsoleError, RecordingError
from opsconsole.history.clip import copy_past
from opsconsole.history.reader import Reader
from opsconsole.history.store import Store
from opsconsole.observe.recorded import RecordedSource, ReplayClock
from policies.situation import CapacityFacts, Limits

log = logging.getLogger(__name__)
GAP_S = 60.0  # a hole in a recording is jumped over
KNOWN_S = 86400.0  # of a recording, known to its forecasts
HOLD_S = 1.0  # between two showings of the last moment
THEN = frozenset({"plan", "outcome", "mode", "note"})  # what was done then; the rest the loop says anew
ENDED = "REPLAY: the recording has ended; this is its last moment"


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where a recording is played, Unix seconds; `speed` None is as fast as it goes."""

    start: float
    end: float
    speed: float | None = None


class Playhead:
    """Where the replay is: the clock of its loop, and the recording as its source sees it."""

    def __init__(self, reader: Reader, first: FleetSnapshot) -> None:
        self.reader, self.snapshot = reader, first

    def now(self) -> float:
        return self.snapshot.at

    def monotonic(self) -> float:
        return self.snapshot.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def at(self, at: float) -> FleetSnapshot | None:
        return self.snapshot if at >= self.snapshot.at else self.reader.at(at)

    def close(self) -> None:
        self.reader.close()

    def standing(self, pool: str) -> PoolState:
        """How many replicas were wanted then; where nobody knew, those that were there."""
        view = self.snapshot.pool(pool)
        state = observed_state(self.snapshot, pool)
        return state if view is None or view.want is None else replace(state, want=view.want)

    async def in_front(self, pool: str) -> float | None:
        """What waited in the pool's router then; None where no router was heard."""
        view = self.snapshot.pool(pool)
        return None if view is None else view.gateway_waiting


class Replay:
    """One replay. `steps` plays it; `run` plays it for an API and then holds its last moment."""

    def __init__(self, loop: Loop, head: Playhead, span: Span, beneath: Clock) -> None:
        self.loop, self.head, self.span = loop, head, span
        self._beneath = beneath
        self._stop = asyncio.Event()
        self._told = 0  # the recording's journal is told up to here
        self._reset_pace()

    def _reset_pace(self) -> None:
        self._pace = None if self.span.speed is None else ReplayClock(self._beneath, self.head.now(), self.span.speed)

    async def steps(self) -> AsyncIterator[TickRecord]:
        """Every tick of the recording in its turn; those that the machine is too slow for are left out."""
        self._told = await asyncio.to_thread(self._last_line)
        while True:
            record = await self.loop.tick()
            await asyncio.to_thread(self._tell)
            yield record
            following = await asyncio.to_thread(self._following)
            if following is None:
                return
            self.head.snapshot = following
            if self._pace is not None:
                await self._until(following.at)

    async def _until(self, at: float) -> None:
        """Sleep to a moment of the recording, never long at once, so that a stop is heard."""
        assert self._pace is not None
        while (left := at - self._pace.now()) > 0:
            await self._pace.sleep(min(left, HOLD_S * self._pace.speed))
            if self._stop.is_set():
                return

    async def run(self, stop: asyncio.Event) -> None:
        """Play until the end or `stop`, then show the last moment until `stop`."""
        note, self._stop = ENDED, stop
        try:
            async for _ in self.steps():
                if stop.is_set():
                    break
        except OpsConsoleError as error:
            log.error("the replay stopped: %s", error)
            note = f"REPLAY stopped: {error}"
        while not stop.is_set():
            self._hold(note)
            await wait(stop, self._beneath, HOLD_S)
        self.loop.feed.close()

    def _hold(self, note: str) -> None:
        newest = self.loop.feed.newest
        if newest is not None:
            notes = newest.notes if note in newest.notes else (*newest.notes, note)
            last = replace(newest, notes=notes)
            self.loop.feed.publish(last, dumps(last), ())

    def _following(self) -> FleetSnapshot | None:
        """The tick that is due next: the one after this, or the newest due where this machine is late."""
        here = self.head.snapshot.at
        after = self.head.reader.step(here, 1)
        if after is None or after.at > self.span.end:
            return None
        if self._pace is None:
            return after
        if after.at - here > max(GAP_S, 3 * after.interval):
            self.head.snapshot = after
            self._reset_pace()
            return after
        if self._pace.now() <= after.at:
            return after
        due = self.head.reader.at(min(self._pace.now(), self.span.end))
        return due if due is not None and due.at > here else after

    def _last_line(self) -> int:
        lines = self.head.reader.journal(until=self.span.start, limit=1)
        return lines[-1].seq if lines else 0

    def _tell(self) -> None:
        """What people and the agent did then, as it comes by."""
        lines = self.head.reader.journal(after=self._told, until=self.head.now(), limit=1000)
        if lines:
            self._told = lines[-1].seq
            then = [self._then(line) for line in lines if line.kind in THEN]
            self.loop.journal.store.write_entries(then)

    def _then(self, line: JournalEntry) -> JournalEntry:
        return replace(line, seq=0, text=f"then: {line.text}", tick=None)


@asynccontextmanager
async def replaying(
    path: Path,
    span: Span,
    folder: Path,
    loaded: Loaded | None = None,
    beneath: Clock | None = None,
    *,
    waits: bool = True,
) -> AsyncIterator[Replay]:
    """A replay over a database of its own in `folder`; `loaded` gives pools and laws other than those recorded.

    With `waits` the first tick has read the history for its forecasts, so that two replays say the same.
    """
    reader = Reader(path)
    try:
        first = reader.at(span.start)
        if first is None or not first.replicas:
            first = reader.step(span.start, 1)
        if first is None:
            raise RecordingError(f"{path} has nothing recorded at that moment.")
        settings = replay_settings(path, span, folder, reader, loaded)
        copy_past(path, settings.database, first.at)
        head = Playhead(reader, first)
        store = Store(settings.database)
        try:
            actuators: dict[str, Actuator] = {pool.name: NullActuator(head.standing) for pool in settings.pools}
            past = ForesightOptions(
                foresight_options(settings).series, settings.database, first.at - KNOWN_S, fits=False, waits=waits
            )
            forecasting = Foresight(past, beneath or SystemClock())
            queues = {pool.name: partial(head.in_front, pool.name) for pool in settings.pools}
            parts = Parts([RecordedSource(head, head)], actuators, forecasting=forecasting, queues=queues)
            loop = await compose(settings, parts, store, head, threaded=False)
            try:
                yield Replay(loop, head, span, beneath or SystemClock())
            finally:
                forecasting.close()
        finally:
            store.close()
    finally:
        reader.close()


def replay_settings(path: Path, span: Span, folder: Path, reader: Reader, loaded: Loaded | None) -> AgentSettings:
    """The recording's own pools and pace, unless a configuration says otherwise; it looks and changes nothing."""
    last = reader.at(span.end)
    if last is None:
        raise RecordingError(f"{path} has nothing recorded by then.")
    settings = AgentSettings(folder) if loaded is None else agent_settings(loaded)
    if loaded is None or not loaded.config.pool:
        known = [past.decision for past in reader.decisions_at(span.start)]
        settings = replace(settings, pools=pools_of(last, known), any_pool=None)
    speed = "as fast as it goes" if span.speed is None else f"{span.speed:g}x"
    return replace(
        settings,
        data_dir=folder,
        fleet=last.fleet,
        interval_s=last.interval,
        decide_every_s=None,
        mode=Mode.ADVISE,
        allow_intents=False,
        listen=None,
        tokens=(),
        notes=(f"REPLAY of {path.name}, {speed}",),
    )


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
        capacity = CapacityFacts(*rates, told.low, told.high, told.source, told.samples, prompt_share=told.prompt_share)
        pool = replace(pool, capacity=capacity)
    return pool if decision.lead is None else replace(pool, lead_s=decision.lead)


async def serve_replay(path: Path, span: Span, folder: Path, loaded: Loaded | None, parent: int | None) -> int:
    """The agent API over a recording, on the socket in `folder`, until a signal or the parent's end."""
    clock, stop = SystemClock(), asyncio.Event()
    end_on_signals(stop)
    async with replaying(path, span, folder, loaded, waits=False) as replay:
        watching = None if parent is None else asyncio.create_task(watch_parent(parent, stop, clock))
        try:
            return await serve(replay.loop, replay.head, stop, replay.run)
        finally:
            if watching is not None:
                watching.cancel()


async def play_through(path: Path, span: Span, loaded: Loaded | None, told: Callable[[TickRecord], object]) -> int:
    """Play headless, every tick to `told`; how many there were."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="opsconsole-replay-") as folder:
        async with replaying(path, span, Path(folder), loaded) as replay:
            async for record in replay.steps():
                told(record)
                count += 1
    return count


def main(arguments: list[str] | None = None) -> int:
    """The process that a console starts beside itself."""
    parser = argparse.ArgumentParser(prog="opsconsole replay")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    for name in ("--start", "--end", "--speed"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("path", type=Path)
    given = parser.parse_args(arguments)
    logs.set_up(as_json=True)
    span = Span(given.start, given.end, given.speed)
    try:
        loaded = None if given.config is None else load(given.config)
        return asyncio.run(serve_replay(given.path, span, given.data_dir, loaded, os.getppid()))
    except OpsConsoleError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
