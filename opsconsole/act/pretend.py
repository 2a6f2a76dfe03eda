"""A world that is only pretended: replicas that take their time to start and to drain, kept in memory or in a file.

It keeps the actuator's contract exactly (versions, refusals, applying one plan once), so the loop can be tried, shown
and tested without processes or a cluster. It knows nothing of load. The trap: with a file it is shared by processes;
each call reads, changes and replaces the file, and a kill between leaves the old or the new one, never a part.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsconsole.act.actuator import Member, PoolState
from opsconsole.clock import Clock
from opsconsole.domain.records import Outcome, Plan, PlanKind
from opsconsole.errors import PlanRefused


@dataclass(slots=True)
class PretendWorld:
    """One pool of pretended replicas."""

    clock: Clock
    pool: str = "chat"
    path: Path | None = None
    start_s: float = 10.0
    drain_s: float = 5.0
    owner: str | None = None
    name: str = "pretend"
    _held: dict[str, Any] = field(default_factory=dict)

    def create(self, want: int) -> None:
        """Begin with `want` replicas, all ready, unless the world exists already."""
        if not self._load():
            born = self.clock.now() - self.start_s
            names = {f"r{i}": {"born": born, "draining": None} for i in range(want)}
            self._save({"want": want, "version": 0, "made": want, "replicas": names, "plans": {}})

    def _load(self) -> dict[str, Any]:
        if self.path is None:
            return self._held
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        return found

    def _save(self, data: dict[str, Any]) -> None:
        self._held = data
        if self.path is not None:
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(data))
            os.replace(fresh, self.path)

    def _now(self) -> dict[str, Any]:
        """The world with what time has done to it."""
        data = self._load()
        now = self.clock.now()
        left = {
            name: r
            for name, r in data["replicas"].items()
            if r["draining"] is None or now - r["draining"] < self.drain_s
        }
        if len(left) != len(data["replicas"]):
            data["replicas"] = left
            self._save(data)
        return data

    @property
    def applied(self) -> int:
        """How many plans were carried out."""
        return len(self._load().get("plans", {}))

    async def state(self, pool: str) -> PoolState:
        data, now = self._now(), self.clock.now()
        members = tuple(
            Member(
                name,
                ready=r["draining"] is None and now - r["born"] >= self.start_s,
                draining=r["draining"] is not None,
                phase=None if now - r["born"] >= self.start_s else "load",
                started_at=r["born"],
                expected_ready_at=r["born"] + self.start_s,
            )
            for name, r in data["replicas"].items()
        )
        return PoolState(pool, data["want"], members, str(data["version"]), self.owner)

    async def plan_scale(self, pool: str, to: int, reason: str, drain: Sequence[str] = ()) -> Plan:
        return await self._plan(PlanKind.SCALE, reason, tuple(drain), to)

    async def plan_drain(self, replicas: Sequence[str], reason: str) -> Plan:
        return await self._plan(PlanKind.DRAIN, reason, tuple(replicas))

    async def plan_undrain(self, replicas: Sequence[str], reason: str) -> Plan:
        return await self._plan(PlanKind.UNDRAIN, reason, tuple(replicas))

    async def _plan(self, kind: PlanKind, reason: str, replicas: tuple[str, ...], to: int | None = None) -> Plan:
        now = await self.state(self.pool)
        return Plan(
            uuid.uuid4().hex[:12],
            kind,
            self.pool,
            now.want,
            now.want if to is None else to,
            replicas,
            reason,
            now.version,
            self.clock.now(),
        )

    async def apply(self, plan: Plan, by: str) -> Outcome:
        data = self._now()
        if plan.plan_id in data["plans"]:
            return await self.follow(plan.plan_id)
        if self.owner is not None:
            raise PlanRefused(f"{self.owner} owns this pool.")
        if plan.version != str(data["version"]):
            raise PlanRefused(
                f"The world moved since the plan was made (version {plan.version}, now {data['version']})."
            )
        unknown = [name for name in plan.replicas if name not in data["replicas"]]
        if unknown:
            raise PlanRefused(f"There is no replica {', '.join(unknown)}.")
        self._carry_out(data, plan)
        data["version"] += 1
        data["plans"][plan.plan_id] = {"kind": str(plan.kind), "at": self.clock.now(), "to": plan.to_count}
        self._save(data)
        return await self.follow(plan.plan_id)

    def _carry_out(self, data: dict[str, Any], plan: Plan) -> None:
        now = self.clock.now()
        replicas = data["replicas"]
        if plan.kind is not PlanKind.SCALE:
            for name in plan.replicas:
                replicas[name]["draining"] = now if plan.kind is PlanKind.DRAIN else None
            return
        data["want"] = plan.to_count
        serving = [name for name, r in replicas.items() if r["draining"] is None]
        surplus = len(serving) - (plan.to_count or 0)
        going = [*plan.replicas, *(name for name in reversed(serving) if name not in plan.replicas)][: max(0, surplus)]
        for name in going:
            replicas[name]["draining"] = now
        for _ in range(-surplus):
            replicas[f"r{data['made']}"] = {"born": now, "draining": None}
            data["made"] += 1

    async def follow(self, plan_id: str) -> Outcome:
        data, now = self._now(), self.clock.now()
        if plan_id not in data["plans"]:
            raise PlanRefused(f"The plan {plan_id} never arrived here.")
        replicas = data["replicas"].values()
        moving = any(r["draining"] is not None or now - r["born"] < self.start_s for r in replicas)
        return Outcome(plan_id, "running" if moving else "done", now)
