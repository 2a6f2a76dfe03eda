"""From a pod as the API server tells it to a target: address, readiness, start-up phase, node, accelerators.

Pure and without the client library: pods are plain JSON. The traps: a pod that is being deleted still answers and is
draining; a pod without an address is a replica on its way, not a missing one; a finished pod is nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opsconsole.observe.source import ReplicaRef, Target

Pod = Mapping[str, Any]

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "google.com/tpu",
    "habana.ai/gaudi",
)
GPU_KIND_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "node.kubernetes.io/instance-type")
ROLE_LABELS = ("llm-d.ai/role", "llm_isvc_role", "role")
POOL_LABELS = ("llm-d.ai/model", "app.kubernetes.io/name", "app", "app.kubernetes.io/instance")
_PULL_REASONS = frozenset({"ContainerCreating", "PodInitializing", "Pulling", "ImagePullBackOff", "ErrImagePull"})
_METRICS_PORTS = ("metrics", "http-metrics", "http", "api")


@dataclass(frozen=True, slots=True)
class PodRules:
    """How an address and a pool are found. Annotations `prometheus.io/{port,path,scheme}` win over these."""

    port: int | None = None
    path: str = "/metrics"
    scheme: str = "http"
    pool: str | None = None  # one pool for every pod
    pool_label: str | None = None


def as_target(pod: Pod, rules: PodRules) -> Target | None:
    """The pod as a target, or None for one that is over."""
    status, spec = _map(pod, "status"), _map(pod, "spec")
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    address = _address(pod, rules)
    ref = ReplicaRef(
        name=str(_map(pod, "metadata").get("name", "")),
        pool=_pool(pod, rules),
        url=address,
        node=spec.get("nodeName"),
        gpu=_first(_map(spec, "nodeSelector"), GPU_KIND_LABELS),
        gpus=_gpus(spec),
        started_at=_unix(_map(pod, "metadata").get("creationTimestamp")),
        role=_first(_labels(pod), ROLE_LABELS),
    )
    ready = _is_ready(status)
    deleting = "deletionTimestamp" in _map(pod, "metadata")
    phase = None if ready or deleting else start_phase(status)
    return Target(ref, address, ready=ready, draining=True if deleting else None, phase=phase)


def start_phase(status: Mapping[str, Any]) -> str:
    """pending (no node yet), pull (image and volumes), failing (it ran and fell), load (it runs and is not ready)."""
    if not any(c.get("type") == "PodScheduled" and c.get("status") == "True" for c in _list(status, "conditions")):
        return "pending"
    for container in (*_list(status, "initContainerStatuses"), *_list(status, "containerStatuses")):
        waiting = _map(_map(container, "state"), "waiting").get("reason")
        if waiting in _PULL_REASONS:
            return "pull"
        if waiting:
            return "failing"  # CrashLoopBackOff, CreateContainerConfigError, ...
    running = [c for c in _list(status, "containerStatuses") if "running" in _map(c, "state")]
    return "load" if running else "pull"


def _address(pod: Pod, rules: PodRules) -> str | None:
    """None until a container runs: before that nothing can listen."""
    status = _map(pod, "status")
    ip = status.get("podIP")
    if not ip or not any("running" in _map(c, "state") for c in _list(status, "containerStatuses")):
        return None
    notes = _map(_map(pod, "metadata"), "annotations")
    host = f"[{ip}]" if ":" in str(ip) else ip
    port = notes.get("prometheus.io/port") or rules.port or _port(_map(pod, "spec"))
    path = str(notes.get("prometheus.io/path") or rules.path)
    scheme = notes.get("prometheus.io/scheme") or rules.scheme
    return f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"


def _port(spec: Mapping[str, Any]) -> int:
    ports = [p for c in _list(spec, "containers") for p in _list(c, "ports") if p.get("containerPort")]
    named = {str(p.get("name")): int(p["containerPort"]) for p in reversed(ports)}
    found = next((named[name] for name in _METRICS_PORTS if name in named), None)
    return found or (int(ports[0]["containerPort"]) if ports else 8000)


def _pool(pod: Pod, rules: PodRules) -> str:
    labels = _labels(pod)
    if rules.pool:
        return rules.pool
    if rules.pool_label:
        return str(labels.get(rules.pool_label) or "unlabelled")
    return _first(labels, POOL_LABELS) or str(_map(pod, "metadata").get("namespace", "default"))


def _gpus(spec: Mapping[str, Any]) -> int | None:
    total = 0
    for container in _list(spec, "containers"):
        limits = _map(_map(container, "resources"), "limits")
        total += sum(int(limits[name]) for name in GPU_RESOURCES if str(limits.get(name, "")).isdigit())
    return total or None


def _is_ready(status: Mapping[str, Any]) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in _list(status, "conditions"))


def _unix(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp() if stamp else None
    except ValueError:
        return None


def _labels(pod: Pod) -> Mapping[str, Any]:
    return _map(_map(pod, "metadata"), "labels")


def _first(labels: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((str(labels[name]) for name in names if labels.get(name)), None)


def _map(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def _list(holder: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = holder.get(key)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
