"""What a person may ask of the agent: a dry run, doing it, a standing order, a silence. All of it journalled.

It checks what was asked and whether it is allowed, and leaves doing it to `hands`. The trap: a plan is taken once; the
second intent for one plan is refused, so that a retry after a lost answer does not scale twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from opsconsole.clock import Clock
from opsconsole.control.alerts import EVERY, RULES, Silence
from opsconsole.control.loop import Loop
from opsconsole.control.mode import check_intent
from opsconsole.domain.records import AlertView, HoldView, JournalEntry, Outcome, Plan, PlanKind
from opsconsole.errors import PlanRefused, UsageError

T = TypeVar("T")
PLAN_S = 600.0  # a plan older than this is forgotten
MOST_PLANS = 200


class Orders:
    """People's requests to one loop."""

    def __init__(self, loop: Loop, clock: Clock) -> None:
        self._loop, self._clock = loop, clock
        self._plans: dict[str, Plan] = {}

    async def plan(self, body: dict[str, Any]) -> Plan:
        """A dry run. Kept for ten minutes under its id."""
        try:
            kind = PlanKind(_want(body, "kind", str))
        except ValueError as error:
            raise UsageError(f"{body.get('kind')!r} is no kind of plan: use scale, drain or undrain.") from error
        replicas = tuple(str(name) for name in _maybe(body, "replicas", list) or ())
        pool = self._pool(_maybe(body, "pool", str) or "", replicas)
        to = _maybe(body, "to", int)
        if to is not None and to < 0:
            raise UsageError(f"to = {to}: a pool has 0 replicas or more.")
        reason = _maybe(body, "reason", str) or "asked by a person"
        plan = await self._loop.hands.plan(kind, pool, to, replicas, reason)
        now = self._clock.now()
        plan = self._with_risk(replace(plan, made_at=plan.made_at or now, dry_run=True))
        self._plans = {k: p for k, p in self._plans.items() if p.made_at > now - PLAN_S}
        while len(self._plans) >= MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[plan.plan_id] = plan
        return plan

    async def intent(self, body: dict[str, Any], who: str) -> Outcome:
        """Do what a plan said, if the agent takes orders and the world has not moved."""
        plan_id = _want(body, "plan_id", str)
        note = _maybe(body, "note", str) or ""
        plan = self._plans.get(plan_id)
        now = self._clock.now()
        if plan is None or plan.made_at <= now - PLAN_S:
            raise UsageError(f"There is no plan {plan_id} any more: make a new one.")
        try:
            check_intent(self._loop.settings.allow_intents)
        except PlanRefused as error:
            self._loop.journal.say(now, "outcome", plan.pool, f"refused to {who}: {error}", who)
            raise
        del self._plans[plan_id]
        entries, outcome = await self._loop.hands.apply(replace(plan, dry_run=False), who, None)
        if note:
            entries = (*entries, JournalEntry(0, now, "note", plan.pool, note, who=who))
        self._loop.journal.store.write_entries(entries)
        self._loop.meter.outcome(outcome)
        if outcome.status == "refused":
            raise PlanRefused(outcome.detail or "The plan was refused.")
        return outcome

    def hold(self, body: dict[str, Any], who: str) -> tuple[HoldView, ...]:
        """Pause, resume or pin; the orders in force afterwards."""
        check_intent(self._loop.settings.allow_intents)
        now = self._clock.now()
        pool = _maybe(body, "pool", str) or ""
        if pool and self._loop.settings.pool(pool) is None:
            raise UsageError(f"There is no pool {pool!r} here: {self._names()}.")
        lasts = _maybe(body, "for_s", float)
        order = HoldView(
            kind=_want(body, "kind", str),
            pool=pool,
            by=who,
            at=now,
            until=None if lasts is None else now + lasts,
            minimum=_maybe(body, "minimum", int),
            note=_maybe(body, "note", str) or "",
        )
        self._loop.holds = self._loop.holds.current(now).apply(order)
        self._loop.journal.write_holds(self._loop.holds, order)
        return self._loop.holds.items

    def holds(self) -> tuple[HoldView, ...]:
        return self._loop.holds.current(self._clock.now()).items

    def silence(self, body: dict[str, Any], who: str) -> AlertView | None:
        """Keep one alert quiet; the alert it will silence, if it is up now."""
        now = self._clock.now()
        rule = _want(body, "rule", str)
        if rule not in {EVERY, *(r.name for r in RULES)}:
            raise UsageError(f"{rule!r} is no alert: {', '.join(r.name for r in RULES)}, or {EVERY} for maintenance.")
        if rule == EVERY and not body.get("subject"):
            raise UsageError("Maintenance of everything would hide everything: name a pool or a replica.")
        lasts = _maybe(body, "for_s", float)
        lasts = 3600.0 if lasts is None else lasts
        if lasts <= 0:
            raise UsageError("A silence must last longer than no time at all.")
        silence = Silence(rule, _maybe(body, "subject", str) or "", now + lasts, who, _maybe(body, "note", str) or "")
        self._loop.alerts = self._loop.alerts.silenced(silence)
        self._loop.journal.write_silences(self._loop.alerts.silences, silence, now)
        return next((a for a in self._loop.alerts.views() if silence.covers(a, now)), None)

    def tick_age(self) -> float | None:
        """Seconds since the newest tick."""
        newest = self._loop.feed.newest
        return None if newest is None else self._clock.now() - newest.at

    def _pool(self, named: str, replicas: tuple[str, ...]) -> str:
        snapshot = self._loop.feed.newest
        if not named and replicas and snapshot is not None:
            pools = {r.pool for r in snapshot.replicas if r.replica in replicas}
            if len(pools) > 1:
                raise UsageError(f"One plan is for one pool, and these replicas are of {', '.join(sorted(pools))}.")
            named = next(iter(pools), "")
        if not named and len(self._loop.settings.pools) == 1:
            named = self._loop.settings.pools[0].name
        if self._loop.settings.pool(named) is None:
            raise UsageError(f"There is no pool {named!r} here: {self._names()}.")
        return named

    def _names(self) -> str:
        return ", ".join(p.name for p in self._loop.settings.pools) or "no pool is configured"

    def _with_risk(self, plan: Plan) -> Plan:
        """Streams at risk, from the newest tick where the actuator could not tell; unknown stays unknown."""
        snapshot = self._loop.feed.newest
        if plan.streams_at_risk is not None or snapshot is None or not plan.replicas:
            return plan
        views = [snapshot.replica(name) for name in plan.replicas]
        streams = [None if view is None else view.streams for view in views]
        if plan.kind is PlanKind.UNDRAIN or any(count is None for count in streams):
            return plan
        return replace(plan, streams_at_risk=sum(count for count in streams if count is not None))


def _maybe(body: dict[str, Any], name: str, kind: type[T]) -> T | None:
    value = body.get(name)
    if value is None:
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return kind(value)  # type: ignore[call-arg]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}.")
    if value != value:
        raise UsageError(f"{name} must be a number; NaN is none.")
    return value


def _want(body: dict[str, Any], name: str, kind: type[T]) -> T:
    value = _maybe(body, name, kind)
    if value is None:
        raise UsageError(f"{name} is missing.")
    return value
