"""A person with a kubeconfig reaches a daemon in the cluster: CLI, API server, Service, endpoint, TLS, token.

All of it is real but for the kubelet: the daemon is a process of this machine, and the pod that stands for it bears the
machine's own address, because an API server leads to no loopback address.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from opsconsole.client.agent import AgentClient
from opsconsole.deploy.daemon import Daemon, deployment, service
from tests.kubernetes.aggregation import authority
from tests.kubernetes.daemons import SECRET, DaemonProcess
from tests.kubernetes.engines import Kubelets
from tests.kubernetes.plane import niced
from tests.kubernetes.test_faults import allow
from tests.kubernetes.worlds import Maker, eventually
from tests.ports import free_port

Make = Callable[..., Maker]
PROXY = [{"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create"]}]  # as docs/kubernetes.md says


def own_address() -> str | None:
    """An address of this machine that is not on loopback; None where it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith(("127.", "169.254.", "0.")) else found


@dataclass
class Laptop:
    """Where a person types, with a kubeconfig of a user of the plane."""

    here: Maker
    daemon: DaemonProcess
    home: Path
    user: str = "narrow"

    @property
    def address(self) -> str:
        return f"k8s://{self.here.namespace}/opsconsole"

    @property
    def kubeconfig(self) -> Path:
        return self.here.plane.kubeconfig(self.user, f"token-of-{self.user}")

    def types(self, *words: str, token: str = SECRET) -> subprocess.CompletedProcess[str]:
        told = {"KUBECONFIG": str(self.kubeconfig), "OPSCONSOLE_TOKEN": token, "HOME": str(self.home)}
        command = [sys.executable, "-m", "opsconsole", *words, "--attach", self.address]
        return subprocess.run(command, env={**niced(), **told}, capture_output=True, text=True, timeout=60)


@pytest.fixture
async def laptop(make: Make, tmp_path: Path) -> AsyncIterator[Laptop]:
    """A daemon behind its Service, and a person far away."""
    address, here, port = own_address(), make(), free_port()
    if address is None:
        pytest.skip("this machine has no address but loopback, and an API server leads to none of those")
    here.deploy(replicas=1, ready="6s", engine="--max-seqs 2")
    authority(tmp_path, "daemon", address, "opsconsole")
    told = {"AGENT__LISTEN": f"{address}:{port}", "AGENT__TLS_CERT": str(tmp_path / "daemon.crt")}
    told["AGENT__TLS_KEY"] = str(tmp_path / "daemon.key")
    environment = {f"OPSCONSOLE_{name}": value for name, value in told.items()}
    daemon = DaemonProcess(
        here, tmp_path / "daemon", port=port, environment=environment, url=f"https://{address}:{port}"
    )
    with Kubelets(here.plane, here.namespace, tmp_path):
        daemon.start()
        try:
            stand_for_it(here, address, port)
            await eventually("the daemon", daemon.is_ready, 60.0)
            await eventually("the pod", lambda: len(here.ready()) == 1, 40.0)
            await eventually("the Service to lead to it", lambda: leads_to(here, address), 30.0)
            yield Laptop(here, daemon, tmp_path)
        finally:
            daemon.end()


def stand_for_it(here: Maker, address: str, port: int) -> None:
    """The Service of `opsconsole manifests daemon`, and a pod of its Deployment that no kubelet runs."""
    of = Daemon("opsconsole", here.namespace, "opsconsole:1", "")
    here.cluster.create(here.path("services", group="v1"), service(of))
    template = deployment(of)["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["ports"] = [{"name": "api", "containerPort": port}]
    spec = {**template["spec"], "nodeName": "gpu-0"}
    meta = {**template["metadata"], "name": "opsconsole-0", "annotations": {"tests/pull": "1h"}}  # kwok leaves it alone
    here.cluster.create(here.path("pods", group="v1"), {"metadata": meta, "spec": spec})
    runs = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
    ready = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
    here.cluster.patch_status(here.path("pods", "opsconsole-0", group="v1"), {"status": {**runs, "conditions": ready}})


def leads_to(here: Maker, address: str) -> bool:
    found = here.cluster.find(here.path("endpoints", "opsconsole", group="v1")) or {}
    return any(a["ip"] == address for s in found.get("subsets") or () for a in s.get("addresses") or ())


async def test_commands_reach_a_daemon_through_the_api_server_and_its_rights_are_two(laptop: Laptop) -> None:
    refused = laptop.types("status")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "The cluster does not lead to the agent" in refused.stderr
    assert 'cannot get resource "services/proxy"' in refused.stderr
    allow(laptop.here, laptop.user, PROXY)

    await eventually("the fleet, seen by the daemon", lambda: states(laptop.daemon.get("/v1/snapshot").text) == ["OK"])
    told = laptop.types("status", "--output", "json")
    assert (told.returncode, told.stderr) == (0, "")
    assert states(told.stdout) == ["OK"]
    told = laptop.types("pause", "chat", "--for", "1h", "--note", "load test")
    assert told.returncode == 0, told.stderr
    assert "chat" in told.stdout
    for _ in range(10):  # it counts from the next decision on
        why = laptop.types("explain", "--pool", "chat")
        assert why.returncode == 0, why.stderr
        if "paused" in why.stdout:
            break
    assert "paused" in why.stdout
    stranger = laptop.types("status", token="another")
    assert stranger.returncode == 2
    assert "This agent wants a token" in stranger.stderr


def states(snapshot: str) -> list[str]:
    """Of its replicas."""
    return [r["state"] for r in json.loads(snapshot)["replicas"]]


async def test_ticks_stream_through_the_api_server(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(laptop.here, laptop.user, PROXY)
    place = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(laptop.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "KUBERNETES_SERVICE_HOST" not in os.environ
    async with AgentClient(laptop.address, token=SECRET) as client:
        ticks = []
        async for snapshot in client.stream():
            ticks.append(snapshot.tick)
            if len(ticks) == 3:
                break
    assert ticks == sorted(set(ticks))
