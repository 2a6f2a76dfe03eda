"""Aggregated APIs on the plane: the certificates its aggregator needs, and how an API of another server is registered.

Knows nothing of what such an API tells. The trap: the aggregator speaks to the other server with a front-proxy
certificate, so the plane must be started with that authority.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.kubernetes.plane import Cluster, wait_for

EXTERNAL_METRICS = "external.metrics.k8s.io"


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path, name: str, *subjects: str) -> None:
    """NAME-ca.crt and, signed by it, NAME.crt and NAME.key for the subjects (the first is the common name)."""
    folder.mkdir(parents=True, exist_ok=True)
    ca, key = folder / f"{name}-ca.crt", folder / f"{name}-ca.key"
    fresh: list[str | Path] = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *fresh, "-days", "2", "-subj", f"/CN={name}-ca", "-keyout", key, "-out", ca)
    request, extra = folder / f"{name}.csr", folder / f"{name}.ext"
    extra.write_text("subjectAltName=" + ",".join(_alternative(subject) for subject in subjects))
    openssl(
        "req", *fresh, "-subj", f"/CN={subjects[0]}", "-keyout", folder / f"{name}.key", "-out", request
    )  # fmt: skip
    signed: list[str | Path] = ["-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", extra]
    openssl("x509", "-req", "-in", request, *signed, "-out", folder / f"{name}.crt")


def _alternative(subject: str) -> str:
    return f"IP:{subject}" if subject.replace(".", "").isdigit() else f"DNS:{subject}"


def aggregating(folder: Path) -> list[str]:
    """The API server's flags for aggregated APIs, with a front-proxy authority made for it."""
    authority(folder, "front", "front-proxy")
    flags = {
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-allowed-names": "front-proxy",
        "requestheader-client-ca-file": folder / "front-ca.crt",
        "proxy-client-cert-file": folder / "front.crt",
        "proxy-client-key-file": folder / "front.key",
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def serve_metrics_from(cluster: Cluster, namespace: str, port: int, patience_s: float = 60.0) -> None:
    """External metrics are what a server on loopback says: one that an HPA's controller will ask."""
    ports = [{"port": port, "targetPort": port, "protocol": "TCP"}]
    # An ExternalName is dialled as it is, and needs no endpoints, which may not be on loopback.
    spec: dict[str, Any] = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
    cluster.create(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": "adapter"}, "spec": spec})
    told: dict[str, Any] = {
        "group": EXTERNAL_METRICS,
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": namespace, "name": "adapter", "port": port},
    }
    body = {"metadata": {"name": f"v1beta1.{EXTERNAL_METRICS}"}, "spec": told}
    cluster.create("/apis/apiregistration.k8s.io/v1/apiservices", body)
    path = f"/apis/{EXTERNAL_METRICS}/v1beta1"
    wait_for("external metrics behind the API server", lambda: cluster.answers(path), patience_s)


def serve_no_metrics(cluster: Cluster) -> None:
    cluster.delete(f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{EXTERNAL_METRICS}")
