"""Other writers of a scale are found, named and left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from opsconsole.errors import PlanRefused
from tests.kubernetes.customs import define, undefine
from tests.kubernetes.plane import Cluster
from tests.kubernetes.worlds import Daemon, Maker, eventually

Make = Callable[..., Maker]


def hpa(name: str, target: str) -> dict[str, Any]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": ref, "maxReplicas": 4, "metrics": [metric]}}


@pytest.fixture
def keda(cluster: Cluster) -> Iterator[None]:
    define(cluster, "keda.sh", "v1alpha1", "ScaledObject")
    yield
    undefine(cluster, "keda.sh", "ScaledObject")


async def refused(daemon: Daemon, to: int) -> str:
    plan = await daemon.actuator.plan_scale("chat", to, "x")
    with pytest.raises(PlanRefused) as told:
        await daemon.actuator.apply(plan, "auto")
    return str(told.value)


async def test_an_hpa_on_the_target_is_named_and_nothing_is_written(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    here.cluster.create(here.path("horizontalpodautoscalers", group="autoscaling/v2"), hpa("by-cpu", "vllm"))
    async with here.daemon() as daemon:
        assert (await daemon.actuator.state("chat")).owner == "the HPA by-cpu"
        plan = await daemon.actuator.plan_scale("chat", 2, "x")
        assert plan.warnings == ("the HPA by-cpu owns the scale: this would be refused",)
        assert "the HPA by-cpu owns the scale of deployment" in await refused(daemon, 2)
    assert here.replicas() == 1


async def test_an_hpa_on_another_workload_is_nobodys_business(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    here.cluster.create(here.path("horizontalpodautoscalers", group="autoscaling/v2"), hpa("other", "another"))
    async with here.daemon() as daemon:
        assert (await daemon.actuator.state("chat")).owner is None


async def test_a_scaled_object_is_named_until_it_is_paused(make: Make, keda: None) -> None:
    here = make()
    here.deploy(replicas=1)
    path = here.path("scaledobjects", group="keda.sh/v1alpha1")
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat"}}
    here.cluster.create(path, {**body, "spec": {"scaleTargetRef": {"name": "vllm"}}})
    async with here.daemon() as daemon:
        assert "the ScaledObject chat owns the scale" in await refused(daemon, 2)
        here.cluster.patch(f"{path}/chat", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}})
        await daemon.scale(2)
    assert here.replicas() == 2


async def test_a_pool_that_leaves_the_scale_to_an_hpa_publishes_and_writes_nothing(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon(via="hpa") as daemon:
        state = await daemon.actuator.state("chat")
        assert state.hold == 'the pool says via = "hpa", and no HPA scales it'
        here.cluster.create(here.path("horizontalpodautoscalers", group="autoscaling/v2"), hpa("ours", "vllm"))
        await daemon.scale(3)
        assert daemon.world.board.count("chat") == 3
        assert (await daemon.actuator.state("chat")).hold is None
        assert here.replicas() == 2
        here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"replicas": 3}})  # as the HPA would
        await eventually("three pods", lambda: len(here.ready()) == 3)
        newest = next(name for name in here.ready() if name not in names)
        daemon.load.running = {names[0]: 2, names[1]: 3, newest: 1}
        drain = await daemon.scale(2)
        assert (await daemon.actuator.state("chat")).want == 2
        assert daemon.world.board.count("chat") == 3  # the lower count is not published while streams run
        daemon.load.running[newest] = 0
        await eventually("the lower count", lambda: daemon.world.board.count("chat") == 2)
        here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"replicas": 2}})
        assert (await daemon.ended(drain)).detail == f"{newest} went, no stream was cut"
    assert here.ready() == names


async def test_another_opsconsole_is_told_by_its_lease_and_by_what_it_wrote(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon(fleet="theirs", identity="them") as other:
        await other.scale(2)
        async with here.daemon(fleet="ours", identity="us") as daemon:
            words = await refused(daemon, 3)
            assert "the opsconsole them (Lease opsconsole-theirs) owns the scale" in words
    here.cluster.delete(here.path("leases", "opsconsole-theirs", group="coordination.k8s.io/v1"))
    async with here.daemon(fleet="ours", identity="us") as daemon:  # only its mark is left: it may still be there
        assert "another opsconsole (opsconsole/theirs, the last to write it" in await refused(daemon, 3)
    assert here.replicas() == 2


async def test_a_workload_is_taken_over_from_an_opsconsole_that_let_go(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon(fleet="theirs", identity="them") as other:
        await other.scale(2)
    async with here.daemon(fleet="ours", identity="us") as daemon:
        await daemon.scale(3)
    assert here.replicas() == 3


async def test_zero_replicas_under_a_minimum_are_an_operators_pause(make: Make) -> None:
    here = make()
    here.deploy(replicas=0)
    async with here.daemon(minimum=1) as daemon:
        assert "taken as an operator's pause" in str((await daemon.actuator.state("chat")).hold)
        assert "operator's pause" in await refused(daemon, 1)
    assert here.replicas() == 0


async def test_any_kind_with_a_scale_is_scaled_and_its_own_rules_are_heard_before(make: Make, cluster: Cluster) -> None:
    here = make()
    define(cluster, "nvidia.com", "v1alpha1", "DynamoGraphDeploymentScalingAdapter", scale=True)
    path = here.path("dynamographdeploymentscalingadapters", group="nvidia.com/v1alpha1")
    body = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": {"name": "chat-decode"},
        "spec": {"replicas": 1},
    }
    cluster.create(path, body)
    async with here.daemon("dgdsa/chat-decode") as daemon:
        await daemon.scale(3)
        assert cluster.get(f"{path}/chat-decode")["spec"]["replicas"] == 3
        plan = await daemon.actuator.plan_scale("chat", 9, "x")
        assert "the cluster would refuse it" in plan.warnings[0] and "less than or equal to 8" in plan.warnings[0]
        with pytest.raises(PlanRefused, match="The cluster refuses"):
            await daemon.actuator.apply(plan, "auto")
    assert cluster.get(f"{path}/chat-decode")["spec"]["replicas"] == 3


async def test_a_rollout_lets_the_pool_grow_and_not_shrink(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    template = {"metadata": {"annotations": {"tests/ready": "60s"}}}
    here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"template": template}})
    await eventually("pods of two revisions", lambda: len(here.pods()) == 3)
    async with here.daemon() as daemon:
        words = await refused(daemon, 1)
        assert all(each in words for each in ("is rolling out (revision ", ": 2 of 2 ready", ": 0 of 1 ready"))
        await daemon.scale(3)
    assert here.replicas() == 3


async def test_a_revision_that_falls_is_not_bought_more_of(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, broken="crash")
    await eventually("two pods that fall", lambda: _crashing(here) == 2)
    async with here.daemon() as daemon:
        plan = await daemon.actuator.plan_scale("chat", 4, "x")
        assert plan.warnings == ("2 of 2 pods of the newest revision fall (CrashLoopBackOff) and none is ready",)
        assert "More replicas cannot help" in await refused(daemon, 4)
        members = (await daemon.actuator.state("chat")).members
        assert [m.phase for m in members] == ["failing: CrashLoopBackOff"] * 2
    assert here.replicas() == 2


def _crashing(here: Maker) -> int:
    states = (c.get("state", {}) for p in here.pods() for c in p["status"].get("containerStatuses", []))
    return sum("waiting" in state for state in states)


async def test_a_disruption_budget_holds_a_shrink(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    budget = {"metadata": {"name": "two"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "vllm"}}}}
    path = here.path("poddisruptionbudgets", group="policy/v1")
    here.cluster.create(path, budget)
    await eventually(
        "the budget's count", lambda: here.cluster.get(f"{path}/two").get("status", {}).get("currentHealthy") == 2
    )
    async with here.daemon() as daemon:
        assert "the PodDisruptionBudget two allows 0 pods to go now" in await refused(daemon, 1)
    assert here.replicas() == 2
