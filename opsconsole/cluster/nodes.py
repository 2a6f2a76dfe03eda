"""What kind of machine a node is, by its labels: asked once a node, and remembered.

Starts differ by machine, so what is learned of them is kept apart by it. It takes the right to get nodes, which no
role of a namespace can give: without it kinds are unknown (None) and `problem` says so. The trap: a node that does not
answer is asked again later; until then its kind is unknown, and never that of its neighbours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import Patience
from opsconsole.cluster.pods import PodFacts, mapping

log = logging.getLogger(__name__)
ACCELERATOR_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
MACHINE_LABEL = "node.kubernetes.io/instance-type"
REFUSED_S = 300.0  # rights may be given later
AGAIN_S = 30.0
ANSWER_S = 2.0  # for one node
AT_ONCE = 8  # requests at a time, so that a large fleet's first look is no burst
MOST = 4096  # nodes remembered
FORBIDDEN = (401, 403)

Ask = Callable[[str], Awaitable[Mapping[str, Any]]]
"""The node of that name, as JSON. Raises an error whose `status` is the server's."""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What a node is: the cloud's name for the machine, and its accelerator. None where no label says."""

    machine: str | None = None
    accelerator: str | None = None

    @property
    def name(self) -> str | None:
        """By which starts are told apart: an instance type includes its accelerator."""
        return self.machine or self.accelerator


UNKNOWN = NodeKind()


class Nodes:
    """Kinds of the nodes of one cluster, by name."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask, self._clock = ask, clock
        self._kinds: dict[str, NodeKind] = {}
        self._again: dict[str, float] = {}  # monotonic, by node that did not answer
        self._refused_until = -1e9
        self.problem: str | None = None  # why kinds are not known, in words

    def kind(self, node: str | None) -> NodeKind:
        return self._kinds.get(node, UNKNOWN) if node is not None else UNKNOWN

    def typed(self, pods: Iterable[PodFacts]) -> list[PodFacts]:
        """The pods with the types of their nodes, as far as those are known."""
        return [replace(pod, node_type=self.kind(pod.node).name) for pod in pods]

    async def learn(self, names: Iterable[str | None]) -> None:
        """Ask after nodes that are not known yet, a few at a time. Never raises: kinds are good to know, no more."""
        now, here = self._clock.monotonic(), {name for name in names if name}
        if now < self._refused_until:
            return
        fresh = sorted(n for n in here if n not in self._kinds and now >= self._again.get(n, now))
        if len(self._kinds) > MOST:
            self._kinds = {n: kind for n, kind in self._kinds.items() if n in here}
        self._again = {n: at for n, at in self._again.items() if n in here}
        for first in range(0, len(fresh), AT_ONCE):
            answered = await asyncio.gather(*(self._learn(name) for name in fresh[first : first + AT_ONCE]))
            if not any(answered):
                return

    async def _learn(self, name: str) -> bool:
        try:
            node = await self._ask(name)
        except Exception as error:
            status = getattr(error, "status", None)
            self._again[name] = self._clock.monotonic() + AGAIN_S
            if status in FORBIDDEN:
                self._refused(error)
            return False
        self.problem = None
        self._kinds[name] = kind_of(node)
        return True

    def _refused(self, error: Exception) -> None:
        if self.problem is None:
            log.info("start times are not told apart by node type: nodes may not be read (%s)", error)
        self.problem = "nodes may not be read"
        self._refused_until = self._clock.monotonic() + REFUSED_S


def nodes_of(api: KubeApi, clock: Clock) -> Nodes:
    """The nodes of that API server's cluster."""

    async def ask(name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await api.get(
            f"/api/v1/nodes/{name}", patience=Patience(tries=1, timeout_s=ANSWER_S)
        )
        return found

    return Nodes(ask, clock)


def kind_of(node: Mapping[str, Any]) -> NodeKind:
    """The kind that a node's labels tell."""
    labels = mapping(mapping(node, "metadata"), "labels")
    accelerator = next((str(labels[key]) for key in ACCELERATOR_LABELS if labels.get(key)), None)
    return NodeKind(str(labels[MACHINE_LABEL]) if labels.get(MACHINE_LABEL) else None, accelerator)
