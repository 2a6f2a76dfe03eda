"""KEDA's real operator and metrics adapter beside the control plane, as an aggregated API behind the API server.

Knows how they are started, not what they scale. The trap: KEDA's HPA reads external metrics through the aggregator,
which speaks to the adapter with a front-proxy certificate, so the plane must be started with that authority.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.plane import HERE, Cluster, ControlPlane, wait_for
from tests.ports import free_port

BUILD = HERE / "keda" / "build.sh"
NAMESPACE = "keda"


def binaries() -> Path | None:
    """The folder of KEDA's binaries, or None where nobody has built them."""
    folder = Path(subprocess.run([str(BUILD), "--where"], check=True, capture_output=True, text=True).stdout.strip())
    return folder if all((folder / name).exists() for name in ("operator", "adapter", "crd")) else None


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path, name: str, *subjects: str) -> None:
    """NAME-ca.crt and, signed by it, NAME.crt and NAME.key for the subjects (the first is the common name)."""
    folder.mkdir(parents=True, exist_ok=True)
    ca, key = folder / f"{name}-ca.crt", folder / f"{name}-ca.key"
    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}-ca",
        "-keyout",
        key,
        "-out",
        ca,
    )
    request, extra = folder / f"{name}.csr", folder / f"{name}.ext"
    extra.write_text("subjectAltName=" + ",".join(f"DNS:{subject}" for subject in subjects))
    subject: list[str | Path] = ["-subj", f"/CN={subjects[0]}", "-keyout", folder / f"{name}.key", "-out", request]
    openssl("req", "-newkey", "rsa:2048", "-nodes", *subject)
    signed: list[str | Path] = ["-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", extra]
    openssl("x509", "-req", "-in", request, *signed, "-out", folder / f"{name}.crt")


def aggregating(folder: Path) -> list[str]:
    """The API server's flags for aggregated APIs, with a front-proxy authority made for it."""
    authority(folder, "front", "front-proxy")
    headers = {"extra-headers-prefix": "X-Remote-Extra-", "group-headers": "X-Remote-Group"}
    flags = [word for name, value in headers.items() for word in (f"--requestheader-{name}", value)]
    flags += ["--requestheader-username-headers", "X-Remote-User", "--requestheader-allowed-names", "front-proxy"]
    flags += ["--requestheader-client-ca-file", str(folder / "front-ca.crt")]
    flags += [
        "--proxy-client-cert-file",
        str(folder / "front.crt"),
        "--proxy-client-key-file",
        str(folder / "front.key"),
    ]
    return [*flags, "--enable-aggregator-routing=false"]


class Keda:
    """Operator and adapter of one plane; they end with it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._bin = plane, folder
        self._certificates = plane.folder / "keda"
        self._cluster = Cluster(plane)

    def start(self) -> None:
        self._define()
        service, secure = free_port(), free_port()
        authority(self._certificates, "tls", "localhost")
        (self._certificates / "ca.crt").write_bytes((self._certificates / "tls-ca.crt").read_bytes())
        self._run_operator(service)
        self._run_adapter(service, secure)
        self._register(secure)
        path = "/apis/external.metrics.k8s.io/v1beta1"
        wait_for("KEDA's metrics behind the API server", lambda: self._cluster.answers(path), 60.0)

    def stop(self) -> None:
        for name in ("adapter", "operator"):
            self._plane.kill(name)
        self._cluster.close()

    def _define(self) -> None:
        self._cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for path in sorted((self._bin / "crd").glob("*.yaml")):
            self._cluster.create(crds, yaml.safe_load(path.read_text()))
        wait_for("KEDA's kinds", lambda: self._cluster.answers("/apis/keda.sh/v1alpha1/scaledobjects"))

    def _run_operator(self, service: int) -> None:
        command = ["--kubeconfig", self._config, "--cert-dir", str(self._certificates), "--leader-elect=false"]
        command += ["--metrics-service-bind-address", f"127.0.0.1:{service}", "--metrics-bind-address", "0"]
        command += ["--health-probe-bind-address", f"127.0.0.1:{free_port()}", "--zap-log-level", "info"]
        command += ["--enable-webhook-patching=false", "--enable-apiservice-patching=false"]
        self._plane.run("operator", command, self._bin, ENVIRONMENT)

    def _run_adapter(self, service: int, secure: int) -> None:
        command = ["--secure-port", str(secure), "--bind-address", "127.0.0.1", "--cert-dir", str(self._certificates)]
        command += ["--tls-cert-file", str(self._certificates / "tls.crt")]
        command += ["--tls-private-key-file", str(self._certificates / "tls.key")]
        for name in ("", "lister-", "authentication-", "authorization-"):
            command += [f"--{name}kubeconfig", self._config]
        command += ["--metrics-service-address", f"localhost:{service}"]
        self._plane.run("adapter", command, self._bin, ENVIRONMENT)

    def _register(self, secure: int) -> None:
        """A Service of type ExternalName: the aggregator dials it, and no endpoints are needed."""
        ports = [{"port": secure, "targetPort": secure, "protocol": "TCP"}]
        service = {
            "metadata": {"name": "adapter"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": ports},
        }
        self._cluster.create(f"/api/v1/namespaces/{NAMESPACE}/services", service)
        spec: dict[str, Any] = {
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": NAMESPACE, "name": "adapter", "port": secure},
        }
        body = {"metadata": {"name": "v1beta1.external.metrics.k8s.io"}, "spec": spec}
        self._cluster.create("/apis/apiregistration.k8s.io/v1/apiservices", body)

    @property
    def _config(self) -> str:
        return str(self._plane.folder / "admin.kubeconfig")


ENVIRONMENT = {"POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": ""}


def tail(plane: ControlPlane, name: str, lines: int = 30) -> str:
    """The end of a program's log, for a failure's message."""
    text = (plane.folder / f"{name}.log").read_text(errors="replace").splitlines()
    return json.dumps(text[-lines:], indent=1)
