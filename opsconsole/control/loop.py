"""The loop: observe, fold, decide, act, journal, show; one tick after another on one clock.

It composes the steps and holds what lives from tick to tick; each step's own module knows how. Nothing a replica, a
source, a law or an actuator does ends it. The trap: `want` comes from the actuator at every tick, never from what this
process remembers to have asked for, so that a restart or another writer cannot make it scale twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opsconsole.act.board import Board
from opsconsole.clock import Clock
from opsconsole.control import set_back
from opsconsole.control.alerts import AlertBook
from opsconsole.control.deciding import Decided, Decider, Laws
from opsconsole.control.events import replica_events
from opsconsole.control.feed import Feed
from opsconsole.control.forecasting import Forecasting, Guarded, NoForecast
from opsconsole.control.hands import Hands
from opsconsole.control.journal import Journal, alert_entries
from opsconsole.control.lead_price import LeadBook
from opsconsole.control.logs import log_entries
from opsconsole.control.meter import Meter
from opsconsole.control.mode import acts_by_itself
from opsconsole.control.observing import FoldInput, Queue, gather, safe_fold, waiting_in_front
from opsconsole.control.regret import Judged, RegretBook
from opsconsole.control.regret import entries as regret_entries
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.control.situation import Surroundings, situation_of
from opsconsole.control.standing import WATCHED, Standing, undecidable, with_pools_seen
from opsconsole.control.stopwatch import Stopwatch
from opsconsole.domain.fleet import FleetState
from opsconsole.domain.records import (
    FleetSnapshot,
    ForecastView,
    JournalEntry,
    Outcome,
    Plan,
    PoolView,
    RegretView,
    TickRecord,
)
from opsconsole.domain.wire import dumps
from opsconsole.errors import OpsConsoleError
from opsconsole.history.rings import Ring
from opsconsole.observe.source import Source
from policies.situation import Situation

log = logging.getLogger(__name__)
MOST_UNWRITTEN = 1000  # journal lines kept for a disk that comes back


class Loop:
    """One agent's loop. `tick` is one turn; `run` turns until told to stop."""

    def __init__(
        self,
        settings: AgentSettings,
        sources: Sequence[Source],
        hands: Hands,
        laws: Laws,
        journal: Journal,
        clock: Clock,
        *,
        meter: Meter | None = None,
        folded: FleetState | None = None,
        forecasting: Forecasting | None = None,
        queues: Mapping[str, Queue] | None = None,
        board: Board | None = None,
        threaded: bool = True,
    ) -> None:
        self.settings = settings
        self.board = board or Board()
        self.hands = hands
        self.journal = journal
        self.feed = Feed()
        self.meter = meter or Meter()
        self.ring = Ring()
        self.rest: Callable[[], None] | None = None  # called after a tick, when nothing is urgent
        self.forecasting = Guarded(forecasting or NoForecast())
        self._sources = tuple(sources)
        self._queues = dict(queues or {})
        self._clock = clock
        self._threaded = threaded
        self._folded = folded or FleetState()
        self._previous: FleetSnapshot | None = None
        self._failing: dict[str, str] = {}  # by pool: what its law last failed with, or why it was not asked
        self._unknown: dict[str, str] = {}  # by pool: why nothing is decided in this tick
        self._decided_at = -math.inf
        found = journal.recover()
        self.holds = found.holds
        self.alerts = AlertBook(silences=found.silences)
        self._tick = found.last_tick
        self._decider = Decider(laws, settings.baselines)
        self._regrets = RegretBook()
        self._regrets.recall(found.unjudged)
        self._leads = LeadBook()
        self._unwritten: tuple[JournalEntry, ...] = ()
        self._problems = self._decider.recall(found.memories)

    async def run(self, stop: asyncio.Event) -> None:
        """Tick at every interval until `stop`; a tick that overruns delays the next and is not made up for."""
        due = self._clock.monotonic()
        while not stop.is_set():
            late = self._clock.monotonic() - due
            try:
                await self.tick(late)
            except Exception:
                log.exception("a tick failed")
                self.meter.failed()
            due += self.settings.interval_s
            behind = math.floor((self._clock.monotonic() - due) / self.settings.interval_s)
            if behind > 0:
                self.meter.skipped(behind)
                due += behind * self.settings.interval_s
            if self.rest is not None:
                self.rest()
            await wait(stop, self._clock, due - self._clock.monotonic())
        self.feed.close()

    async def tick(self, late_s: float = 0.0) -> TickRecord:
        """One turn. Raises nothing that a replica, source, law, actuator or disk can cause."""
        watch = Stopwatch(self._clock, self.meter)
        now = self._clock.now()
        if self._previous is not None and set_back.is_set_back(self._previous.at, now):
            self._begin_anew(self._previous.at, now)
        deadline = max(1.0, 2.0 * self.settings.interval_s)
        gathered, standings, fronts = await asyncio.gather(
            gather(self._sources, now, deadline), self._standings(), waiting_in_front(self._queues, deadline)
        )
        watch.lap("observe")
        seen = {o.replica.pool for o in gathered.observations} | {pool for pool, _ in self._folded.seen}
        self.settings = settings = with_pools_seen(self.settings, seen)
        self._tick += 1
        self.holds = self.holds.current(now)
        wants = {name: s.state.want for name, s in standings.items() if s.state is not None}
        self._unknown = undecidable(settings, standings)
        notes = (*settings.notes, *self.holds.notes(now), *self._unknown.values())
        given = FoldInput(self._tick, now, settings, wants, gathered.sources, notes)
        snapshot, self._folded = safe_fold(given, gathered.observations, self._folded)
        snapshot = _with_fronts(snapshot, fronts)
        watch.lap("fold")
        self.forecasting.observe(snapshot)
        watch.lap("forecast")
        decided = self._decide(snapshot, standings) if self._is_due(now) else ()
        self.ring.push(snapshot)
        watch.lap("decide")
        outcomes, entries = await self.hands.follow(self._tick)
        plans, acted = await self._act(decided)
        watch.lap("act")
        self.alerts, changes = self.alerts.update(snapshot, settings.alerts)
        lines = (*self._errors(decided), *replica_events(self._previous, snapshot), *entries, *acted)
        judged = self._look_back(snapshot, decided)
        lines = (*lines, *alert_entries(changes, snapshot), *regret_entries(judged, snapshot.tick, snapshot.at))
        snapshot, text = await self._keep(snapshot, decided, lines, [j.regret for j in judged])
        watch.lap("journal")
        self._previous = snapshot
        self._show(snapshot, decided, outcomes, text)
        self._affirm(decided, standings, snapshot.at)
        watch.finish(late_s)
        return TickRecord(snapshot, tuple(d.view for d in decided), plans, outcomes, self.forecasts())

    def _begin_anew(self, before: float, now: float) -> None:
        """The clock was set back: nothing that is remembered may wait for a time that has yet to come."""
        self._folded = set_back.fleet_at(self._folded, now)
        self.alerts = set_back.alerts_at(self.alerts, now)
        self._decider.memories = {k: set_back.memory_at(m, now) for k, m in self._decider.memories.items()}
        self.ring, self._regrets = Ring(), RegretBook()
        self._unwritten = (*self._unwritten, set_back.told(before, now))

    def forecasts(self) -> tuple[ForecastView, ...]:
        """The newest forecasts, with the level each pool buys for and how its decisions have fared."""
        levels = self._levels()
        return tuple(
            replace(
                view,
                bought=levels.get(view.pool),
                regret=self._regrets.tally(view.pool),
                needs=self._leads.told(view.pool),
            )
            for view in self.forecasting.views()
        )

    def _levels(self) -> dict[str, float]:
        return {pool.name: self._decider.level(pool) for pool in self.settings.pools}

    def _look_back(self, snapshot: FleetSnapshot, decided: Sequence[Decided]) -> tuple[Judged, ...]:
        """Judge the decisions whose time has come, and remember the new ones."""
        views = [d.view for d in decided]
        capacities = {view.pool: view.capacity for view in views if view.capacity is not None}
        judged = self._regrets.settle(snapshot, capacities)
        self._leads.note(decided, self._levels())
        bounds = {pool.name: (pool.limits.minimum, pool.limits.maximum) for pool in self.settings.pools}
        self._regrets.note(views, self.settings.decide_every_s or self.settings.interval_s, bounds)
        return judged

    async def _standings(self) -> dict[str, Standing]:
        names = [pool.name for pool in self.settings.pools]
        found = await asyncio.gather(*(self._standing(name) for name in names))
        return dict(zip(names, found, strict=True))

    async def _standing(self, pool: str) -> Standing:
        if not self.hands.has_world(pool):
            return WATCHED
        try:
            state = await self.hands.state(pool)
        except OpsConsoleError as error:
            return Standing(None, str(error))
        if state.owner is not None:
            return Standing(state, f"{state.owner} owns the scale of {pool}: two writers would fight")
        return Standing(state, state.hold)

    def _is_due(self, now: float) -> bool:
        if self.settings.mode is Mode.OFF:
            return False
        every = self.settings.decide_every_s or 0.0
        if 0.0 <= now - self._decided_at < every - 1e-6:
            return False
        self._decided_at = now
        return True

    def _decide(self, snapshot: FleetSnapshot, standings: dict[str, Standing]) -> tuple[Decided, ...]:
        pools = self.settings.pools
        found = ((self._situation(snapshot, pool, standings.get(pool.name, WATCHED)), pool) for pool in pools)
        asked = [(situation, pool) for situation, pool in found if situation is not None]
        self._decider.baselines = self.settings.baselines
        return self._decider.decide(asked, self.settings.budgets)

    def _situation(self, snapshot: FleetSnapshot, pool: PoolSettings, standing: Standing) -> Situation | None:
        want = standing.want(snapshot, pool.name)
        if want is None or pool.name in self._unknown:
            return None
        around = Surroundings(
            want=want,
            frozen_reason=standing.problem,
            holds=self.holds,
            outlooks=self.forecasting.outlooks(pool.name, snapshot.at),
            queue=(*self.ring.series(pool.name, _waiting), (snapshot.at, _waiting(snapshot.pool(pool.name)))),
            interval_s=self.settings.decide_every_s or self.settings.interval_s,
        )
        return situation_of(snapshot, pool, around)

    async def _act(self, decided: Sequence[Decided]) -> tuple[tuple[Plan, ...], tuple[JournalEntry, ...]]:
        plans: list[Plan] = []
        entries: list[JournalEntry] = []
        if not acts_by_itself(self.settings.mode):
            return (), ()
        for item in decided:
            if item.view.target == item.view.current or item.situation.frozen_reason is not None:
                continue  # bounds win over a pause, not over whoever else owns the scale
            plan, lines = await self.hands.carry_out(item.view, "auto", self._tick)
            entries += lines
            if plan is not None:
                plans.append(plan)
        return tuple(plans), tuple(entries)

    def _errors(self, decided: Sequence[Decided]) -> tuple[JournalEntry, ...]:
        """Lines for laws that failed (once, not every tick) and for memories that could not be read."""
        now, lines = self._clock.now(), list(self._problems)
        self._problems = ()
        fresh = {d.view.pool: d.error for d in decided if d.error is not None} | self._unknown
        lines += [text for pool, text in fresh.items() if self._failing.get(pool) != text]
        if decided or self._unknown:
            self._failing = fresh
        return tuple(JournalEntry(0, now, "error", "", text, self._tick) for text in lines)

    async def _keep(
        self,
        snapshot: FleetSnapshot,
        decided: Sequence[Decided],
        lines: Sequence[JournalEntry],
        regrets: Sequence[RegretView],
    ) -> tuple[FleetSnapshot, str]:
        """Write the tick down. A disk that is full must not blind the screens: then it is shown, with a note."""
        waiting = (*self._unwritten, *lines)
        try:
            text = await self._write(snapshot, decided, waiting, regrets)
        except (sqlite3.Error, OSError) as error:
            log.exception("the tick cannot be written")
            self.meter.failed()
            self._unwritten = waiting[-MOST_UNWRITTEN:]
            told = replace(snapshot, notes=(*snapshot.notes, f"the journal cannot be written: {error}"))
            return told, dumps(told)
        self._unwritten = ()
        return snapshot, text

    async def _write(
        self,
        snapshot: FleetSnapshot,
        decided: Sequence[Decided],
        lines: Sequence[JournalEntry],
        regrets: Sequence[RegretView],
    ) -> str:
        def write() -> str:
            text = dumps(snapshot)
            state = {**self._decider.to_state(), **self._regrets.to_state()} if decided else {}
            log_entries(self.journal.write(snapshot, decided, lines, state, text, regrets))
            return text

        return await asyncio.to_thread(write) if self._threaded else write()

    def _affirm(self, decided: Sequence[Decided], standings: Mapping[str, Standing], now: float) -> None:
        """Stand by the published counts of pools that others scale. Who may not change a pool (a follower, or a daemon
        that only advises) has nothing to publish for it, and its count grows old."""
        for view in (d.view for d in decided if acts_by_itself(self.settings.mode)):
            if view.pool in self.board.pools and standings[view.pool].problem is None:
                self.board.affirm(view.pool, view.current, now)
        known = {pool: self.board.desired(pool, now) for pool in self.board.pools}
        self.meter.publish({pool: found.count for pool, found in known.items() if found is not None})

    def _show(
        self, snapshot: FleetSnapshot, decided: Sequence[Decided], outcomes: Sequence[Outcome], text: str
    ) -> None:
        views = tuple(d.view for d in decided)
        self.feed.publish(snapshot, text, views)
        self.meter.see(snapshot, views, self.alerts.views())
        for outcome in outcomes:
            self.meter.outcome(outcome)


def _with_fronts(snapshot: FleetSnapshot, fronts: Mapping[str, float]) -> FleetSnapshot:
    """The snapshot with what waits in front of its pools."""
    if not fronts:
        return snapshot
    pools = tuple(replace(view, gateway_waiting=fronts.get(view.pool)) for view in snapshot.pools)
    return replace(snapshot, pools=pools)


def _waiting(view: PoolView | None) -> float | None:
    return None if view is None else view.waiting


async def wait(stop: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Sleep on the loop's clock, or less when told to stop."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sleeping, stopping):
            task.cancel()
        await asyncio.gather(sleeping, stopping, return_exceptions=True)
