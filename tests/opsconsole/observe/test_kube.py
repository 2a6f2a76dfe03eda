"""Kubernetes discovery against a fake API server that lists, watches, forgets, refuses and hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from opsconsole.clock import SystemClock
from opsconsole.cluster.pods import SERVING_LABEL
from opsconsole.control.alerts import AlertBook
from opsconsole.control.settings import AlertSettings
from opsconsole.domain.fleet import FleetState, PoolSpec, fold
from opsconsole.domain.records import ReplicaState
from opsconsole.domain.replica import Observation
from opsconsole.errors import SourceErrorKind as Kind
from opsconsole.observe.kube import KubeOptions, KubeTargets
from opsconsole.observe.kube_pods import PodRules, as_target
from tests.opsconsole.observe.pods_server import FakeApi, pod, serving_pods


def test_a_ready_pod_is_a_target_with_its_node_accelerators_and_role() -> None:
    target = as_target(pod("a"), PodRules())
    assert target is not None
    assert target.url == "http://10.0.0.7:8000/metrics"
    assert (target.ready, target.draining, target.phase) == (True, None, None)
    ref = target.replica
    assert (ref.name, ref.pool, ref.node, ref.gpu, ref.gpus, ref.role) == ("a", "vllm", "node-1", "H200", 2, "decode")
    assert ref.started_at == 1_796_018_400.0


@pytest.mark.parametrize(
    ("changed", "ready", "draining", "phase", "has_url"),
    [
        ({"ready": False, "running": False, "status__conditions": []}, False, None, "pending", False),
        ({"ready": False, "running": False}, False, None, "pull", False),
        ({"ready": False}, False, None, "load", True),
        ({"ready": False, "status__containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
         False, None, "failing", False),
        ({"ready": False, "status__podIP": None}, False, None, "load", False),
        ({"metadata__deletionTimestamp": "2026-11-30T07:00:00Z"}, True, True, None, True),
    ],
    ids=["not scheduled", "creating", "running but not ready", "crash loop", "no address yet", "being deleted"],
)  # fmt: skip
def test_the_state_of_a_pod_is_told(
    changed: dict[str, Any], ready: bool, draining: bool | None, phase: str | None, has_url: bool
) -> None:
    made = pod("a", **{k: v for k, v in changed.items() if k != "metadata__deletionTimestamp"})
    if "metadata__deletionTimestamp" in changed:
        made["metadata"]["deletionTimestamp"] = changed["metadata__deletionTimestamp"]
    target = as_target(made, PodRules())
    assert target is not None
    assert (target.ready, target.draining, target.phase, target.url is not None) == (ready, draining, phase, has_url)


NO_ROOM = "0/6 nodes are available: insufficient nvidia.com/gpu."
REFUSED = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM,
    "lastTransitionTime": "2026-11-30T07:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "leaving", "state", "words"),
    [
        ([REFUSED], False, ReplicaState.WARMING, "unschedulable for {age:.0f} s: " + NO_ROOM),
        ([], False, ReplicaState.WARMING, "pending for {age:.0f} s"),
        ([REFUSED], True, ReplicaState.DRAINING, "draining: it never served: " + NO_ROOM),
    ],
    ids=["no node takes it", "not looked at yet", "taken out before it ran"],
)
def test_a_pod_that_no_node_runs_is_not_down_and_says_what_it_waits_for(
    changed: list[Any], leaving: bool, state: ReplicaState, words: str
) -> None:
    made = pod("a", ready=False, running=False, status__conditions=changed)
    if leaving:
        made["metadata"].setdefault("labels", {})[SERVING_LABEL] = "false"
    now = 1_796_018_400.0 + 40_000.0
    target = as_target(made, PodRules(), now)
    assert target is not None and target.replica.started_at is not None
    seen = Observation(
        target.replica, ready=target.ready, draining=target.draining, phase=target.phase, waits_for=target.waits_for
    )
    snapshot, _ = fold(1, now, [seen], [PoolSpec("vllm")], FleetState())
    (view,) = snapshot.replicas
    assert (view.state, view.why) == (state, words.format(age=now - target.replica.started_at))
    book, _ = AlertBook().update(snapshot, AlertSettings())
    assert "replica-down" not in {rule for rule, _ in book.items}


def test_a_pod_that_is_over_is_nobody() -> None:
    assert as_target(pod("a", status__phase="Succeeded"), PodRules()) is None
    assert as_target(pod("a", status__phase="Failed"), PodRules()) is None


def test_annotations_and_rules_say_where_the_page_is() -> None:
    made = pod("a")
    assert as_target(made, PodRules(port=9000, path="/m")).url == "http://10.0.0.7:9000/m"  # type: ignore[union-attr]
    made["metadata"]["annotations"] = {"prometheus.io/port": "1234", "prometheus.io/path": "v1/metrics"}
    assert as_target(made, PodRules(port=9000)).url == "http://10.0.0.7:1234/v1/metrics"  # type: ignore[union-attr]
    made["status"]["podIP"] = "fd00::7"
    assert as_target(made, PodRules()).url == "http://[fd00::7]:1234/v1/metrics"  # type: ignore[union-attr]


def test_a_pod_of_nothing_but_a_name_is_still_a_target() -> None:
    target = as_target({"metadata": {"name": "x"}}, PodRules())
    assert target is not None and (target.url, target.ready, target.phase) == (None, False, "pending")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeApi]:
    async with serving_pods() as fake:
        yield fake


@pytest.fixture
async def follow(cluster: FakeApi) -> AsyncIterator[Callable[..., KubeTargets]]:
    made: list[KubeTargets] = []

    def started(**options: Any) -> KubeTargets:
        async def new_api() -> Any:
            from kubernetes.aio import client

            return client.ApiClient(client.Configuration(host=cluster.url))

        made.append(KubeTargets(KubeOptions(**{"selector": "app=vllm", **options}), SystemClock(), new_api))
        return made[-1]

    yield started
    for targets in made:
        await targets.close()


async def names_become(targets: KubeTargets, expected: list[str]) -> None:
    for _ in range(200):
        found = [t.replica.name for t in await targets.targets(0.0)]
        if found == expected:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{found} never became {expected}; {targets.status()}")


async def test_pods_are_listed_and_then_followed(cluster: FakeApi, follow: Callable[..., KubeTargets]) -> None:
    cluster.set("ADDED", pod("a"))
    targets = follow(namespace="ns")
    await names_become(targets, ["a"])
    cluster.set("ADDED", pod("b", ready=False))
    await names_become(targets, ["a", "b"])
    cluster.set("DELETED", cluster.pods["a"])
    await names_become(targets, ["b"])
    assert targets.status().ok
    assert targets.names() == frozenset({"b"})
    assert cluster.asked[0]["labelSelector"] == "app=vllm"
    assert sum("watch" not in query for query in cluster.asked) == 1  # listed once


async def test_what_a_node_is_comes_with_its_pods_where_nodes_may_be_read(
    cluster: FakeApi, follow: Callable[..., KubeTargets]
) -> None:
    cluster.nodes["node-1"] = {"nvidia.com/gpu.product": "H100", "node.kubernetes.io/instance-type": "p5"}
    for name, more in (
        ("a", {"spec__nodeSelector": {}}),
        ("b", {"spec__nodeSelector": {}, "spec__nodeName": "node-2"}),
    ):
        cluster.set("ADDED", pod(name, **more))
    targets = follow(namespace="ns")
    await names_become(targets, ["a", "b"])
    assert {t.replica.name: t.replica.gpu for t in await targets.targets(0.0)} == {"a": "H100", "b": None}
    assert targets.status().ok
    asked = cluster.nodes_asked
    cluster.set("MODIFIED", pod("a", ready=False, spec__nodeSelector={}))
    cluster.set("ADDED", pod("c", spec__nodeName="node-3"))
    await names_become(targets, ["a", "b", "c"])
    assert cluster.nodes_asked == asked  # one is known, the others may not be read: not for minutes


async def test_a_list_of_many_pages_is_read_whole(cluster: FakeApi, follow: Callable[..., KubeTargets]) -> None:
    cluster.page = 2
    for n in range(5):
        cluster.set("ADDED", pod(f"p{n}"))
    await names_become(follow(page=2), [f"p{n}" for n in range(5)])


async def test_a_watch_that_ends_resumes_where_it_was(cluster: FakeApi, follow: Callable[..., KubeTargets]) -> None:
    cluster.set("ADDED", pod("a"))
    targets = follow()
    await names_become(targets, ["a"])
    cluster.hang_up = True
    cluster.set("ADDED", pod("b"))
    await names_become(targets, ["a", "b"])
    cluster.set("ADDED", pod("c"))
    await names_become(targets, ["a", "b", "c"])
    watches = [query for query in cluster.asked if "watch" in query]
    assert sum("watch" not in query for query in cluster.asked) == 1
    assert int(watches[-1]["resourceVersion"]) >= 102


async def test_a_version_that_is_too_old_lists_again(cluster: FakeApi, follow: Callable[..., KubeTargets]) -> None:
    cluster.set("ADDED", pod("a"))
    targets = follow()
    await names_become(targets, ["a"])
    cluster.pods["b"] = pod("b")  # happened while the watch was away and is not in the log
    cluster.version, cluster.oldest = 500, 500
    cluster.log.clear()
    cluster.hang_up = True
    cluster.changed.set()
    await names_become(targets, ["a", "b"])
    assert targets.status().ok


@pytest.mark.parametrize(("status", "kind"), [(401, Kind.AUTH), (403, Kind.AUTH), (500, Kind.HTTP_STATUS)])
async def test_a_server_that_refuses_is_a_status_and_no_pods(
    cluster: FakeApi, follow: Callable[..., KubeTargets], status: int, kind: Kind
) -> None:
    cluster.status = status
    targets = follow(first_s=20.0)  # the refusal is the answer: nobody waits for another
    assert await targets.targets(0.0) == ()
    view = targets.status()
    assert not view.ok and view.error_kind == kind.value and view.retry_at is not None
    assert targets.names() is None


async def test_pods_stay_known_while_the_server_is_away(cluster: FakeApi, follow: Callable[..., KubeTargets]) -> None:
    cluster.set("ADDED", pod("a"))
    targets = follow()
    await names_become(targets, ["a"])
    cluster.status, cluster.hang_up = 500, True
    cluster.changed.set()
    for _ in range(100):
        if not targets.status().ok:
            break
        await asyncio.sleep(0.02)
    assert not targets.status().ok
    assert [t.replica.name for t in await targets.targets(0.0)] == ["a"]
    cluster.status = 200
    cluster.set("ADDED", pod("b"))
    await names_become(targets, ["a", "b"])


async def test_no_way_to_a_cluster_is_a_status() -> None:
    async def none() -> Any:
        raise OSError("no route to host")

    targets = KubeTargets(KubeOptions(first_s=0.1), SystemClock(), none)
    try:
        assert await targets.targets(0.0) == ()
        assert targets.status().error_kind == Kind.REFUSED.value
    finally:
        await targets.close()
