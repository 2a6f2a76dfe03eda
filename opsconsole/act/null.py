"""The actuator that refuses: what is wired unless a person asked for more.

It knows why it refuses and nothing of any world. Read-only means this one is wired, not that a key is hidden. The
trap: planning is not refused when a snapshot can say what the pool is, because a dry run is how a person learns what
would happen; only `apply` is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from opsconsole.act.actuator import PoolState
from opsconsole.domain.records import Outcome, Plan, PlanKind
from opsconsole.errors import PlanRefused

WHY = 'Nothing here may be changed: this agent only watches. Start it with [act] configured and mode = "act".'


class NullActuator:
    """Plans as a dry run from what `observed` says of a pool, and applies nothing."""

    name = "nothing"

    def __init__(self, observed: Callable[[str], PoolState] | None = None, why: str = WHY) -> None:
        self._observed = observed or (lambda pool: PoolState(pool, 0))
        self._why = why

    async def state(self, pool: str) -> PoolState:
        return self._observed(pool)

    async def plan_scale(self, pool: str, to: int, reason: str, drain: Sequence[str] = ()) -> Plan:
        now = self._observed(pool)
        return self._plan(PlanKind.SCALE, pool, tuple(drain), reason, now, to)

    async def plan_drain(self, replicas: Sequence[str], reason: str) -> Plan:
        return self._plan(PlanKind.DRAIN, "", tuple(replicas), reason)

    async def plan_undrain(self, replicas: Sequence[str], reason: str) -> Plan:
        return self._plan(PlanKind.UNDRAIN, "", tuple(replicas), reason)

    async def apply(self, plan: Plan, by: str) -> Outcome:
        raise PlanRefused(self._why)

    async def follow(self, plan_id: str) -> Outcome:
        raise PlanRefused(self._why)

    def _plan(
        self,
        kind: PlanKind,
        pool: str,
        replicas: tuple[str, ...],
        reason: str,
        now: PoolState | None = None,
        to: int | None = None,
    ) -> Plan:
        return Plan(
            plan_id=uuid.uuid4().hex[:12],
            kind=kind,
            pool=pool,
            from_count=now.want if now else None,
            to_count=to,
            replicas=replicas,
            reason=reason,
            version=now.version if now else "",
            effect="nothing: this agent only watches",
            warnings=(self._why,),
        )
