"""From a decision to a change of the world and back: plan, write down, apply, follow to the end.

It knows actuators and the journal and not why a target was chosen. Every act is written before the world is touched,
so a restart finds it: one the actuator knows is followed, one it never saw is closed as not done, and in neither case
is it applied a second time. The trap: applying moves the pool's `want` at once while replicas take minutes; the next
decision starts from `want`, so nothing may look at the replica count to see whether an act was done.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from opsconsole.act.actuator import Actuator, PoolState
from opsconsole.clock import Clock
from opsconsole.control.words import outcome_entry, plan_entry
from opsconsole.domain.records import DecisionView, JournalEntry, Outcome, Plan, PlanKind
from opsconsole.errors import OpsConsoleError, PlanRefused, UsageError
from opsconsole.history.store import Act, Store

log = logging.getLogger(__name__)
T = TypeVar("T")
CALL_S = 10.0  # an actuator that does not answer within this is a failed call


PATIENCE_S = 60.0  # the longest wait before a change that was refused is tried again


class _Tried(NamedTuple):
    """A target that was refused, how often in a row, and when it may be tried again."""

    target: int
    failures: int
    again_at: float


class Hands:
    """Applies and follows plans, one actuator a pool."""

    def __init__(self, actuators: Mapping[str, Actuator], fallback: Actuator, store: Store, clock: Clock) -> None:
        self._actuators = dict(actuators)
        self._fallback = fallback
        self._store = store
        self._clock = clock
        self._tries: dict[str, _Tried] = {}  # by pool
        self._open: dict[str, Act] = {act.plan.plan_id: act for act in store.open_acts()}

    def actuator(self, pool: str) -> Actuator:
        return self._actuators.get(pool, self._fallback)

    def has_world(self, pool: str) -> bool:
        """Whether anybody can say how many replicas the pool is meant to have."""
        return pool in self._actuators

    @property
    def in_flight(self) -> tuple[Act, ...]:
        return tuple(self._open.values())

    async def state(self, pool: str) -> PoolState:
        """The pool as its actuator holds it; an actuator that fails raises `OpsConsoleError` in words."""
        return await self._call(self.actuator(pool).state(pool))

    async def carry_out(
        self, decision: DecisionView, by: str, tick: int
    ) -> tuple[Plan | None, tuple[JournalEntry, ...]]:
        """Plan and apply what was decided. Refusals and failures are journal entries, never exceptions."""
        hands = self.actuator(decision.pool)
        shrinking = decision.target < decision.current
        if shrinking and any(_shrinks(act.plan) and act.plan.pool == decision.pool for act in self._open.values()):
            return None, ()  # one drain at a time: the one under way comes first
        if self._must_wait(decision):
            return None, ()
        try:
            drain = decision.drain if shrinking else ()
            plan = await self._call(hands.plan_scale(decision.pool, decision.target, decision.reason, drain))
        except OpsConsoleError as error:
            told = self._error(decision.pool, f"no plan for {decision.pool}: {error}", tick)
            return None, (told, *self._failed(decision, tick))
        entries, outcome = await self.apply(plan, by, tick)
        if outcome.status in ("refused", "failed"):
            entries = (*entries, *self._failed(decision, tick))
        else:
            self._tries.pop(decision.pool, None)
        return plan, entries

    def _must_wait(self, decision: DecisionView) -> bool:
        tried = self._tries.get(decision.pool)
        if tried is None or tried.target != decision.target:
            return False
        return 0.0 < tried.again_at - self._clock.now() <= PATIENCE_S  # more is left only where the clock was set back

    def _failed(self, decision: DecisionView, tick: int) -> tuple[JournalEntry, ...]:
        """At once again after the first refusal (a world that moved is planned anew), then ever more patiently.

        The waiting is told when it begins: from then on a decision may stand for a minute and nothing be tried.
        """
        tried = self._tries.get(decision.pool)
        count = 1 if tried is None or tried.target != decision.target else tried.failures + 1
        wait = 0.0 if count == 1 else min(PATIENCE_S, 2.0**count)
        self._tries[decision.pool] = _Tried(decision.target, count, self._clock.now() + wait)
        if count != 2:
            return ()
        words = f"{decision.pool} to {decision.target} failed twice: tried again in {wait:g} s"
        return (self._error(decision.pool, f"{words}, then ever more seldom, at least every {PATIENCE_S:g} s", tick),)

    async def plan(
        self, kind: PlanKind, pool: str, to: int | None, replicas: Sequence[str], reason: str, drain: Sequence[str] = ()
    ) -> Plan:
        """A dry run for a person. The plan bears its pool even where the actuator leaves it out."""
        hands = self.actuator(pool)
        if kind is PlanKind.SCALE:
            if to is None:
                raise UsageError("A scale plan needs `to`, the number of replicas wanted.")
            plan = await self._call(hands.plan_scale(pool, to, reason, drain))
        elif not replicas:
            raise UsageError(f"A {kind} plan needs the names of its replicas.")
        else:
            ask = hands.plan_drain if kind is PlanKind.DRAIN else hands.plan_undrain
            plan = await self._call(ask(replicas, reason))
        return replace(plan, pool=plan.pool or pool)

    async def apply(self, plan: Plan, by: str, tick: int | None) -> tuple[tuple[JournalEntry, ...], Outcome]:
        """Write the act down, do it, and say what came of it so far."""
        now = self._clock.now()
        try:
            fresh = self._store.begin_act(plan, by, now)
        except (sqlite3.Error, OSError) as error:
            log.exception("an act cannot be written down")
            return (), Outcome(
                plan.plan_id, "refused", now, f"nothing is done that cannot be written down: {error}", by=by
            )
        if not fresh:
            return (), Outcome(plan.plan_id, "refused", now, "this plan was applied before", by=by)
        try:
            outcome = await self._call(self.actuator(plan.pool).apply(plan, by))
        except PlanRefused as error:
            outcome = Outcome(plan.plan_id, "refused", self._clock.now(), str(error), by=by)
        except OpsConsoleError as error:
            # The call may have arrived: it stays open and is followed, never repeated.
            self._open[plan.plan_id] = Act(plan, by, now, "begun")
            outcome = Outcome(plan.plan_id, "running", self._clock.now(), f"no answer yet: {error}", by=by)
            return (plan_entry(plan, by, now, tick), outcome_entry(plan, outcome, tick)), outcome
        outcome = replace(outcome, by=by)
        self._note(outcome)
        if outcome.status == "running":
            self._open[plan.plan_id] = Act(plan, by, now, "running")
        return (plan_entry(plan, by, now, tick), outcome_entry(plan, outcome, tick)), outcome

    async def follow(self, tick: int) -> tuple[tuple[Outcome, ...], tuple[JournalEntry, ...]]:
        """Ask after every act under way; those that ended are closed and journalled."""
        outcomes: list[Outcome] = []
        entries: list[JournalEntry] = []
        for act in tuple(self._open.values()):
            outcome = await self._ask(act)
            if outcome is None or (outcome.status == "running"):
                continue
            outcome = replace(outcome, by=act.by)
            if not self._note(outcome):
                continue
            del self._open[act.plan.plan_id]
            outcomes.append(outcome)
            entries.append(outcome_entry(act.plan, outcome, tick))
        return tuple(outcomes), tuple(entries)

    def _note(self, outcome: Outcome) -> bool:
        """Keep an outcome; one that cannot be written stays open and is asked for again."""
        try:
            self._store.update_act(outcome)
        except (sqlite3.Error, OSError):
            log.exception("an outcome cannot be written down")
            return False
        return True

    async def _ask(self, act: Act) -> Outcome | None:
        try:
            return await self._call(self.actuator(act.plan.pool).follow(act.plan.plan_id))
        except PlanRefused as error:
            # The world has never seen it (or has forgotten): it is not repeated; the next decision sees what is.
            return Outcome(act.plan.plan_id, "failed", self._clock.now(), f"not carried out: {error}", by=act.by)
        except OpsConsoleError as error:
            log.warning("cannot follow %s: %s", act.plan.plan_id, error)
            return None

    async def _call(self, awaitable: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(awaitable, CALL_S)
        except OpsConsoleError:
            raise
        except TimeoutError as error:
            raise OpsConsoleError(f"the actuator did not answer within {CALL_S:.0f} s") from error
        except Exception as error:
            log.exception("an actuator raised")
            raise OpsConsoleError(f"the actuator failed: {type(error).__name__}: {error}") from error

    def _error(self, pool: str, text: str, tick: int | None) -> JournalEntry:
        return JournalEntry(0, self._clock.now(), "error", pool, text, tick)


def _shrinks(plan: Plan) -> bool:
    return plan.to_count is not None and plan.from_count is not None and plan.to_count < plan.from_count
