"""From a pod as the API server tells it to a target: address, readiness, start-up phase, node, accelerators.

Pure and without the client library: pods are plain JSON. The traps: a pod that is being deleted still answers and is
draining; a pod without an address is a replica on its way, not a missing one; a finished pod is nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opsconsole.cluster.nodes import ACCELERATOR_LABELS, MACHINE_LABEL, UNKNOWN, NodeKind
from opsconsole.cluster.pods import (
    Pod,
    address,
    container_port,
    entries,
    facts,
    is_draining,
    is_ready,
    mapping,
    start_phase,
    unix,
)
from opsconsole.cluster.starts import StartTimes
from opsconsole.observe.source import ReplicaRef, Target

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "google.com/tpu",
    "habana.ai/gaudi",
)
GPU_KIND_LABELS = (*ACCELERATOR_LABELS, MACHINE_LABEL)
ROLE_LABELS = ("llm-d.ai/role", "llm_isvc_role", "role")
POOL_LABELS = ("llm-d.ai/model", "app.kubernetes.io/name", "app", "app.kubernetes.io/instance")


@dataclass(frozen=True, slots=True)
class PodRules:
    """How an address and a pool are found. Annotations `prometheus.io/{port,path,scheme}` win over these."""

    port: int | None = None
    path: str = "/metrics"
    scheme: str = "http"
    pool: str | None = None  # one pool for every pod
    pool_label: str | None = None


def as_target(
    pod: Pod,
    rules: PodRules,
    now: float | None = None,
    starts: StartTimes | None = None,
    node: NodeKind = UNKNOWN,
) -> Target | None:
    """The pod as a target, or None for one that is over.

    `now` tells a start from one that no node will take, `starts` when one like it was ready; `node` is what it runs on.
    """
    status, spec = mapping(pod, "status"), mapping(pod, "spec")
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    where = _address(pod, rules)
    ref = ReplicaRef(
        name=str(mapping(pod, "metadata").get("name", "")),
        pool=_pool(pod, rules),
        url=where,
        node=spec.get("nodeName"),
        gpu=_first(mapping(spec, "nodeSelector"), GPU_KIND_LABELS) or node.accelerator or node.machine,
        gpus=_gpus(spec),
        started_at=unix(mapping(pod, "metadata").get("creationTimestamp")),
        role=_first(_labels(pod), ROLE_LABELS),
    )
    ready = is_ready(status)
    leaving = is_draining(pod)
    phase = None if ready or leaving else start_phase(status, now)
    known = None if ready else facts(pod, now)
    expected = None
    if starts is not None and known is not None and phase is not None:
        expected = starts.expected_ready_at(replace(known, node_type=node.name))
    why = None if known is None else known.why
    return Target(ref, where, (), ready, True if leaving else None, phase, expected, why)


def _address(pod: Pod, rules: PodRules) -> str | None:
    """Where its page is; None until a container runs."""
    host = address(pod)
    if host is None:
        return None
    notes = mapping(mapping(pod, "metadata"), "annotations")
    port = notes.get("prometheus.io/port") or rules.port or container_port(mapping(pod, "spec"))
    path = str(notes.get("prometheus.io/path") or rules.path)
    scheme = notes.get("prometheus.io/scheme") or rules.scheme
    return f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"


def _pool(pod: Pod, rules: PodRules) -> str:
    labels = _labels(pod)
    if rules.pool:
        return rules.pool
    if rules.pool_label:
        return str(labels.get(rules.pool_label) or "unlabelled")
    return _first(labels, POOL_LABELS) or str(mapping(pod, "metadata").get("namespace", "default"))


def _gpus(spec: Mapping[str, Any]) -> int | None:
    total = 0
    for container in entries(spec, "containers"):
        limits = mapping(mapping(container, "resources"), "limits")
        total += sum(int(limits[name]) for name in GPU_RESOURCES if str(limits.get(name, "")).isdigit())
    return total or None


def _labels(pod: Pod) -> Mapping[str, Any]:
    return mapping(mapping(pod, "metadata"), "labels")


def _first(labels: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((str(labels[name]) for name in names if labels.get(name)), None)
