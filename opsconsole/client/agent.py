"""The agent's API, spoken: everything that can be read, and the few things a person may ask for.

It knows what can be asked and not whether it is allowed: the agent decides that by mode, role and the state of the
world, and a refusal arrives as `PlanRefused`. The trap: a plan is a dry run that ages; make it, show it, and send its
id at once, because the agent compares it with the world again and refuses one that no longer fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.client.details import AgentDetails
from opsconsole.client.reader import socket_path
from opsconsole.domain.records import AlertView, HoldView, Outcome, Plan, PlanKind

__all__ = ["AgentClient", "socket_path"]


class AgentClient(AgentDetails):
    """One connection to one agent. Use as an async context manager, or call `aclose`."""

    async def plan(
        self,
        kind: PlanKind | str,
        pool: str = "",
        *,
        to: int | None = None,
        replicas: Sequence[str] = (),
        reason: str = "",
    ) -> Plan:
        """A dry run: what would happen. Apply it with `intent(plan.plan_id)`."""
        body = {"kind": str(PlanKind(kind)), "pool": pool, "to": to, "replicas": list(replicas), "reason": reason}
        return self._record(Plan, await self._post("/v1/plans", body))

    async def intent(self, plan_id: str, note: str = "") -> Outcome:
        """Do what the plan said. Raises `PlanRefused` when the world moved or intents are not allowed."""
        return self._record(Outcome, await self._post("/v1/intents", {"plan_id": plan_id, "note": note}))

    async def silence(self, rule: str, subject: str = "", *, for_s: float = 3600.0, note: str = "") -> AlertView | None:
        """Keep an alert quiet for a while; the alert it silenced now, or None when nothing fires yet."""
        body = {"rule": rule, "subject": subject, "for_s": for_s, "note": note}
        found = (await self._post("/v1/silences", body)).get("alert")
        return self._record(AlertView, found) if found else None

    async def hold(
        self, kind: str, pool: str = "", *, minimum: int | None = None, for_s: float | None = None, note: str = ""
    ) -> tuple[HoldView, ...]:
        """`pause`, `resume` or `pin` a pool (every pool when empty); what is in force afterwards."""
        body = {"kind": kind, "pool": pool, "minimum": minimum, "for_s": for_s, "note": note}
        return self._many(HoldView, await self._post("/v1/holds", body))
