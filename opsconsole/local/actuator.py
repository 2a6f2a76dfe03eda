"""The actuator of single-node mode: plans and applies through the supervisor's socket.

Knows the supervisor and the contract of `act.actuator`. Trap: the plan carries the supervisor's version; between plan
and apply a worker may have died, and the supervisor, not this, refuses then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from opsconsole.act.actuator import Member, PoolState
from opsconsole.clock import Clock
from opsconsole.domain.records import Outcome, Plan, PlanKind
from opsconsole.errors import PlanRefused
from opsconsole.local.changes import Change
from opsconsole.local.settings import POOL
from opsconsole.local.supervisor_client import SupervisorClient


class LocalActuator:
    """Workers on this machine."""

    def __init__(self, client: SupervisorClient, clock: Clock, drain_deadline: float) -> None:
        self._client, self._clock, self._deadline = client, clock, drain_deadline

    @property
    def name(self) -> str:
        return "supervisor"

    async def state(self, pool: str) -> PoolState:
        """The pool as the supervisor holds it."""
        if pool != POOL:
            raise PlanRefused(f"there is no pool {pool} on this machine; its pool is {POOL}")
        raw = await self._client.state()
        return PoolState(POOL, raw["want"], tuple(map(_member, raw["members"])), str(raw["version"]), raw["owner"])

    async def plan_scale(self, pool: str, to: int, reason: str, drain: Sequence[str] = ()) -> Plan:
        """What bringing the pool to `to` would do."""
        state, raw = await self.state(pool), await self._client.state()
        if not raw["minimum"] <= to <= raw["maximum"]:
            raise PlanRefused(f"{to} is outside {raw['minimum']} to {raw['maximum']}, the --workers of this run")
        at_risk = [member.streams for member in state.members if member.name in drain]
        step = to - state.want
        effect = f"start {step}" if step > 0 else f"drain {-step}, then stop" if step < 0 else "nothing"
        return self._plan(PlanKind.SCALE, state, reason, drain, effect, at_risk, to)

    async def plan_drain(self, replicas: Sequence[str], reason: str) -> Plan:
        """What draining these would do."""
        state = await self.state(POOL)
        self._check(state, replicas)
        at_risk = [member.streams for member in state.members if member.name in replicas]
        to = max(0, state.want - len(replicas))
        effect = f"stop routing to {', '.join(replicas)}, wait for its streams, then stop it"
        return self._plan(PlanKind.DRAIN, state, reason, replicas, effect, at_risk, to)

    async def plan_undrain(self, replicas: Sequence[str], reason: str) -> Plan:
        """What putting these back would do."""
        state = await self.state(POOL)
        self._check(state, replicas)
        effect = f"route to {', '.join(replicas)} again"
        return self._plan(PlanKind.UNDRAIN, state, reason, replicas, effect, [], state.want + len(replicas))

    async def apply(self, plan: Plan, by: str) -> Outcome:
        """Do it. Raises `PlanRefused` when the world has moved since the plan was made."""
        change = Change(
            kind=plan.kind.value,
            act_id=plan.plan_id,
            want=plan.to_count if plan.kind is PlanKind.SCALE else None,
            names=plan.replicas,
            version=plan.version,
            deadline_s=plan.deadline,
            decided_at=plan.made_at,
        )
        await self._client.act(change)
        return Outcome(plan.plan_id, "running", self._clock.now(), plan.effect, by=by)

    async def follow(self, plan_id: str) -> Outcome:
        """How far it has come."""
        raw = await self._client.followed(plan_id)
        return Outcome(plan_id, raw["status"], raw["at"], raw["detail"], raw["streams_cut"])

    def _check(self, state: PoolState, replicas: Sequence[str]) -> None:
        unknown = [name for name in replicas if state.member(name) is None]
        if unknown or not replicas:
            known = ", ".join(member.name for member in state.members) or "none"
            raise PlanRefused(f"there is no worker {', '.join(unknown) or 'named'} here; there are: {known}")

    def _plan(
        self,
        kind: PlanKind,
        state: PoolState,
        reason: str,
        replicas: Sequence[str],
        effect: str,
        at_risk: Sequence[int | None],
        to: int,
    ) -> Plan:
        known = [streams for streams in at_risk if streams is not None]
        return Plan(
            plan_id=uuid4().hex[:12],
            kind=kind,
            pool=POOL,
            from_count=state.want,
            to_count=to,
            replicas=tuple(replicas),
            reason=reason,
            version=state.version,
            made_at=self._clock.now(),
            streams_at_risk=sum(known) if len(known) == len(at_risk) else None,
            deadline=self._deadline,
            effect=effect,
        )


def _member(raw: Mapping[str, Any]) -> Member:
    return Member(
        name=raw["name"],
        ready=raw["ready"],
        draining=raw["draining"],
        phase=raw["phase"],
        started_at=raw["started_at"],
        expected_ready_at=raw["expected_ready_at"],
        url=raw["url"],
        streams=raw["streams"],
    )
