"""What goes wrong in clusters, made to go wrong: restarts, storms of writes, missing rights, lost nodes, no room."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from opsconsole.clock import SystemClock
from opsconsole.cluster.api import Place, connect
from opsconsole.cluster.failure import KubeError
from opsconsole.deploy.rules import acting, watching
from opsconsole.errors import PlanRefused
from opsconsole.observe.kube import KubeOptions, KubeTargets
from opsconsole.observe.kube_pods import PodRules
from tests.kubernetes.conftest import node
from tests.kubernetes.plane import ADMIN_TOKEN, Cluster, ControlPlane
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]


def allow(here: Maker, user: str, rules: list[dict[str, Any]]) -> None:
    """Bind a role of these rules to a user of the plane, in the test's namespace."""
    group = "rbac.authorization.k8s.io"
    here.cluster.create(here.path("roles", group=f"{group}/v1"), {"metadata": {"name": user}, "rules": rules})
    ref = {"apiGroup": group, "kind": "Role", "name": user}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    body = {"metadata": {"name": user}, "roleRef": ref, "subjects": [subject]}
    here.cluster.create(here.path("rolebindings", group=f"{group}/v1"), body)


@contextmanager
def storm(here: Maker) -> Iterator[list[int]]:
    """Somebody who writes the workload all the time, without touching what it is for."""
    ended, written = threading.Event(), [0]

    def blow() -> None:
        other = Cluster(here.plane)
        while not ended.is_set():
            written[0] += 1
            body = {"metadata": {"annotations": {"tests/storm": str(written[0])}}}
            other.patch(here.path("deployments", "vllm"), body)
        other.close()

    threads = [threading.Thread(target=blow) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield written
    finally:
        ended.set()
        for thread in threads:
            thread.join()


async def test_a_growth_gets_through_a_storm_of_other_writes(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon() as daemon:
        with storm(here) as written:
            for to in (2, 3, 4):
                await daemon.scale(to)
                assert here.replicas() == to
        assert written[0] > 3


async def test_a_drain_outlives_a_restart_of_the_api_server(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 1, names[1]: 9}
        drain = await daemon.scale(1)
        await asyncio.to_thread(here.plane.restart_apiserver)
        daemon.load.running[names[0]] = 0
        await eventually("the lease again", lambda: daemon.world.lease.leads, 20.0)
        assert (await daemon.ended(drain, 30.0)).detail == f"{names[0]} went, no stream was cut"
    assert here.ready() == [names[1]]


async def test_what_is_under_way_on_a_workload_that_is_deleted_ends_with_words(make: Make) -> None:
    here = make()
    here.deploy(replicas=1, ready="1h")
    async with here.daemon() as daemon:
        growth = await daemon.scale(3)
        here.cluster.delete(here.path("deployments", "vllm"))
        outcome = await daemon.ended(growth, 30.0)
        assert outcome.status == "failed"
        assert outcome.detail.startswith(f"given up: deployment {here.namespace}/vllm is gone")
        here.deploy(replicas=1, ready="100ms")
        await eventually("the new one", lambda: len(here.ready()) == 1)
        assert (await daemon.ended(await daemon.scale(2))).detail == "2 of 2 ready"


async def test_a_shrink_begun_on_a_workload_that_is_made_anew_under_its_name_is_not_written_to_the_new_one(
    make: Make,
) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 1, names[1]: 9}
        drain = await daemon.scale(1)
        here.cluster.delete(here.path("deployments", "vllm"))
        here.deploy(replicas=2, ready="100ms")
        outcome = await daemon.ended(drain, 30.0)
        assert outcome.status == "failed"
        assert outcome.detail == f"given up: deployment {here.namespace}/vllm was deleted and made anew since"
        assert here.replicas() == 2
        await eventually("two pods that serve", lambda: len(set(here.ready()) - set(names)) == 2)


async def test_the_rules_shipped_for_a_daemon_are_enough_to_scale_and_to_drain(make: Make) -> None:
    admin = make()
    admin.deploy(replicas=1, ready="100ms")
    allow(admin, "daemon", [*watching(), *acting()])
    async with make("daemon").daemon() as daemon:
        assert daemon.world.lease.leads
        grown = await daemon.ended(await daemon.scale(2))
        assert grown.detail == "2 of 2 ready"
        daemon.load.running = dict.fromkeys(admin.ready(), 0.0)
        shrunk = await daemon.ended(await daemon.scale(1))
        assert shrunk.detail.endswith("went, no stream was cut")
    assert {e["reason"] for e in admin.events()} == {"SuccessfulRescale", "Draining", "Drained"}


async def test_the_rules_shipped_for_watching_see_everything_and_write_nothing(make: Make) -> None:
    admin = make()
    admin.deploy(replicas=1, ready="100ms")
    await eventually("a pod", lambda: len(admin.ready()) == 1)
    allow(admin, "watcher", watching())
    async with make("watcher").daemon() as daemon:
        state = await daemon.actuator.state("chat")
        assert (state.want, [m.ready for m in state.members]) == (1, [True])
        assert 'cannot get resource "leases"' in str(state.hold)
        plan = await daemon.actuator.plan_scale("chat", 2, "x")
        assert "the cluster would refuse it" in plan.warnings[0]
        assert 'cannot update resource "deployments/scale"' in plan.warnings[0]
        with pytest.raises(PlanRefused, match="Not the leader"):
            await daemon.actuator.apply(plan, "auto")
    assert admin.replicas() == 1


async def test_an_owner_that_may_not_be_looked_for_is_not_taken_for_none(make: Make) -> None:
    admin = make()
    admin.deploy(replicas=1)
    blind = [r for r in watching() if r["apiGroups"] != ["autoscaling"]]
    allow(admin, "narrow", [*blind, *acting()])
    async with make("narrow").daemon() as daemon:
        with pytest.raises(KubeError, match='cannot list resource "horizontalpodautoscalers"'):
            await daemon.actuator.state("chat")
    assert admin.replicas() == 1


async def test_pods_that_may_not_be_marked_are_put_back_and_none_is_lost(make: Make) -> None:
    admin = make()
    admin.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(admin.ready()) == 2)
    rules = [r for r in acting() if "pods" not in r["resources"]]
    allow(admin, "daemon", [*watching(), *rules])
    async with make("daemon").daemon() as daemon:
        daemon.load.running = dict.fromkeys(admin.ready(), 0.0)
        plan = await daemon.actuator.plan_scale("chat", 1, "idle")
        outcome = await daemon.actuator.apply(plan, "auto")
        assert "the label opsconsole.dev/serving cannot be set: " in outcome.detail
        ended = await daemon.ended(plan.plan_id)
        assert ended.status == "failed" and 'cannot patch resource "pods"' in ended.detail
    assert admin.replicas() == 2


async def test_a_watch_that_is_too_old_lists_again(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    place = Place(here.plane.kubeconfig("admin", ADMIN_TOKEN), None, here.namespace)
    options = KubeOptions("app=vllm", here.namespace, PodRules(pool="chat"), first_s=20.0)
    told = here.cluster.lines(here.path("pods", group="v1"), watch="true", resourceVersion="1", timeoutSeconds="1")
    assert '"code":410' in told  # the real server does not remember that far back
    targets = KubeTargets(options, SystemClock(), functools.partial(connect, place))
    targets._version = "1"  # as if this watch had been asleep for an hour
    try:
        found = await targets.targets(0.0)
        assert len(found) == 2
        assert targets.status().ok
    finally:
        await targets.close()


async def test_pods_without_room_are_told_and_go_first(make: Make) -> None:
    here = make()
    here.deploy(replicas=1, ready="100ms", gpus=2)
    await eventually("a pod", lambda: len(here.ready()) == 1)
    (ready,) = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {ready: 3}
        grown = await daemon.scale(5)
        await eventually("the scheduler's word", lambda: _unschedulable(here) >= 2)
        members = (await daemon.actuator.state("chat")).members
        waiting = [m for m in members if m.phase is not None and m.phase.startswith("pending: ")]
        assert waiting and all("Insufficient nvidia.com/gpu" in str(m.phase) for m in waiting)
        told = await eventually("what came of it told", lambda: [e for e in here.events() if "Partly" in e["reason"]])
        assert told[0]["message"].startswith("3 of 5 ready; 2 pending (0/3 nodes are available: 3 Insufficient nvidia")
        await eventually(
            "its record", lambda: daemon.world.acts().items[grown].detail.startswith("late: 3 of 5 ready; ")
        )
        plan = await daemon.actuator.plan_scale("chat", 5 - len(waiting), "no room", (ready,))
        assert set(plan.replicas) == {m.name for m in waiting}
        assert plan.streams_at_risk == 0
        await daemon.actuator.apply(plan, "auto")
        assert (await daemon.ended(plan.plan_id)).status == "done"
        assert (await daemon.ended(grown)).status == "done"
    assert ready in here.ready()


@pytest.fixture
def mortal(plane: ControlPlane, cluster: Cluster) -> Iterator[str]:
    """One more node, with a kubelet of its own that a test may kill."""
    cluster.create("/api/v1/nodes", node("gpu-mortal", "mortal"))
    plane.run_kubelets("mortal", "mortal")
    yield "gpu-mortal"
    plane.kill("mortal")
    for pod in cluster.get("/api/v1/pods", fieldSelector="spec.nodeName=gpu-mortal")["items"]:
        meta = pod["metadata"]
        cluster.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0")
    cluster.delete("/api/v1/nodes/gpu-mortal")


async def test_a_pod_whose_node_is_lost_goes_before_one_that_serves(make: Make, mortal: str) -> None:
    here = make()
    here.deploy(replicas=4, ready="100ms", gpus=2)  # each fills a node
    await eventually("four pods", lambda: len(here.ready()) == 4, 60.0)
    names = here.ready()
    (lost,) = [p["metadata"]["name"] for p in here.pods() if p["spec"]["nodeName"] == mortal]
    others = [name for name in names if name != lost]
    here.plane.kill("mortal")
    await eventually("the node controller to give it up", lambda: lost not in here.ready(), 60.0)
    async with here.daemon(drain_deadline_s=3.0) as daemon:
        daemon.load.running = dict.fromkeys(others, 2.0)
        plan = await daemon.actuator.plan_scale("chat", 3, "x", (others[0],))
        assert plan.replicas == (lost,)
        assert plan.warnings == (f"{others[0]} stays: {lost} not ready and taken first by the cluster",)
        await daemon.actuator.apply(plan, "auto")
        assert (await daemon.ended(plan.plan_id, 30.0)).detail.startswith(f"{lost} went")  # as far as it can
    assert here.ready() == others


def _unschedulable(here: Maker) -> int:
    conditions = (c for p in here.pods() for c in p["status"].get("conditions", []))
    return sum(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)
