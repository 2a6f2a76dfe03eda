"""Taking one pod out of routing and putting it back, by every means that the pod has.

A label that a router may select on (and the workload's own selector does not), a readiness gate where the pod has one,
and the engine's own drain endpoint where it answers. It waits for nothing. The trap: a pod whose label the workload
selects on would be orphaned and replaced by relabelling it, so the label is one that no workload is made with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.cluster.pods import COST_ANNOTATION, DRAIN_ANNOTATION, SERVING_LABEL, PodFacts

STRATEGIC = "application/strategic-merge-patch+json"
ENGINE_S = 2.0
FIRST_TO_GO = -1000  # pod-deletion-cost; others are at 0 where nobody set one

Knock = Callable[[str], Awaitable[int | None]]
"""POST to an engine's URL: its status code, or None where nothing answered."""


@dataclass(frozen=True, slots=True)
class Switched:
    """What came of taking a pod out or putting it back: the ways that worked, and what did not in words."""

    ways: tuple[str, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """Switches pods of one namespace."""

    api: KubeApi
    clock: Clock
    namespace: str
    knock: Knock

    async def take_out(self, pod: PodFacts, plan_id: str) -> Switched:
        return await self._switch(pod, plan_id)

    async def put_back(self, pod: PodFacts) -> Switched:
        return await self._switch(pod, None)

    async def open_gate(self, pod: PodFacts) -> None:
        """Let a new pod be ready: with a gate it never is by itself."""
        await self._gate(pod, True)

    async def mark_cheap(self, pod: PodFacts) -> None:
        """Tell the ReplicaSet's controller to take this one first. Set just before a shrink, never continuously."""
        body = {"metadata": {"annotations": {COST_ANNOTATION: str(FIRST_TO_GO)}}}
        await self.api.patch(self._path(pod), body)

    async def _switch(self, pod: PodFacts, plan_id: str | None) -> Switched:
        """Out of routing for a plan, or back into it for None."""
        ways, problems, serving = [], [], plan_id is None
        try:
            await self.api.patch(self._path(pod), {"metadata": _marks(plan_id)})
            ways.append("label")
        except KubeError as error:
            problems.append(f"the label {SERVING_LABEL} cannot be set: {error}")
        if pod.gated:
            try:
                await self._gate(pod, serving)
                ways.append("readiness gate")
            except KubeError as error:
                problems.append(f"the readiness gate cannot be set: {error}")
        if pod.url is not None:
            status = await self.knock(f"{pod.url}/{'undrain' if serving else 'drain'}")
            if status is not None and status < 300:
                ways.append("engine")
            elif status is None or status not in (404, 405, 501):
                told = "does not answer" if status is None else f"answers {status}"
                problems.append(f"the engine's drain endpoint {told}")
        return Switched(tuple(ways), tuple(problems))

    async def _gate(self, pod: PodFacts, serving: bool) -> None:
        now = datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": SERVING_LABEL, "status": str(serving), "lastTransitionTime": now, "reason": "Drain"}
        body = {"status": {"conditions": [condition]}}
        await self.api.ask("PATCH", f"{self._path(pod)}/status", body=body, patience=Patience(), kind=STRATEGIC)

    def _path(self, pod: PodFacts) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}"


def _marks(plan_id: str | None) -> dict[str, Any]:
    """Labels and annotations of a pod that a plan takes out, or of one in service; a null takes one away.

    Back in service it says so: a router may select on "true".
    """
    if plan_id is None:
        notes: dict[str, str | None] = {COST_ANNOTATION: None, DRAIN_ANNOTATION: None}
        return {"labels": {SERVING_LABEL: "true"}, "annotations": notes}
    return {"labels": {SERVING_LABEL: "false"}, "annotations": {DRAIN_ANNOTATION: plan_id}}


async def knock(url: str) -> int | None:
    """POST to an engine, without a body."""
    import httpx

    try:
        async with httpx.AsyncClient(timeout=ENGINE_S) as client:
            return (await client.post(url)).status_code
    except httpx.HTTPError:
        return None
