"""The actuator of a cluster: plans and applies on one workload's scale, and drains before it shrinks.

Knows the contract of `act.actuator` and leaves looking, writing, following and leading to its siblings. The traps: a
plan is made for a spec and a number, not for a resourceVersion, or every pod that becomes ready would refuse
it; and what is begun is written into the lease before the cluster is touched, so that a kill at any point leaves the
next leader something to go by.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from opsconsole.act.actuator import PoolState
from opsconsole.act.drain import begin
from opsconsole.act.kube_acts import Act, Acts
from opsconsole.act.kube_choice import at_risk, budget_words, choose, crash_words, revision_words
from opsconsole.act.kube_events import DRAINING, FAILED, RESCALED
from opsconsole.act.kube_follow import Follower
from opsconsole.act.kube_look import KubePool, Look, Looker, pool_state
from opsconsole.act.kube_routing import Routing
from opsconsole.act.kube_scale import WRITE_S
from opsconsole.act.kube_world import World
from opsconsole.cluster.pods import SERVING_LABEL
from opsconsole.domain.records import Outcome, Plan, PlanKind
from opsconsole.errors import OpsConsoleError, PlanRefused

log = logging.getLogger(__name__)
STEP_S = 1.0


class KubeActuator:
    """One pool of a cluster."""

    name = "kubernetes"

    def __init__(self, of: KubePool, world: World) -> None:
        self._of, self._world = of, world
        self._looker = Looker(world.api, world.scaler, of, world.me, world.board, world.clock)
        self._routing = Routing(world.api, world.clock, of.workload.namespace, world.knock)
        self._follower = Follower(world, of, self._looker, self._routing)
        self._turn = asyncio.Lock()

    async def state(self, pool: str) -> PoolState:
        look = await self._looker.look()
        if self._world.lease.leads and not self._turn.locked():
            await self._follower.tidy(look)
        return pool_state(self._of, look, self._world.acts(), self._looker.starts, self._world.lease.words)

    async def plan_scale(self, pool: str, to: int, reason: str, drain: Sequence[str] = ()) -> Plan:
        look, acts = await self._looker.look(fresh=True), self._world.acts()
        want = look.want(acts, pool)
        if to >= want:
            return await self._plan(PlanKind.SCALE, look, to, (), reason, self._growth_warnings(look, to > want))
        leaving = acts.leaving(pool)
        here = [p for p in look.pods if p.name not in leaving]
        choice = choose(here, want - to, drain, self._world.sight.streams, by_ordinal=self._of.workload.by_ordinal)
        return await self._plan(PlanKind.SCALE, look, to, choice.names, reason, choice.warnings)

    async def plan_drain(self, replicas: Sequence[str], reason: str) -> Plan:
        look, acts = await self._looker.look(fresh=True), self._world.acts()
        self._known(look, replicas)
        to = look.want(acts, self._of.pool) - len(replicas)
        sight, kind = self._world.sight, self._of.workload
        choice = choose(look.pods, len(replicas), replicas, sight.streams, by_ordinal=kind.by_ordinal)
        if set(choice.names) != set(replicas):
            raise PlanRefused(f"Draining that would not remove it: {'; '.join(choice.warnings)}.")
        return await self._plan(PlanKind.DRAIN, look, max(0, to), choice.names, reason, ())

    async def plan_undrain(self, replicas: Sequence[str], reason: str) -> Plan:
        look, acts = await self._looker.look(fresh=True), self._world.acts()
        self._known(look, replicas)
        leaving = acts.leaving(self._of.pool)
        to = look.want(acts, self._of.pool) + sum(name in leaving for name in replicas)
        return await self._plan(PlanKind.UNDRAIN, look, to, tuple(replicas), reason, ())

    async def apply(self, plan: Plan, by: str) -> Outcome:
        async with self._turn:
            known = self._world.acts().items.get(plan.plan_id)
            if known is not None:
                return known.outcome(self._world.clock.now())
            self._world.lease.fence(WRITE_S)
            look = await self._looker.look(fresh=True)
            self._check(plan, look)
            try:
                return await self._carry_out(plan, look, by)
            except PlanRefused as error:
                await self._world.herald.tell(self._of.workload, look.thing, FAILED, str(error))
                raise

    async def follow(self, plan_id: str) -> Outcome:
        act = self._world.acts().items.get(plan_id)
        if act is None:
            raise PlanRefused("the cluster's record does not know it, so it was never begun")
        return act.outcome(self._world.clock.now())

    async def step(self) -> None:
        """Move on what is under way; called every second by the leader."""
        async with self._turn:
            if self._world.lease.leads:
                await self._follower.step()

    async def _carry_out(self, plan: Plan, look: Look, by: str) -> Outcome:
        acts = self._world.acts()
        want, to = look.want(acts, self._of.pool), want_of(plan)
        if plan.kind is PlanKind.UNDRAIN:
            return await self._put_back(plan, look, acts, plan.replicas, by)
        if to < want:
            return await self._begin_drain(plan, look, acts, by)
        if to > look.asked:
            back = acts.leaving(self._of.pool)
            if back:
                await self._put_back(plan, look, acts, back, by)
            return await self._grow(plan, look, by)
        return await self._put_back(plan, look, acts, acts.leaving(self._of.pool)[: to - want], by)

    async def _grow(self, plan: Plan, look: Look, by: str) -> Outcome:
        now, to = self._world.clock.now(), want_of(plan)
        act = Act(plan.plan_id, self._of.pool, plan.kind, look.asked, to, now, by, plan.reason, uid=look.scale.uid)
        await self._world.save(act)
        try:
            await self._world.write(self._of, look, to)
        except PlanRefused as error:
            await self._forget(act.ended("refused", str(error), now))
            raise
        told = f"New size: {to} (from {look.asked}); reason: {plan.reason}"
        written = replace(act, written=True, written_at=now, detail=f"asked for {to}; waiting for them to be ready")
        await self._forget(written)
        await self._world.herald.tell(self._of.workload, look.thing, RESCALED, told)
        return written.outcome(now)

    async def _begin_drain(self, plan: Plan, look: Look, acts: Acts, by: str) -> Outcome:
        now, sight = self._world.clock.now(), self._world.sight
        self._may_shrink(plan, look, acts)
        deadline = self._of.drain_deadline_s if plan.deadline is None else plan.deadline
        drains = tuple(
            begin(name, now, deadline, at_risk((name,), look.pods, sight.streams), sight.settle_s)
            for name in plan.replicas
        )
        target = look.asked - len(drains)
        uid = look.scale.uid
        act = Act(plan.plan_id, self._of.pool, plan.kind, look.asked, target, now, by, plan.reason, drains, uid=uid)
        await self._world.save(act)
        pods = [pod for name in plan.replicas if (pod := look.pod(name)) is not None]
        switched = await asyncio.gather(*(self._routing.take_out(pod, plan.plan_id) for pod in pods))
        problems = [problem for each in switched for problem in each.problems]
        names = ", ".join(plan.replicas)
        told = f"Draining {names} for at most {deadline:.0f} s before a new size of {target}; reason: {plan.reason}"
        await self._world.herald.tell(self._of.workload, look.thing, DRAINING, "; ".join((told, *problems)))
        detail = "; ".join((f"draining {names}", *problems))
        return replace(act, detail=detail).outcome(now)

    async def _put_back(self, plan: Plan, look: Look, acts: Acts, names: Sequence[str], by: str) -> Outcome:
        """Out of the acts that would remove them first, so that no leader removes what is being put back."""
        now = self._world.clock.now()
        changed = [_without(act, names, now) for act in acts.open_of(self._of.pool) if set(act.leaving) & set(names)]
        at = look.asked
        act = Act(plan.plan_id, self._of.pool, plan.kind, at, at, now, by, plan.reason)
        done = act.ended("done", f"{', '.join(names) or 'nothing'} back in service", now)
        grows = plan.kind is PlanKind.SCALE and want_of(plan) > at
        await self._world.save(*changed, *(() if grows else (done,)))
        pods = [pod for name in names if (pod := look.pod(name)) is not None and not pod.deleting]
        switched = await asyncio.gather(*(self._routing.put_back(pod) for pod in pods))
        problems = "; ".join(problem for each in switched for problem in each.problems)
        return replace(done, detail=f"{done.detail}; {problems}" if problems else done.detail).outcome(now)

    def _may_shrink(self, plan: Plan, look: Look, acts: Acts) -> None:
        """Raise where pods may not go now, or where others would go than those in the plan."""
        leaving = acts.leaving(self._of.pool)
        if leaving:
            raise PlanRefused(f"{', '.join(leaving)} is on its way out: one drain at a time.")
        if SERVING_LABEL in look.scale.selector:
            raise PlanRefused(
                f"{self._of.workload} selects its own pods by {SERVING_LABEL}: taking one out of routing would orphan "
                "it. Take the label out of the workload's selector and leave it in the router's."
            )
        if look.rolling:
            told = revision_words(look.pods)
            raise PlanRefused(f"{self._of.workload} is rolling out ({told}): nothing shrinks until it is done.")
        count = look.asked - want_of(plan)
        sight, kind = self._world.sight, self._of.workload
        choice = choose(look.pods, count, plan.replicas, sight.streams, by_ordinal=kind.by_ordinal)
        if set(choice.names) != set(plan.replicas):
            raise PlanRefused(
                f"The world moved: {', '.join(choice.names)} would go now, not {', '.join(plan.replicas)}."
            )
        going = [p for p in look.pods if p.name in plan.replicas]
        against = look.budget_problem or budget_words(look.budgets, going)
        if against is not None:
            raise PlanRefused(f"Not now: {against}.")

    def _check(self, plan: Plan, look: Look) -> None:
        acts = self._world.acts()
        state = pool_state(self._of, look, acts, self._looker.starts, self._world.lease.words)
        if state.owner is not None:
            raise PlanRefused(f"{state.owner} owns the scale of {self._of.workload}: two writers would fight.")
        if state.hold is not None:
            raise PlanRefused(f"Nothing is changed: {state.hold}.")
        if plan.version != state.version:
            raise PlanRefused(
                f"The world moved since the plan was made (it was {plan.version}, it is {state.version}): plan anew."
            )
        crash = crash_words(look.pods)
        if crash is not None and want_of(plan) > state.want:
            raise PlanRefused(f"More replicas cannot help: {crash}.")

    def _growth_warnings(self, look: Look, grows: bool) -> tuple[str, ...]:
        crash = crash_words(look.pods) if grows else None
        return () if crash is None else (crash,)

    def _known(self, look: Look, replicas: Sequence[str]) -> None:
        unknown = [name for name in replicas if look.pod(name) is None]
        if unknown or not replicas:
            known = ", ".join(p.name for p in look.pods) or "none"
            raise PlanRefused(
                f"There is no pod {', '.join(unknown) or 'named'} of {self._of.workload}; there are: {known}."
            )

    async def _plan(
        self, kind: PlanKind, look: Look, to: int, names: Sequence[str], reason: str, warnings: Sequence[str]
    ) -> Plan:
        acts, sight = self._world.acts(), self._world.sight
        told = [*warnings, *self._grace_warnings(look, names, kind)]
        if look.owner is not None and self._of.via == "scale":
            told.append(f"{look.owner} owns the scale: this would be refused")
        if look.budget_problem and names and kind is not PlanKind.UNDRAIN:
            told.append(f"{look.budget_problem}: this would be refused")
        want = look.want(acts, self._of.pool)
        if self._of.via == "scale" and kind is not PlanKind.UNDRAIN and to != want:
            against = await self._world.scaler.rehearse(self._of.workload, look.scale, to)
            told += [] if against is None else [f"the cluster would refuse it: {against}"]
        return Plan(
            plan_id=uuid4().hex[:12],
            kind=kind,
            pool=self._of.pool,
            from_count=want,
            to_count=to,
            replicas=tuple(names),
            reason=reason,
            version=look.version(acts, self._of.pool),
            made_at=self._world.clock.now(),
            streams_at_risk=at_risk(names, look.pods, sight.streams) if kind is not PlanKind.UNDRAIN else None,
            deadline=self._of.drain_deadline_s,
            effect=_effect(kind, want, to, names, self._looker.start_words(look)),
            warnings=tuple(told),
        )

    def _grace_warnings(self, look: Look, names: Sequence[str], kind: PlanKind) -> list[str]:
        """A pod that is killed before its streams end cuts them, however long the drain before was."""
        longest = self._world.sight.longest_stream_s(self._of.pool)
        going = [p for p in look.pods if p.name in names]
        shortest = min((p.grace_s for p in going), default=None)
        if kind is PlanKind.UNDRAIN or longest is None or shortest is None or shortest >= longest:
            return []
        return [
            f"terminationGracePeriodSeconds is {shortest:g}, and one stream of a hundred runs {longest:.0f} s or more"
        ]

    async def _forget(self, act: Act) -> None:
        """Write down what became of an act where losing it costs nothing: the world itself tells the next leader."""
        try:
            await self._world.save(act)
        except OpsConsoleError as error:
            log.warning("the record of %s is behind: %s", act.plan_id, error)


def want_of(plan: Plan) -> int:
    if plan.to_count is None:
        raise PlanRefused("The plan does not say how many replicas it is for.")
    return plan.to_count


def _without(act: Act, names: Sequence[str], now: float) -> Act:
    """The act without some of its pods; without any it has ended."""
    kept = tuple(d for d in act.drains if d.replica not in names)
    fewer = replace(act, drains=kept, target=act.target + len(act.drains) - len(kept))
    return fewer if kept else fewer.ended("done", f"{', '.join(names)} was put back into service before it went", now)


def _effect(kind: PlanKind, want: int, to: int, names: Sequence[str], starts: str | None) -> str:
    if kind is PlanKind.UNDRAIN:
        return f"route to {', '.join(names)} again"
    if to == want:
        return "nothing"
    if to > want:
        return f"start {to - want}" + (f"; such starts took {starts}" if starts else "")
    return f"drain {', '.join(names)}, then shrink to {to}"
