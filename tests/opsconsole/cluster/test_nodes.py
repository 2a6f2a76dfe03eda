"""Kinds of nodes: asked once, asked again where there was no answer, and left unknown where that is not allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.nodes import AGAIN_S, AT_ONCE, REFUSED_S, NodeKind, Nodes, kind_of
from opsconsole.cluster.pods import PodFacts


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


GPU = {"nvidia.com/gpu.product": "NVIDIA-H200"}
MACHINE = {"node.kubernetes.io/instance-type": "p5e.48xlarge"}


class Server:
    """Nodes by name, or the status it refuses with."""

    def __init__(self, **nodes: Any) -> None:
        self.nodes, self.asked = nodes, list[str]()

    async def __call__(self, name: str) -> Mapping[str, Any]:
        self.asked.append(name)
        found = self.nodes.get(name, 404)
        if isinstance(found, int):
            raise KubeError(f"GET {name}", found)
        return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("labels", "kind", "name"),
    [
        ({**GPU, **MACHINE}, NodeKind("p5e.48xlarge", "NVIDIA-H200"), "p5e.48xlarge"),
        (GPU, NodeKind(None, "NVIDIA-H200"), "NVIDIA-H200"),
        ({}, NodeKind(), None),
    ],
)
def test_a_node_is_known_by_its_machine_else_by_its_accelerator(
    labels: dict[str, str], kind: NodeKind, name: str | None
) -> None:
    found = kind_of(labelled(**labels))
    assert (found, found.name) == (kind, name)


async def test_each_node_is_asked_for_once_and_pods_bear_its_type() -> None:
    server = Server(a=labelled(**MACHINE), b=labelled(**GPU))
    nodes = Nodes(server, ManualClock())
    await nodes.learn(["b", "a", None, "a"])
    await nodes.learn(["a", "b"])
    assert server.asked == ["a", "b"]
    typed = nodes.typed([PodFacts("x", node="a"), PodFacts("y", node="c"), PodFacts("z")])
    assert [pod.node_type for pod in typed] == ["p5e.48xlarge", None, None]


async def test_one_that_does_not_answer_is_asked_again_later_and_holds_up_nobody() -> None:
    server, clock = Server(a=500, b=labelled(**GPU)), ManualClock()
    nodes = Nodes(server, clock)
    await nodes.learn(["a", "b"])
    assert (nodes.kind("a"), nodes.kind("b").name, nodes.problem) == (NodeKind(), "NVIDIA-H200", None)
    await nodes.learn(["a", "b"])
    assert server.asked == ["a", "b"]
    await clock.advance(AGAIN_S + 1)
    server.nodes["a"] = labelled(**MACHINE)
    await nodes.learn(["a", "b"])
    assert nodes.kind("a").machine == "p5e.48xlarge"


async def test_where_nodes_may_not_be_read_that_is_said_and_hardly_asked_again() -> None:
    many = [f"n{i:02}" for i in range(3 * AT_ONCE)]
    server, clock = Server(**dict.fromkeys(many, 403)), ManualClock()
    nodes = Nodes(server, clock)
    await nodes.learn(many)
    await nodes.learn(many)
    assert (nodes.problem, len(server.asked)) == ("nodes may not be read", AT_ONCE)
    await clock.advance(REFUSED_S + 1)
    server.nodes = {name: labelled(**MACHINE) for name in many}
    await nodes.learn(many)
    assert (nodes.problem, {nodes.kind(name).machine for name in many}) == (None, {"p5e.48xlarge"})
