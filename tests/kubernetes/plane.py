"""A real control plane on loopback: etcd, API server, controllers, scheduler, kwok; started in seconds, stopped whole.

It must not know what is tested. Every port is a free one and every file lies in one folder, so planes of two runs do
not meet. The trap: an API server that starts before etcd answers gives up, so each step waits for the one before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.ports import free_port

HERE = Path(__file__).parent
BUILD = HERE / "controlplane" / "build.sh"
ADMIN_TOKEN = "admin-of-the-tests"
KUBELETS = "shared"  # of nodes that stay; a test may have kubelets of its own, to be killed
USERS = ("narrow", "watcher", "daemon", "second")  # bound to roles by the tests themselves


def binaries() -> Path | None:
    """The folder of ready binaries, or None where nobody has built them."""
    folder = Path(subprocess.run([str(BUILD), "--where"], check=True, capture_output=True, text=True).stdout.strip())
    return folder if all((folder / name).exists() for name in ("etcd", "kube-apiserver", "kwok")) else None


def wait_for(what: str, holds: Callable[[], bool], patience_s: float = 30.0) -> None:
    """Poll until it holds; the one place of the suite that waits for the world."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:g} s for {what}")
        time.sleep(0.05)


@dataclass
class ControlPlane:
    """Processes and addresses of one plane."""

    folder: Path
    bin: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    etcd_port: int = 0
    api_port: int = 0
    apiserver: Sequence[str] = ()  # further flags

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._secrets()
        self._start_etcd()
        self._start_apiserver()
        self.kubeconfig("admin", ADMIN_TOKEN)
        self._start_rest()

    def stop(self) -> None:
        last = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
        for name in (*(name for name in list(self.processes) if name not in last), *last):
            self.kill(name)

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(name, None)
        if process is not None and process.poll() is None:
            process.send_signal(how)
            process.wait(20)

    def restart_apiserver(self) -> None:
        self.kill("kube-apiserver")
        self.run("kube-apiserver", self.commands["kube-apiserver"])
        wait_for("the API server's return", self._api_ready)

    def kubeconfig(self, user: str, token: str) -> Path:
        """A kubeconfig of one user, context named after it."""
        path = self.folder / f"{user}.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "plane", "user": user, "namespace": "default"}}],
            "current-context": user,
        }
        path.write_text(json.dumps(document))
        return path

    def run(
        self, name: str, command: list[str], program: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the plane's program of this name, or another under it."""
        self.commands[name] = command
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(program or self.bin / name), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def _secrets(self) -> None:
        subprocess.run(
            ["openssl", "genrsa", "-out", str(self.folder / "sa.key"), "2048"], check=True, capture_output=True
        )
        lines = [f'{ADMIN_TOKEN},admin,0,"system:masters"', *(f"token-of-{user},{user},{user}" for user in USERS)]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _start_etcd(self) -> None:
        self.etcd_port = free_port()
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{free_port()}"
        command = ["--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self.run("etcd", [*command, "--initial-cluster", f"default={peer}"])
        wait_for("etcd", lambda: self._answers(f"{client}/health"))

    def _start_apiserver(self) -> None:
        self.api_port = free_port()
        key = str(self.folder / "sa.key")
        command = ["--etcd-servers", f"http://127.0.0.1:{self.etcd_port}", "--secure-port", str(self.api_port)]
        command += ["--bind-address", "127.0.0.1", "--cert-dir", str(self.folder / "certs")]
        command += ["--service-account-issuer", "https://tests", "--service-account-key-file", key]
        command += ["--service-account-signing-key-file", key, "--service-cluster-ip-range", "10.96.0.0/16"]
        command += ["--token-auth-file", str(self.folder / "tokens.csv"), "--authorization-mode", "RBAC"]
        command += ["--audit-policy-file", str(HERE / "audit.yaml"), "--audit-log-path", str(self.folder / "audit.log")]
        self.run("kube-apiserver", [*command, *self.apiserver, "--disable-admission-plugins", "ServiceAccount"])
        wait_for("the API server", self._api_ready)

    def _start_rest(self) -> None:
        config = ["--kubeconfig", str(self.folder / "admin.kubeconfig")]
        alone = [*config, "--leader-elect=false", "--secure-port"]
        haste = ["--horizontal-pod-autoscaler-sync-period", "5s", "--node-monitor-grace-period", "20s"]
        self.run("kube-controller-manager", [*alone, str(free_port()), *haste])
        self.run("kube-scheduler", [*alone, str(free_port())])
        self.run_kubelets("kwok", KUBELETS)

    def run_kubelets(self, name: str, nodes: str) -> None:
        """Play the kubelets of the nodes that are so labelled, as a program of this name."""
        port = free_port()
        # Pods have addresses at which something may really listen, and no pod of another plane has them.
        network = f"127.{1 + port // 256 % 254}.{port % 256}.1/24"
        command = ["--kubeconfig", str(self.folder / "admin.kubeconfig"), "-c", str(HERE / "stages.yaml")]
        command += [f"--manage-nodes-with-label-selector=tests/kubelets={nodes}", "--cidr", network]
        command += ["--node-ip", "127.0.0.1", "--node-lease-duration-seconds", "12"]
        self.run(name, [*command, "--server-address", f"127.0.0.1:{port}"], self.bin / "kwok")

    def _api_ready(self) -> bool:
        return self._answers(f"{self.url}/readyz", {"Authorization": f"Bearer {ADMIN_TOKEN}"})

    def _answers(self, url: str, headers: dict[str, str] | None = None) -> bool:
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        if dead:
            log = (self.folder / f"{dead[0]}.log").read_text(errors="replace")
            raise RuntimeError(f"{dead[0]} ended by itself:\n{log[-2000:]}")
        try:
            return httpx.get(url, headers=headers, verify=False, timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False


class Cluster:
    """The API server, spoken to by an administrator: plain paths and plain JSON."""

    def __init__(self, plane: ControlPlane, token: str = ADMIN_TOKEN) -> None:
        self._client = httpx.Client(
            base_url=plane.url, verify=False, timeout=10.0, headers={"Authorization": f"Bearer {token}"}
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query)

    def find(self, path: str) -> Any:
        """The object, or None where there is none."""
        answer = self._client.get(path)
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def lines(self, path: str, **query: Any) -> str:
        """What a watch tells until the server ends it."""
        return self._client.get(path, params=query).text

    def answers(self, path: str) -> bool:
        return self._client.get(path).is_success

    def create(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def patch(self, path: str, body: Any) -> Any:
        return self._ask("PATCH", path, json=body, headers={"Content-Type": "application/merge-patch+json"})

    def patch_status(self, path: str, body: Any) -> Any:
        """As a kubelet or a controller does; conditions are merged by their type."""
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        return self._ask("PATCH", f"{path}/status", json=body, headers=headers)

    def delete(self, path: str) -> None:
        self._ask("DELETE", path)

    def _ask(self, method: str, path: str, **how: Any) -> Any:
        answer = self._client.request(method, path, **how)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()


def niced() -> dict[str, str]:
    """An environment for child processes that should not take both cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
