"""Ten minutes of load and random faults, and then what must never have happened did not.

    make soak-kubernetes          SOAK_S=120 SOAK_SEED=7 for another length and other faults

Two daemons as processes, a fleet whose first two engines are the real ones where their weights are, a gateway. Every
claim at the end is read from what others wrote down: the API server's audit log, the daemons' databases, the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opsconsole.cluster.pods import unix
from opsconsole.deploy.rules import acting, watching
from opsconsole.history import blob
from tests.kubernetes.audit import Write, by_non_leaders, writes
from tests.kubernetes.daemons import DaemonProcess
from tests.kubernetes.engines import Kubelets
from tests.kubernetes.gateway import Gateway
from tests.kubernetes.test_faults import allow, storm
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]
MINIMUM, MAXIMUM = 1, 3
DAEMONS = ("daemon", "second")
SLACK_S = 1.0  # between the clocks of a journal and of the server's log, which is written once it has answered


@dataclass
class Soak:
    """Faults, done one after another to one fleet."""

    here: Maker
    daemons: dict[str, DaemonProcess]
    draw: random.Random
    done: Counter[str] = field(default_factory=Counter)

    async def run(self, seconds: float) -> None:
        ends = asyncio.get_running_loop().time() + seconds
        faults: list[Callable[[], Awaitable[None]]] = [
            self.leader_is_killed,
            self.leader_hangs,
            self.api_server_restarts,
            self.others_write,
            self.nodes_hang,
            self.somebody_scales_by_hand,
            self.an_hpa_comes_and_goes,
        ]
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(self.draw.uniform(3.0, 9.0))
            fault = self.draw.choice(faults)
            self.done[fault.__name__] += 1
            await fault()

    def leader(self) -> DaemonProcess:
        lease = self.here.cluster.find(self.here.path("leases", "opsconsole-story", group="coordination.k8s.io/v1"))
        holder = str(lease["spec"].get("holderIdentity") or "") if lease else ""
        alive = [d for d in self.daemons.values() if d.process is not None]
        return next((d for d in alive if f"_{d.process.pid}_" in holder), alive[0])  # type: ignore[union-attr]

    async def leader_is_killed(self) -> None:
        daemon = self.leader()
        await asyncio.to_thread(daemon.end, signal.SIGKILL)
        await asyncio.sleep(self.draw.uniform(0.0, 8.0))
        daemon.start()

    async def leader_hangs(self) -> None:
        daemon = self.leader()
        assert daemon.process is not None
        os.kill(daemon.process.pid, signal.SIGSTOP)
        await asyncio.sleep(self.draw.uniform(2.0, 10.0))
        os.kill(daemon.process.pid, signal.SIGCONT)

    async def api_server_restarts(self) -> None:
        await asyncio.to_thread(self.here.plane.restart_apiserver)

    async def others_write(self) -> None:
        with storm(self.here):
            await asyncio.sleep(4.0)

    async def nodes_hang(self) -> None:
        kwok = self.here.plane.processes["kwok"]
        os.kill(kwok.pid, signal.SIGSTOP)
        await asyncio.sleep(self.draw.uniform(2.0, 8.0))
        os.kill(kwok.pid, signal.SIGCONT)

    async def somebody_scales_by_hand(self) -> None:
        # Upwards: what a hand takes away is not drained, and would be counted as cut.
        to = min(MAXIMUM, self.here.replicas() + 1)
        self.here.cluster.patch(self.here.path("deployments", "vllm"), {"spec": {"replicas": to}})

    async def an_hpa_comes_and_goes(self) -> None:
        path = self.here.path("horizontalpodautoscalers", group="autoscaling/v2")
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}
        target = {"type": "Utilization", "averageUtilization": 80}
        cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        spec = {"scaleTargetRef": ref, "minReplicas": MINIMUM, "maxReplicas": MAXIMUM, "metrics": [cpu]}
        self.here.cluster.create(path, {"metadata": {"name": "guest"}, "spec": spec})
        await asyncio.sleep(self.draw.uniform(2.0, 8.0))
        self.here.cluster.delete(f"{path}/guest")


async def waves(gateway: Gateway, draw: random.Random, stop: asyncio.Event) -> None:
    """Load that rises and falls, so that the fleet has to."""
    while not stop.is_set():
        ebb = asyncio.Event()
        pressing = asyncio.create_task(gateway.press(draw.choice((2, 24)), ebb))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), draw.uniform(15.0, 35.0))
        ebb.set()
        await pressing


@pytest.mark.slow
async def test_a_long_run_with_faults_at_random(make: Make, tmp_path: Path) -> None:
    seconds, seed = float(os.environ.get("SOAK_S", "600")), int(os.environ.get("SOAK_SEED", "1"))
    draw = random.Random(seed)
    here = make()
    for user in DAEMONS:
        allow(here, user, [*watching(), *acting()])
    here.deploy(replicas=1, ready="8s", engine="--max-seqs 2")
    daemons = {user: DaemonProcess(make(user), tmp_path / user, maximum=MAXIMUM) for user in DAEMONS}
    soak = Soak(here, daemons, draw)
    gateway, stop = Gateway(here), asyncio.Event()
    with Kubelets(here.plane, here.namespace, tmp_path, real=2):
        try:
            for daemon in daemons.values():
                daemon.start()
            await eventually("the daemons", lambda: all(d.is_ready() for d in daemons.values()), 90.0)
            await eventually("the first pod", lambda: len(here.ready()) == 1, 60.0)
            pressing = asyncio.create_task(waves(gateway, draw, stop))
            await soak.run(seconds)
            stop.set()
            await pressing
            await eventually("both daemons", lambda: all(d.is_ready() for d in daemons.values()), 60.0)
            await eventually("every act ended", lambda: not open_acts(daemons), 120.0)
        finally:
            for daemon in daemons.values():
                if daemon.process is not None and daemon.process.poll() is None:
                    daemon.end()
    scales, leases = writes(here.plane.folder / "audit.log", here.namespace)
    ours = [write for write in scales if write.user in DAEMONS]
    print(f"faults {dict(soak.done)}; {len(ours)} writes of the scale; streams {dict(gateway.ended)}")
    assert ours, "nothing was scaled: this run shows nothing"
    assert by_non_leaders(scales, leases, DAEMONS) == []
    assert [write for write in ours if not MINIMUM <= (write.replicas or 0) <= MAXIMUM] == []
    assert shrinks_on_unknown(daemons) == []
    assert unaccounted(ours, daemons) == []
    cut = sum(n for how, n in gateway.ended.items() if how.startswith("cut"))
    assert cut <= sum(row[0] for d in daemons.values() for row in rows(d, "select streams_cut from acts")), "untold"


def rows(daemon: DaemonProcess, query: str) -> list[Any]:
    with sqlite3.connect(f"file:{daemon.folder / 'data' / 'opsconsole.db'}?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def open_acts(daemons: dict[str, DaemonProcess]) -> list[Any]:
    return [row for d in daemons.values() for row in rows(d, "select plan_id from acts where ended_at is null")]


def unaccounted(ours: list[Write], daemons: dict[str, DaemonProcess]) -> list[Write]:
    """Writes without an act of their own in any journal: for that count, begun before it and not ended before it."""
    query = "select at, ended_at, to_count from acts"
    acts = [(at, math.inf if end is None else end, to) for d in daemons.values() for at, end, to in rows(d, query)]
    acts.sort(key=lambda act: act[1])  # one that the end of the run left open has not ended
    missing = []
    for write in sorted(ours, key=lambda write: write.at):
        at = unix(write.at) or 0.0
        own = next((a for a in acts if a[2] == write.replicas and a[0] <= at + SLACK_S and at <= a[1] + SLACK_S), None)
        if own is None:
            missing.append(write)
        else:
            acts.remove(own)
    return missing


def shrinks_on_unknown(daemons: dict[str, DaemonProcess]) -> list[Any]:
    """Decisions for fewer replicas that were made without fresh facts of every live one."""
    found = []
    for daemon in daemons.values():
        for at, current, target, packed in rows(daemon, "select at, current, target, blob from decisions"):
            if target < current and not blob.unpack_data(packed)["situation"].get("covered"):
                found.append((at, current, target))
    return found
