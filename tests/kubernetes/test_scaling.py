"""Growing, draining and shrinking workloads of a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from opsconsole.act import kube_follow
from opsconsole.act.kube_scale import FAILED_TEST
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.pods import COST_ANNOTATION, SERVING_LABEL
from opsconsole.errors import PlanRefused
from tests.kubernetes.customs import define
from tests.kubernetes.plane import Cluster
from tests.kubernetes.worlds import Maker, deployment, eventually

Make = Callable[..., Maker]


async def test_a_growth_is_written_once_and_told_until_its_pods_are_ready(make: Make) -> None:
    here = make()
    here.deploy(replicas=1, ready="1s")
    async with here.daemon() as daemon:
        plan = await daemon.actuator.plan_scale("chat", 3, "queue 9 behind KV 95%")
        assert (plan.from_count, plan.to_count, plan.effect, plan.warnings) == (1, 3, "start 2", ())
        assert here.replicas() == 1  # planning tried it on the server and changed nothing
        outcome = await daemon.actuator.apply(plan, "auto")
        assert outcome.status == "running"
        assert here.replicas() == 3
        state = await daemon.actuator.state("chat")
        assert state.want == 3
        done = await daemon.ended(plan.plan_id)
    assert (done.status, done.detail) == ("done", "3 of 3 ready")
    told = [(e["reason"], e["message"]) for e in here.events()]
    assert ("SuccessfulRescale", "New size: 3 (from 1); reason: queue 9 behind KV 95%") in told
    assert len(here.ready()) == 3


async def test_a_plan_applied_twice_scales_once(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon() as daemon:
        plan = await daemon.actuator.plan_scale("chat", 2, "x")
        await daemon.actuator.apply(plan, "auto")
        written = here.cluster.get(here.path("deployments", "vllm"))["metadata"]["generation"]
        again = await daemon.actuator.apply(plan, "auto")
        assert again.status in ("running", "done")
        assert here.cluster.get(here.path("deployments", "vllm"))["metadata"]["generation"] == written


async def test_a_plan_for_a_world_that_moved_is_refused(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon() as daemon:
        plan = await daemon.actuator.plan_scale("chat", 3, "x")
        here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"replicas": 2}})
        with pytest.raises(PlanRefused, match="The world moved since the plan was made"):
            await daemon.actuator.apply(plan, "auto")
    assert here.replicas() == 2


async def test_a_shrink_waits_for_the_streams_and_takes_the_pod_that_was_drained(make: Make) -> None:
    here = make()
    here.deploy(replicas=3, ready="200ms")
    await eventually("three pods", lambda: len(here.ready()) == 3)
    names = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 5, names[1]: 2, names[2]: 7}
        plan = await daemon.actuator.plan_scale("chat", 2, "idle", (names[1],))
        assert (plan.replicas, plan.streams_at_risk) == ((names[1],), 2)
        await daemon.actuator.apply(plan, "auto")
        labels = {p["metadata"]["name"]: p["metadata"]["labels"] for p in here.pods()}
        assert [name for name in names if labels[name].get("opsconsole.dev/serving") == "false"] == [names[1]]
        state = await daemon.actuator.state("chat")
        assert state.want == 2  # what is on its way out is not wanted any more
        await asyncio.sleep(2.5)  # three steps of the follower, with streams still running
        assert here.replicas() == 3
        daemon.load.running[names[1]] = 0
        done = await daemon.ended(plan.plan_id)
    assert (done.status, done.streams_cut) == ("done", 0)
    assert done.detail == f"{names[1]} went, no stream was cut"
    assert here.replicas() == 2
    assert here.ready() == [names[0], names[2]]
    assert {e["reason"] for e in here.events()} == {"Draining", "SuccessfulRescale", "Drained"}


async def test_the_pod_that_goes_is_marked_a_step_before_the_scale_is_written(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()

    def marked() -> tuple[list[str], int] | None:
        costs = {p["metadata"]["name"]: p["metadata"].get("annotations", {}).get(COST_ANNOTATION) for p in here.pods()}
        found = [name for name, cost in costs.items() if cost is not None]
        return (found, here.replicas()) if found else None

    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 0, names[1]: 9}
        drain = await daemon.scale(1)
        assert await eventually("the mark", marked) == ([names[0]], 2)
        assert (await daemon.ended(drain)).detail == f"{names[0]} went, no stream was cut"


async def test_a_pod_that_the_cluster_took_instead_is_told_with_its_streams(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_follow, "CONFIRM_S", 3.0)
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 1, names[1]: 9}
        drain = await daemon.scale(1)
        sick = [{"type": "Ready", "status": "False"}]  # which a controller takes before any that is marked
        here.cluster.patch_status(here.path("pods", names[1], group="v1"), {"status": {"conditions": sick}})
        daemon.load.running[names[0]] = 0
        outcome = await daemon.ended(drain)
    told = f"{names[0]} stayed and is back in service; the cluster took {names[1]} (9 streams in it)"
    assert (outcome.status, outcome.detail) == ("failed", told)
    assert here.ready() == [names[0]]


async def test_a_drain_past_its_deadline_counts_the_streams_it_cuts(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="200ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon(drain_deadline_s=2.0) as daemon:
        daemon.load.running = {names[0]: 4, names[1]: 6}
        done = await daemon.ended(await daemon.scale(1))
    assert (done.status, done.streams_cut) == ("done", 4)
    assert here.ready() == [names[1]]


async def test_growth_during_a_drain_puts_the_pod_back_instead_of_starting_one(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="200ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    async with here.daemon() as daemon:
        daemon.load.running = {names[0]: 4, names[1]: 6}
        drain = await daemon.scale(1)
        back = await daemon.scale(2, "load came back")
        assert (await daemon.ended(back)).detail == f"{names[0]} back in service"
        assert (await daemon.ended(drain)).detail == f"{names[0]} was put back into service before it went"
    assert here.replicas() == 2
    labels = {p["metadata"]["name"]: p["metadata"]["labels"].get(SERVING_LABEL) for p in here.pods()}
    assert labels == {names[0]: "true", names[1]: None}


async def test_a_replicaset_of_its_own_grows_and_loses_the_pod_that_was_drained(make: Make) -> None:
    here = make()
    body = deployment("vllm", 1, ready="100ms")
    here.cluster.create(here.path("replicasets"), body)
    await eventually("a pod", lambda: len(here.ready()) == 1)
    (first,) = here.ready()
    async with here.daemon("rs/vllm") as daemon:
        assert (await daemon.ended(await daemon.scale(2))).detail == "2 of 2 ready"
        (newest,) = set(here.ready()) - {first}
        daemon.load.running = {first: 0, newest: 4}
        assert (await daemon.ended(await daemon.scale(1))).detail == f"{first} went, no stream was cut"
    assert here.ready() == [newest]
    here.cluster.delete(here.path("replicasets", "vllm"))


async def test_a_statefulset_loses_its_highest_ordinal_and_says_so(make: Make) -> None:
    here = make()
    body = {**_statefulset("vllm", 3)}
    here.cluster.create(here.path("statefulsets"), body)
    await eventually("three pods", lambda: len(here.ready()) == 3)
    async with here.daemon("sts/vllm") as daemon:
        daemon.load.running = {"vllm-0": 0, "vllm-1": 0, "vllm-2": 0}
        plan = await daemon.actuator.plan_scale("chat", 2, "idle", ("vllm-0",))
        assert plan.replicas == ("vllm-2",)
        assert plan.warnings == ("vllm-0 stays: this kind takes its highest ordinal, vllm-2",)
        with pytest.raises(PlanRefused, match="would not remove it"):
            await daemon.actuator.plan_drain(["vllm-0"], "x")
        await daemon.actuator.apply(plan, "auto")
        assert (await daemon.ended(plan.plan_id)).status == "done"
    assert here.ready() == ["vllm-0", "vllm-1"]


def _statefulset(name: str, replicas: int) -> dict[str, object]:
    container = {"name": "engine", "image": "vllm"}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {"tests/ready": "100ms"}},
        "spec": {"containers": [container]},
    }
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "serviceName": name, "selector": selector, "template": template}
    return {"metadata": {"name": name}, "spec": {**spec, "podManagementPolicy": "Parallel"}}


async def test_a_count_that_moved_is_not_replaced_by_a_patch_either(make: Make) -> None:
    here = make()
    here.deploy(replicas=2)
    async with here.daemon() as daemon:
        of = daemon.actuator._of.workload
        seen = await daemon.world.scaler.read(of)
        here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"replicas": 5}})
        with pytest.raises(KubeError) as told:
            await daemon.world.scaler._swap(of, seen, 3)
        assert told.value.status == FAILED_TEST
        with pytest.raises(PlanRefused, match="was at 2 replicas when this was planned and is at 5 now"):
            await daemon.world.scaler.write(of, seen, 3)
    assert here.replicas() == 5


async def test_a_readiness_gate_is_opened_for_new_pods_and_shut_for_the_one_that_goes(make: Make) -> None:
    here = make()
    body = deployment("vllm", 2, ready="100ms")
    body["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": SERVING_LABEL}]
    here.cluster.create(here.path("deployments"), body)
    async with here.daemon(knock=_refuses) as daemon:
        await eventually(
            "two pods that run", lambda: [p["status"].get("phase") for p in here.pods()] == ["Running"] * 2
        )
        assert here.ready() == []  # nobody has opened their gates
        await daemon.actuator.state("chat")
        await eventually("two pods", lambda: len(here.ready()) == 2)
        names = here.ready()
        daemon.load.running = {names[0]: 4, names[1]: 1}
        plan = await daemon.actuator.plan_scale("chat", 1, "idle")
        outcome = await daemon.actuator.apply(plan, "auto")
        assert "the engine's drain endpoint answers 500" in outcome.detail
        await eventually("one pod less in service", lambda: here.ready() == [names[0]])
        await daemon.actuator.state("chat")  # a look at it must not open the gate again
        await asyncio.sleep(0.5)
        assert here.ready() == [names[0]]
        assert here.replicas() == 2
        daemon.load.running[names[1]] = 0
        assert (await daemon.ended(plan.plan_id)).status == "done"
    assert here.ready() == [names[0]]


async def _refuses(url: str) -> int | None:
    return 500 if url.endswith("/drain") else 404


async def test_a_workload_that_selects_its_pods_by_the_routing_label_is_not_drained(make: Make) -> None:
    here = make()
    body = deployment("vllm", 2, ready="100ms")
    for labels in (body["spec"]["selector"]["matchLabels"], body["spec"]["template"]["metadata"]["labels"]):
        labels[SERVING_LABEL] = "true"
    here.cluster.create(here.path("deployments"), body)
    await eventually("two pods", lambda: len(here.ready()) == 2)
    async with here.daemon() as daemon:
        plan = await daemon.actuator.plan_scale("chat", 1, "idle")
        with pytest.raises(PlanRefused, match="would orphan it"):
            await daemon.actuator.apply(plan, "auto")
    assert len(here.ready()) == 2


async def test_groups_of_a_leaderworkerset_are_scaled_by_their_leaders(make: Make, cluster: Cluster) -> None:
    """Its controller is played: the definition, the scale and the pods are real."""
    here = make()
    define(cluster, "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", scale=True)
    path = here.path("leaderworkersets", group="leaderworkerset.x-k8s.io/v1")
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "big"}}
    cluster.create(path, {**body, "spec": {"replicas": 2}})
    leaders = "lws=big,worker-index=0"
    cluster.patch(f"{path}/big/status", {"status": {"replicas": 2, "selector": leaders}})
    for group in range(2):
        for worker in range(2):
            name = f"big-{group}" if worker == 0 else f"big-{group}-{worker}"
            labels = {"lws": "big", "worker-index": str(worker), "app": "big"}
            meta = {"name": name, "labels": labels, "annotations": {"tests/ready": "100ms"}}
            spec = {"containers": [{"name": "engine", "image": "vllm"}]}
            cluster.create(here.path("pods", group="v1"), {"metadata": meta, "spec": spec})
    await eventually("four pods", lambda: len(here.ready("big")) == 4)
    async with here.daemon("lws/big") as daemon:
        state = await daemon.actuator.state("chat")
        assert (state.want, [m.name for m in state.members]) == (2, ["big-0", "big-1"])
        daemon.load.running = {"big-0": 0, "big-1": 0}
        plan = await daemon.actuator.plan_scale("chat", 1, "idle", ("big-0",))
        assert plan.replicas == ("big-1",)
        await daemon.actuator.apply(plan, "auto")
        await eventually("the scale", lambda: cluster.get(f"{path}/big")["spec"]["replicas"] == 1)
        cluster.delete(here.path("pods", "big-1", group="v1"))
        cluster.delete(here.path("pods", "big-1-1", group="v1"))
        assert (await daemon.ended(plan.plan_id)).detail == "big-1 went, no stream was cut"


async def test_a_grace_period_shorter_than_the_longest_streams_is_warned_of(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms", grace_s=10)
    await eventually("two pods", lambda: len(here.ready()) == 2)
    async with here.daemon() as daemon:
        daemon.load.running = dict.fromkeys(here.ready(), 0.0)
        daemon.load.longest_s = 9.0
        assert (await daemon.actuator.plan_scale("chat", 1, "idle")).warnings == ()
        daemon.load.longest_s = 90.0
        plan = await daemon.actuator.plan_scale("chat", 1, "idle")
        assert plan.warnings == ("terminationGracePeriodSeconds is 10, and one stream of a hundred runs 90 s or more",)
