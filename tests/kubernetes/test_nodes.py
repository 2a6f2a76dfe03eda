"""Start times by node type: learned where nodes may be read, and said to be unknown where they may not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from opsconsole.cluster.nodes import ACCELERATOR_LABELS, MACHINE_LABEL
from opsconsole.deploy.daemon import Daemon, node_access
from opsconsole.deploy.rules import acting, watching
from tests.kubernetes.conftest import NODES
from tests.kubernetes.plane import Cluster
from tests.kubernetes.test_discovery import looking
from tests.kubernetes.test_faults import allow
from tests.kubernetes.test_manifests import collection
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]
GPU = ACCELERATOR_LABELS[0]


@pytest.fixture
def types(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Node name -> type: the first is a machine of its own, the others are alike."""
    names = {f"gpu-{number}": "p5.48xlarge" if number == 0 else "g6.xlarge" for number in range(NODES)}
    for name, kind in names.items():
        labels = {MACHINE_LABEL: kind, GPU: f"NVIDIA-{kind.partition('.')[0]}"}
        cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    yield names
    for name in names:
        cluster.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {MACHINE_LABEL: None, GPU: None}}})


@pytest.fixture
def may_see_nodes(cluster: Cluster, namespace: str) -> Iterator[Callable[[str], None]]:
    """Bind the ClusterRole that `opsconsole manifests daemon` makes to a user of the plane."""
    made: list[str] = []

    def allowed(user: str) -> None:
        role, binding = node_access(Daemon("opsconsole", namespace, "opsconsole:1", "", sees_nodes=True))
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        for item in (role, {**binding, "subjects": [subject]}):
            cluster.create(collection(item), item)
            made.append(f"{collection(item)}/{item['metadata']['name']}")

    yield allowed
    for path in made:
        cluster.delete(path)


async def test_a_growth_tells_how_long_starts_took_on_each_node_type(
    make: Make, types: dict[str, str], may_see_nodes: Callable[[str], None]
) -> None:
    admin = make()
    admin.deploy(replicas=3, ready="1s", gpus=2)  # each fills a node
    await eventually("three pods", lambda: len(admin.ready()) == 3)
    allow(admin, "daemon", [*watching(), *acting()])
    may_see_nodes("daemon")
    async with make("daemon").daemon() as daemon:
        effect = (await daemon.actuator.plan_scale("chat", 4, "x")).effect
    assert effect.startswith("start 1; such starts took ")
    assert re.findall(r" on (\S+) \(p90 of (\d); schedule .+?, pull .+?, load .+?\)", effect) == [
        ("g6.xlarge", "2"),
        ("p5.48xlarge", "1"),
    ]


async def test_where_nodes_may_not_be_read_their_types_are_unknown_and_that_is_said(
    make: Make, types: dict[str, str]
) -> None:
    admin = make()
    admin.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(admin.ready()) == 2)
    allow(admin, "daemon", [*watching(), *acting()])
    async with make("daemon").daemon() as daemon:
        effect = (await daemon.actuator.plan_scale("chat", 3, "x")).effect
        assert "on nodes of unknown type, as nodes may not be read (p90 of 2; " in effect
        assert (await daemon.actuator.state("chat")).hold is None  # and nothing else suffers from it


async def test_a_replica_is_told_with_the_accelerator_of_its_node(make: Make, types: dict[str, str]) -> None:
    here = make()
    here.deploy(replicas=3, ready="100ms", gpus=2)
    await eventually("three pods", lambda: len(here.ready()) == 3)
    async with looking(here) as targets:
        found = await targets.targets(0.0)
    assert {(t.replica.node, t.replica.gpu) for t in found} == {
        ("gpu-0", "NVIDIA-p5"),
        ("gpu-1", "NVIDIA-g6"),
        ("gpu-2", "NVIDIA-g6"),
    }
