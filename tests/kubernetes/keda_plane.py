"""KEDA's real operator and metrics adapter beside the control plane, as an aggregated API behind the API server.

Knows how they are started, not what they scale. The trap: both read the same folder of certificates, and each wants
the authority in it as well.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import yaml

from tests.kubernetes.aggregation import authority, serve_metrics_from
from tests.kubernetes.plane import HERE, Cluster, ControlPlane, wait_for
from tests.ports import free_port

BUILD = HERE / "keda" / "build.sh"
NAMESPACE = "keda"


def binaries() -> Path | None:
    """The folder of KEDA's binaries, or None where nobody has built them."""
    folder = Path(subprocess.run([str(BUILD), "--where"], check=True, capture_output=True, text=True).stdout.strip())
    return folder if all((folder / name).exists() for name in ("operator", "adapter", "crd")) else None


class Keda:
    """Operator and adapter of one plane; they end with it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._bin = plane, folder
        self._certificates = plane.folder / "keda"

    def start(self) -> None:
        cluster = Cluster(self._plane)
        self._define(cluster)
        service, secure = free_port(), free_port()
        authority(self._certificates, "tls", "localhost")
        (self._certificates / "ca.crt").write_bytes((self._certificates / "tls-ca.crt").read_bytes())
        self._run_operator(service)
        self._run_adapter(service, secure)
        serve_metrics_from(cluster, NAMESPACE, secure)
        cluster.close()

    def stop(self) -> None:
        for name in ("adapter", "operator"):
            self._plane.kill(name)

    def _define(self, cluster: Cluster) -> None:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for path in sorted((self._bin / "crd").glob("*.yaml")):
            cluster.create(crds, yaml.safe_load(path.read_text()))
        wait_for("KEDA's kinds", lambda: cluster.answers("/apis/keda.sh/v1alpha1/scaledobjects"))

    def _run_operator(self, service: int) -> None:
        command = ["--kubeconfig", self._config, "--cert-dir", str(self._certificates), "--leader-elect=false"]
        command += ["--metrics-service-bind-address", f"127.0.0.1:{service}", "--metrics-bind-address", "0"]
        command += ["--health-probe-bind-address", f"127.0.0.1:{free_port()}", "--zap-log-level", "info"]
        command += ["--enable-webhook-patching=false", "--enable-apiservice-patching=false"]
        self._plane.run("operator", command, self._bin / "operator", ENVIRONMENT)

    def _run_adapter(self, service: int, secure: int) -> None:
        command = ["--secure-port", str(secure), "--bind-address", "127.0.0.1", "--cert-dir", str(self._certificates)]
        command += ["--tls-cert-file", str(self._certificates / "tls.crt")]
        command += ["--tls-private-key-file", str(self._certificates / "tls.key")]
        for name in ("", "lister-", "authentication-", "authorization-"):
            command += [f"--{name}kubeconfig", self._config]
        command += ["--metrics-service-address", f"localhost:{service}"]
        self._plane.run("adapter", command, self._bin / "adapter", ENVIRONMENT)

    @property
    def _config(self) -> str:
        return str(self._plane.folder / "admin.kubeconfig")


ENVIRONMENT = {"POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": ""}


def tail(plane: ControlPlane, name: str, lines: int = 30) -> str:
    """The end of a program's log, for a failure's message."""
    text = (plane.folder / f"{name}.log").read_text(errors="replace").splitlines()
    return json.dumps(text[-lines:], indent=1)
