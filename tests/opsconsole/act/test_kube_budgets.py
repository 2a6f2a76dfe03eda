"""A shrink whose disruption budgets cannot be read, and pods that may not be put into service: refused and told.

The API server is the test's own and says what a role lacks in the words of a real one.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from opsconsole.act.board import Board
from opsconsole.act.kube import KubeActuator
from opsconsole.act.kube_events import Herald
from opsconsole.act.kube_lease import NoLease
from opsconsole.act.kube_look import KubePool
from opsconsole.act.kube_owners import Self
from opsconsole.act.kube_scale import Scaler
from opsconsole.act.kube_world import World
from opsconsole.clock import ManualClock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.workload import workload
from opsconsole.errors import PlanRefused

VLLM = workload("deployment/vllm", "serving")


def forbidden(verb: str, resource: str) -> KubeError:
    return KubeError(f'not allowed: cannot {verb} resource "{resource}"', 403, "Forbidden")


def pod(name: str, *, gated: bool = False) -> dict[str, Any]:
    gates = [{"conditionType": "opsconsole.dev/serving"}] if gated else []
    ready = {"type": "Ready", "status": str(not gated)}
    return {
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "vllm"}},
        "spec": {"containers": [{"name": "engine"}], "readinessGates": gates},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]},
    }


class Cluster:
    """A Deployment of two pods and whatever is listed beside it. `denied` are (verb, resource)."""

    def __init__(self, *denied: tuple[str, str], gated: bool = False) -> None:
        self.denied = set(denied)
        self.replicas = 2
        self.pods = [pod("a", gated=gated), pod("b", gated=gated)]
        self.events: list[str] = []

    async def get(self, path: str, query: Any = None, patience: Any = None) -> Any:
        kind = path.rsplit("/", 1)[-1]
        if ("list", kind) in self.denied:
            raise forbidden("list", kind)
        if kind == "scale":
            status = {"replicas": self.replicas, "selector": "app=vllm"}
            return {"metadata": {"resourceVersion": "1", "uid": "u"}, "spec": self._spec(), "status": status}
        if path == VLLM.path:
            return {"kind": "Deployment", "metadata": {"name": "vllm"}, "spec": self._spec()}
        return {"items": self.pods if kind == "pods" else []}

    async def put(self, path: str, body: Any, query: Any = None, patience: Any = None) -> Any:
        if "dryRun" not in (query or {}):
            self.replicas = body["spec"]["replicas"]
        return await self.get(path)

    async def patch(self, path: str, body: Any, query: Any = None) -> Any:
        return {}

    async def ask(self, method: str, path: str, **how: Any) -> Any:
        if ("patch", "pods/status") in self.denied:
            raise forbidden("patch", "pods/status")
        return {}

    async def post(self, path: str, body: Any, patience: Any = None) -> Any:
        self.events.append(f"{body['reason']}: {body['message']}")

    def _spec(self) -> dict[str, Any]:
        return {"replicas": self.replicas}


class Leads(NoLease):
    """A lease that is always held, its record in memory."""

    leads = True

    def __init__(self) -> None:
        super().__init__()
        self.record: dict[str, Any] = {}

    def fence(self, seconds: float) -> None:
        """Always the leader."""

    def acts(self) -> dict[str, Any]:
        return self.record

    async def note(self, acts: Any) -> None:
        self.record = dict(acts)


async def no_engine(url: str) -> int | None:
    return 404


def actuator(cluster: Cluster, clock: ManualClock | None = None) -> KubeActuator:
    api, clock = cast(KubeApi, cluster), clock or ManualClock()
    scaler = Scaler(api, clock, "opsconsole/tests")
    me = Self("opsconsole/tests", "serving/opsconsole-tests")
    world = World(api, clock, Leads(), scaler, Herald(api, clock, "tests"), me, no_engine, Board())
    return KubeActuator(KubePool("chat", VLLM), world)


NO_BUDGETS = ("list", "poddisruptionbudgets")


async def test_budgets_that_may_not_be_read_refuse_a_shrink_in_plan_outcome_and_event() -> None:
    cluster = Cluster(NO_BUDGETS)
    hands = actuator(cluster)
    plan = await hands.plan_scale("chat", 1, "idle")
    (warning,) = plan.warnings
    assert 'cannot list resource "poddisruptionbudgets"' in warning and warning.endswith("this would be refused")
    with pytest.raises(PlanRefused, match="Not now: a shrink needs the PodDisruptionBudgets known"):
        await hands.apply(plan, "auto")
    (event,) = cluster.events
    assert event.startswith("FailedRescale: Not now: ") and 'cannot list resource "poddisruptionbudgets"' in event
    assert cluster.replicas == 2


async def test_a_growth_needs_no_budget() -> None:
    cluster = Cluster(NO_BUDGETS)
    hands = actuator(cluster)
    plan = await hands.plan_scale("chat", 3, "busy")
    assert plan.warnings == ()
    await hands.apply(plan, "auto")
    assert cluster.replicas == 3


async def test_a_right_that_is_taken_away_during_a_drain_stops_the_shrink_and_says_so() -> None:
    cluster, clock = Cluster(), ManualClock()
    hands = actuator(cluster, clock)
    plan = await hands.plan_scale("chat", 1, "idle")
    plan_id = (await hands.apply(plan, "auto")).plan_id
    cluster.denied.add(NO_BUDGETS)
    await clock.advance(61.0)  # past the deadline of the drain
    await hands.step()
    outcome = await hands.follow(plan_id)
    assert outcome.status == "running" and "drained, and waiting: a shrink needs the Pod" in outcome.detail
    assert cluster.replicas == 2
    cluster.denied.clear()
    await hands.step()
    assert cluster.replicas == 2  # its pod is marked first, and a controller is given time to hear of it
    await clock.advance(1.0)
    await hands.step()
    assert cluster.replicas == 1


async def test_a_gate_that_may_not_be_opened_is_told_once_a_pod_as_an_event() -> None:
    cluster = Cluster(("patch", "pods/status"), gated=True)
    hands = actuator(cluster)
    for _ in range(3):
        await hands.state("chat")
    assert cluster.events == [
        f'FailedRescale: {name} cannot be put into service: not allowed: cannot patch resource "pods/status"'
        for name in ("a", "b")
    ]
