"""What tests build in a cluster: workloads, and the half of a daemon that faces it, without loop or sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opsconsole.act.board import Board
from opsconsole.act.kube import KubeActuator
from opsconsole.act.kube_events import Herald
from opsconsole.act.kube_lease import Lease, LeaseName, LeaseTimes
from opsconsole.act.kube_life import KubeLife
from opsconsole.act.kube_look import KubePool
from opsconsole.act.kube_owners import Self
from opsconsole.act.kube_routing import Knock
from opsconsole.act.kube_scale import Scaler
from opsconsole.act.kube_world import World
from opsconsole.clock import SystemClock
from opsconsole.cluster.api import KubeApi, Place
from opsconsole.cluster.workload import workload
from opsconsole.domain.leading import LoopSide
from opsconsole.domain.records import FleetSnapshot, LatencyView, PoolView, ReplicaState, ReplicaView
from tests.kubernetes.plane import ADMIN_TOKEN, Cluster, ControlPlane

TIMES = LeaseTimes(lasts_s=6.0, renew_s=4.0, retry_s=0.5)


async def eventually(what: str, holds: Callable[[], Any], patience_s: float = 20.0) -> Any:
    """Poll until it holds, letting everything else run; what it was then."""
    deadline = time.monotonic() + patience_s
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:g} s for {what}")
        await asyncio.sleep(0.05)


def deployment(name: str, replicas: int, *, gpus: int = 0, grace_s: int = 30, **notes: str) -> dict[str, Any]:
    """`notes` are the annotations of stages.yaml: ready="2s", broken="crash"."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "engine", "image": "vllm", "ports": [{"containerPort": 8000}], "resources": {"limits": limits}}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {f"tests/{k}": v for k, v in notes.items()}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace_s},
    }
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


@dataclass
class Load:
    """Streams by pod, as the loop would have seen them a moment ago."""

    running: dict[str, float] = field(default_factory=dict)
    longest_s: float | None = None  # p99 of whole requests

    def snapshot(self) -> FleetSnapshot:
        now = time.time()
        views = tuple(
            ReplicaView(name, "chat", ReplicaState.OK, "", seen_at=now, age=0.0, running=count, waiting=0.0)
            for name, count in self.running.items()
        )
        pool = PoolView("chat", e2e=LatencyView(p99=self.longest_s))
        return FleetSnapshot(1, now, "tests", "act", views, (pool,), interval=0.2)


@dataclass
class Daemon:
    """One daemon's half that faces the cluster."""

    actuator: KubeActuator
    world: World
    life: KubeLife
    load: Load
    holds: str = "[]"

    async def __aenter__(self) -> Daemon:
        await self.start()
        return self

    async def start(self) -> None:
        await self.life.start(LoopSide(self.load.snapshot, lambda: self.holds, self.take_holds))

    def take_holds(self, told: str) -> None:
        self.holds = told

    async def __aexit__(self, *_: object) -> None:
        await self.life.close()

    async def scale(self, to: int, reason: str = "the test says so", drain: tuple[str, ...] = ()) -> str:
        """Plan and apply; the plan's id."""
        plan = await self.actuator.plan_scale("chat", to, reason, drain)
        await self.actuator.apply(plan, "auto")
        return plan.plan_id

    async def ended(self, plan_id: str, patience_s: float = 20.0) -> Any:
        """The outcome of a plan once it is no longer running."""
        deadline = time.monotonic() + patience_s
        while (outcome := await self.actuator.follow(plan_id)).status == "running":
            if time.monotonic() > deadline:
                raise TimeoutError(f"still running: {outcome.detail}")
            await asyncio.sleep(0.1)
        return outcome


@dataclass(frozen=True)
class Maker:
    """Makes workloads and daemons in one namespace."""

    plane: ControlPlane
    cluster: Cluster
    namespace: str
    user: str

    def path(self, kind: str, name: str = "", group: str = "apps/v1") -> str:
        api = "/api/v1" if group == "v1" else f"/apis/{group}"
        return f"{api}/namespaces/{self.namespace}/{kind}{'/' + name if name else ''}"

    def daemon(
        self,
        target: str = "deployment/vllm",
        *,
        fleet: str = "tests",
        identity: str = "one",
        knock: Knock | None = None,
        times: LeaseTimes = TIMES,
        place: Place | None = None,
        **pool: Any,
    ) -> Daemon:
        clock = SystemClock()
        token = ADMIN_TOKEN if self.user == "admin" else f"token-of-{self.user}"
        api = KubeApi(place or Place(self.plane.kubeconfig(self.user, token), None, self.namespace), clock)
        of = KubePool("chat", workload(target, self.namespace), **{"drain_deadline_s": 30.0, **pool})
        name = LeaseName(self.namespace, f"opsconsole-{fleet}", identity, (of.workload.key,), f"opsconsole/{fleet}")
        lease = Lease(api, name, clock, times)
        me = Self(f"opsconsole/{fleet}", f"{self.namespace}/{name.name}")
        scaler = Scaler(api, clock, me.manager, lease.fence)
        board = Board(frozenset() if of.via == "scale" else frozenset({"chat"}))
        world = World(api, clock, lease, scaler, Herald(api, clock, identity), me, knock or _no_engine, board)
        actuator = KubeActuator(of, world)
        return Daemon(actuator, world, KubeLife(world, [actuator]), Load())

    def deploy(self, name: str = "vllm", replicas: int = 2, **how: Any) -> None:
        self.cluster.create(self.path("deployments"), deployment(name, replicas, **how))

    def pods(self, name: str = "vllm") -> list[Mapping[str, Any]]:
        found = self.cluster.get(self.path("pods", group="v1"), labelSelector=f"app={name}")["items"]
        return sorted(found, key=lambda p: p["metadata"]["name"])

    def ready(self, name: str = "vllm") -> list[str]:
        """Names of pods that are Ready and stay."""
        return [
            p["metadata"]["name"]
            for p in self.pods(name)
            if "deletionTimestamp" not in p["metadata"]
            and any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))
        ]

    def replicas(self, name: str = "vllm", kind: str = "deployments") -> int:
        return int(self.cluster.get(self.path(kind, name))["spec"]["replicas"])

    def events(self) -> list[Mapping[str, Any]]:
        found = self.cluster.get(self.path("events", group="v1"))["items"]
        return [e for e in found if e.get("source", {}).get("component") == "opsconsole"]


async def _no_engine(url: str) -> int | None:
    return 404
