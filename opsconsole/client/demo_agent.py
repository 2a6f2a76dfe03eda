"""A pretended agent over the demo's world: decisions, plans, intents, holds, alerts and a journal, like the real one.

It must not serve HTTP. The rules of acting are the real ones (a plan carries a version, a moved world refuses it, a
drain is followed to its end), because dialogs are tried out here. The trap: `advance` catches up second by second, so
a demo that slept for an hour must be given a limit.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from opsconsole.client import demo_views
from opsconsole.client.demo_hindsight import LEAD_S, Hindsight, facts
from opsconsole.client.demo_world import COLD_START_S, DemoPool, DemoWorld, expected_demand
from opsconsole.domain.records import (
    AlertView,
    DecisionView,
    FleetSnapshot,
    HoldView,
    JournalEntry,
    Outcome,
    Plan,
    PlanKind,
    ReplicaState,
    RuleTrace,
)
from opsconsole.errors import PlanRefused, UsageError

DECIDE_S, ADVICE_STANDS_S, PRE_ROLL_S = 15.0, 120.0, 1800.0


class DemoAgent:
    """Everything the API serves."""

    def __init__(
        self, now: Callable[[], float], *, replicas: int = 8, pools: int = 1, seed: int = 7, interval: float = 1.0,
        mode: str = "advise", can_act: bool = True, fleet: str = "demo-eu",
    ) -> None:  # fmt: skip
        self._now = now
        self.seed, self.interval, self.mode, self.can_act, self.fleet = seed, interval, mode, can_act, fleet
        roll = PRE_ROLL_S if replicas <= 64 else 60.0
        start = math.floor(now()) - roll
        self.world = DemoWorld(start, seed, replicas, pools)
        self._ticks = itertools.count(1)
        self._seq = itertools.count(1)
        self.journal: deque[JournalEntry] = deque(maxlen=2000)
        self.history: deque[FleetSnapshot] = deque(maxlen=max(8, min(2400, 16_000 // max(1, replicas))))
        self.decided: dict[str, DecisionView] = {}
        self.past_decisions: deque[DecisionView] = deque(maxlen=2000)
        self.hindsight = Hindsight()
        self._told: set[float] = set()  # when decisions that wanted a change became journal lines
        self.holds: list[HoldView] = []
        self.silenced: dict[tuple[str, str], tuple[float, str]] = {}
        self._plans: dict[str, tuple[Plan, int]] = {}
        self._following: dict[str, str] = {}  # plan id -> pool
        self._advised: dict[str, float] = {}
        self._states: dict[str, ReplicaState] = {}
        self._since: dict[str, float] = {}
        self.latest: FleetSnapshot | None = None
        self.advance(limit_s=roll + 5, step=5.0 if replicas <= 64 else 10.0)

    def advance(self, limit_s: float = 10.0, step: float | None = None) -> FleetSnapshot:
        """Catch up with the clock, at most `limit_s`; the newest snapshot."""
        now = self._now()
        stride = step or self.interval
        if now - self.world.at > limit_s:
            self.world.at = now - limit_s
        while self.latest is None or now - self.world.at >= stride - 1e-6:
            self._tick(min(now, self.world.at + stride))
        assert self.latest is not None
        return self.latest

    def _tick(self, at: float) -> None:
        self.world.step(at)
        self.latest = demo_views.snapshot(
            self.world, next(self._ticks), self.latest, fleet=self.fleet, mode=self.mode, can_act=self.can_act,
            interval=self.interval,
        )  # fmt: skip
        self.history.append(self.latest)
        self._watch(self.latest)
        for pool in self.world.pools:
            last = self.decided.get(pool.name)
            if last is None or at - last.at >= DECIDE_S:
                self._decide(pool, at)
        for judged in self.hindsight.due(at, self.world.pools):
            if judged.regret is not None and judged.at in self._told:
                self.note("regret", judged.pool, judged.regret.text, decision=judged)
        self._follow(at)

    def _watch(self, snapshot: FleetSnapshot) -> None:
        """A replica that changed its state is an event."""
        present = set()
        for view in snapshot.replicas:
            present.add(view.replica)
            was = self._states.get(view.replica)
            if was is view.state:
                continue
            self._states[view.replica] = view.state
            self._since[view.replica] = snapshot.at
            noisy = {ReplicaState.OK, ReplicaState.HOT}
            if was is not None and not ({was, view.state} <= noisy):
                self.note("replica", view.pool, f"{view.replica}: {was.value} -> {view.state.value}, {view.why}")
        for gone in [name for name in self._states if name not in present]:
            del self._states[gone]
            self.note("replica", "", f"{gone}: drained and removed")

    def note(self, kind: str, pool: str, text: str, **more: object) -> JournalEntry:
        """One line of the journal."""
        tick = self.latest.tick if self.latest else None
        entry = JournalEntry(next(self._seq), self.world.at, kind, pool, text, tick, **more)  # type: ignore[arg-type]
        self.journal.append(entry)
        return entry

    def _decide(self, pool: DemoPool, at: float) -> None:
        view = self.latest.pool(pool.name) if self.latest else None
        waiting = (view.waiting or 0.0) if view else 0.0
        effective = pool.capacity * 0.9
        ahead = expected_demand(pool, at + COLD_START_S + 30) * 1.1
        reactive = pool.want + 1 if waiting > 3 * max(1, pool.want) else math.ceil(pool.demand / effective)
        floor = math.ceil(ahead / effective)
        wish = max(reactive, floor)
        stepped = max(pool.want - 1, min(pool.want + 1, wish))
        target = max(pool.minimum, min(pool.maximum, stepped))
        paused = any(h.kind == "pause" and h.pool in ("", pool.name) for h in self.holds)
        held = view is not None and not view.covered and target < pool.want
        if held:
            target = pool.want
        trace = (
            RuleTrace("reactive", f"queue {waiting:.0f}, demand {pool.demand:.1f} req/s", reactive,
                      "fired" if reactive > pool.want else "quiet", f"queue {waiting:.0f} against {3 * pool.want}"),
            RuleTrace("forecast", f"p90 {ahead:.1f} req/s at +{COLD_START_S + 30:.0f}s / {effective:.1f}", floor,
                      "fired" if floor > pool.want else "quiet", f"p90 {ahead:.1f} req/s needs {floor} replicas"),
            RuleTrace("step limit", "at most 1 in a decision", stepped,
                      "binding" if stepped != wish else "ok", f"{pool.want} -> {stepped}, wished {wish}"),
            RuleTrace("limits", f"{pool.minimum}..{pool.maximum}", target, "ok", f"{pool.minimum}..{pool.maximum}"),
            RuleTrace("coverage", "every live replica answered" if not held else "a replica is stale", None,
                      "binding" if held else "ok", "a shrink needs fresh data from every replica"),
        )  # fmt: skip
        binding = "coverage" if held else "forecast" if floor >= reactive else "reactive"
        reason = trace[4].text if held else trace[1].text if binding == "forecast" else trace[0].text
        capacity, supply = facts(pool, at)
        made = DecisionView(
            at, pool.name, pool.want, target, binding, reason, trace,
            counterfactual={"without the forecast": reactive, "without the step limit": wish, "hpa": reactive + 1},
            held=held, capacity=capacity, lead=LEAD_S, lead_assumed=False, supply=supply,
        )  # fmt: skip
        self.hindsight.remember(made)
        before = self.decided.get(pool.name)
        self.decided[pool.name] = made
        self.past_decisions.append(made)
        if before is None or (before.target, before.current, before.held) != (target, pool.want, held):
            self.note("decision", pool.name, reason, decision=made)
            if target != pool.want:
                self._told.add(at)
        self._advice(pool, made, at, paused)

    def _advice(self, pool: DemoPool, made: DecisionView, at: float, paused: bool) -> None:
        """In `act` the demo carries it out; in `advise` a pretended colleague does, once it has stood for a while."""
        if made.target == made.current or paused:
            self._advised.pop(pool.name, None)
            return
        since = self._advised.setdefault(pool.name, at)
        if self.mode == "act" or at - since >= ADVICE_STANDS_S:
            plan = self.plan("scale", pool.name, to=made.target, reason=made.reason)
            self._carry_out(plan.plan_id, "ana (pretended)" if self.mode != "act" else "auto", made.reason)
            self._advised.pop(pool.name, None)

    def pool(self, name: str) -> DemoPool:
        """The pool of that name; the only one when none is named."""
        if not name and len(self.world.pools) == 1:
            return self.world.pools[0]
        found = next((p for p in self.world.pools if p.name == name), None)
        if found is None:
            raise UsageError(f"There is no pool {name!r}; there are {', '.join(p.name for p in self.world.pools)}.")
        return found

    def plan(
        self, kind: str, pool_name: str, *, to: int | None = None, replicas: tuple[str, ...] = (), reason: str = ""
    ) -> Plan:
        """What would happen."""
        wanted = PlanKind(kind)
        if wanted is PlanKind.SCALE:
            pool = self.pool(pool_name)
        else:
            pool = next(
                (p for p in self.world.pools if any(r.name in replicas for r in p.replicas)), self.world.pools[0]
            )
            known = {r.name for p in self.world.pools for r in p.replicas}
            if unknown := [name for name in replicas if name not in known]:
                raise UsageError(f"There is no replica {unknown[0]!r}.")
        streams, effect, warnings = self._effect(pool, wanted, to, replicas)
        plan = Plan(
            f"demo-{next(self._seq)}", wanted, pool.name, len(self.world.live(pool)), to, tuple(replicas), reason,
            str(pool.version), self.world.at, streams, 120.0, effect, True, warnings,
        )  # fmt: skip
        self._plans[plan.plan_id] = (plan, pool.version)
        return plan

    def _effect(
        self, pool: DemoPool, kind: PlanKind, to: int | None, replicas: tuple[str, ...]
    ) -> tuple[int, str, tuple[str, ...]]:
        live = self.world.live(pool)
        if kind is PlanKind.UNDRAIN:
            return 0, f"{', '.join(replicas)} back into service", ()
        if kind is PlanKind.SCALE:
            if to is None or to < 0:
                raise UsageError("A scale needs the new number of replicas.")
            if not pool.minimum <= to <= pool.maximum:
                raise UsageError(f"{to} is outside {pool.minimum}..{pool.maximum} of pool {pool.name}.")
            going = sorted(live, key=lambda r: -r.number)[: max(0, len(live) - to)]
        else:
            going = [r for r in live if r.name in replicas]
            to = len(live) - len(going)
        capacity, load = to * pool.capacity * 0.9, pool.demand
        cost = demo_views.PRICE
        effect = f"{len(live)} -> {to} replicas, {len(live) * cost:.1f} -> {to * cost:.1f} $/h"
        if to > len(live):
            effect += f"; the new ones serve in about {COLD_START_S:.0f}s"
        warnings = (f"{to} would carry {load:.1f} of {capacity:.1f} req/s: overload",) if load > capacity else ()
        return int(sum(r.running for r in going)), effect, warnings

    def intent(self, plan_id: str, who: str, note: str = "") -> Outcome:
        """Do what the plan said, for a person."""
        if not self.can_act:
            raise PlanRefused("This agent lets no intents through; start it with --allow-intents.")
        return self._carry_out(plan_id, who, note)

    def _carry_out(self, plan_id: str, who: str, note: str) -> Outcome:
        held = self._plans.pop(plan_id, None)
        if held is None:
            raise PlanRefused("This plan is not known here, or was already applied; make a new one.")
        plan, version = held
        pool = self.pool(plan.pool)
        if pool.version != version:
            raise PlanRefused("The fleet changed since this plan was made; look at a new one.")
        self.note("plan", pool.name, plan.reason or plan.effect, who=who, plan=replace(plan, dry_run=False))
        if plan.kind is PlanKind.SCALE:
            self.world.scale(pool, plan.to_count or 0)
        else:
            pool.version += 1
            for replica in pool.replicas:
                if replica.name in plan.replicas:
                    replica.draining_since = self.world.at if plan.kind is PlanKind.DRAIN else None
            pool.want = len(self.world.live(pool))
        outcome = Outcome(plan_id, "running", self.world.at, note, by=who)
        self._following[plan_id] = pool.name
        self.note("outcome", pool.name, note or "started", who=who, outcome=outcome)
        return outcome

    def _follow(self, at: float) -> None:
        for plan_id, name in list(self._following.items()):
            pool = self.pool(name)
            warming = [r for r in pool.replicas if at < r.ready_at]
            draining = [r for r in pool.replicas if r.draining]
            if not warming and not draining:
                del self._following[plan_id]
                done = Outcome(plan_id, "done", at, f"{len(pool.replicas)} replicas serve; no stream was cut")
                self.note("outcome", name, done.detail, outcome=done)

    def alerts(self) -> tuple[AlertView, ...]:
        """What fires now."""
        found: list[AlertView] = []
        for view in self.latest.replicas if self.latest else ():
            since = self._since.get(view.replica, self.world.at)
            for state, rule, severity in (
                (ReplicaState.STALE, "replica-stale", "warning"), (ReplicaState.DOWN, "replica-down", "critical"),
                (ReplicaState.SATURATED, "replica-saturated", "warning"),
            ):  # fmt: skip
                if view.state is state and self.world.at - since >= 10:
                    found.append(self._alert(rule, view.replica, since, view.why, severity))
        for pool in self.world.pools:
            burn = pool.misses / 0.02
            if burn > 6:
                found.append(
                    self._alert("fast-burn", pool.name, self.world.at - 60, f"burn {burn:.1f}x > 6x", "critical")
                )
        return tuple(found)

    def _alert(self, rule: str, subject: str, since: float, text: str, severity: str) -> AlertView:
        until, by = self.silenced.get((rule, subject), self.silenced.get((rule, ""), (0.0, "")))
        if until > self.world.at:
            return AlertView(rule, subject, "silenced", since, text, severity, until, by)
        return AlertView(rule, subject, "firing", since, text, severity)
