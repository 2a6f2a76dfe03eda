"""A pod as the API server tells it, read into facts: how far its start is, who made it, whether it may serve.

Pure, and pods are plain JSON. The traps: a pod that is being deleted still answers; a pod without an address is one on
its way, not a missing one; and a pod that no node takes is a start for a while (a node may be on its way) and no start
at all after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

Pod = Mapping[str, Any]

SERVING_LABEL = "opsconsole.dev/serving"  # "false" takes a pod out of a router's selector; also the readiness gate
DRAIN_ANNOTATION = "opsconsole.dev/drain"  # the plan that took it out
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
REVISION_LABELS = (
    "pod-template-hash",
    "controller-revision-hash",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
)
UNSCHEDULABLE_AFTER_S = 300.0
_PULL_REASONS = frozenset({"ContainerCreating", "PodInitializing", "Pulling", "ImagePullBackOff", "ErrImagePull"})
_MODEL_FLAGS = ("--model", "--model-path", "--model-id")
_PORT_NAMES = ("metrics", "http-metrics", "http", "api")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod. Times are Unix seconds; None is not yet, or not told."""

    name: str
    uid: str = ""
    node: str | None = None
    node_type: str | None = None  # filled in by who may read nodes
    revision: str | None = None
    phase: str | None = None  # of its start; None once it is ready
    why: str | None = None  # what keeps it from starting, in the cluster's own words
    ready: bool = False
    deleting: bool = False
    created_at: float | None = None
    scheduled_at: float | None = None
    running_at: float | None = None
    ready_at: float | None = None
    restarts: int = 0
    grace_s: float = 30.0
    serving: bool = True  # False once it was taken out of routing
    drain: str | None = None  # the plan that took it out of routing; None where a person did, or nobody
    gated: bool = False  # whether it has the readiness gate that takes it out
    gate_open: bool = False  # whether that gate lets it be ready
    cost: int = 0
    image: str | None = None
    model: str | None = None  # that its command line names
    url: str | None = None  # of the engine in it, without a path
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def crash_loops(self) -> bool:
        return self.phase == "failing"

    @property
    def runs(self) -> str:
        """What it starts, of which loading times are alike."""
        return " ".join(part for part in (self.image, self.model) if part)

    @property
    def ordinal(self) -> int | None:
        """The number at the end of its name, which is what a StatefulSet goes by."""
        last = self.name.rpartition("-")[2]
        return int(last) if last.isdigit() else None


def facts(pod: Pod, now: float | None = None, *, port: int | None = None) -> PodFacts | None:
    """The pod's facts, or None for one that is over."""
    meta, status, spec = mapping(pod, "metadata"), mapping(pod, "status"), mapping(pod, "spec")
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    labels, notes = mapping(meta, "labels"), mapping(meta, "annotations")
    ready, deleting = is_ready(status), "deletionTimestamp" in meta
    phase = None if ready or deleting else start_phase(status, now)
    host = address(pod)
    at = _port(spec, notes, port)
    return PodFacts(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        node=node_of(pod),
        revision=next((str(labels[key]) for key in REVISION_LABELS if key in labels), None),
        phase=phase,
        why=None if phase is None else _why(status),
        ready=ready,
        deleting=deleting,
        created_at=unix(meta.get("creationTimestamp")),
        scheduled_at=_since(status, "PodScheduled"),
        running_at=_running_at(status),
        ready_at=_since(status, "Ready"),
        restarts=sum(int(c.get("restartCount") or 0) for c in entries(status, "containerStatuses")),
        grace_s=float(spec.get("terminationGracePeriodSeconds") or 30.0),
        serving=labels.get(SERVING_LABEL) != "false",
        drain=str(notes[DRAIN_ANNOTATION]) if notes.get(DRAIN_ANNOTATION) else None,
        gated=any(g.get("conditionType") == SERVING_LABEL for g in entries(spec, "readinessGates")),
        gate_open=_condition(status, SERVING_LABEL).get("status") == "True",
        cost=_cost(notes),
        image=next((str(c["image"]) for c in entries(spec, "containers") if c.get("image")), None),
        model=next((m for c in entries(spec, "containers") if (m := _model(c)) is not None), None),
        url=None if host is None else f"{notes.get('prometheus.io/scheme') or 'http'}://{host}:{at}",
        labels={str(k): str(v) for k, v in labels.items()},
    )


def known(pods: Iterable[Pod]) -> list[PodFacts]:
    """Facts of all that are not over."""
    return [found for pod in pods if (found := facts(pod)) is not None]


def start_phase(status: Mapping[str, Any], now: float | None = None) -> str:
    """pending (no node yet), unschedulable (for too long), pull (image, volumes), failing (it ran and fell), load."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") != "True":
        since = unix(scheduled.get("lastTransitionTime"))
        if scheduled.get("reason") != "Unschedulable" or now is None or since is None:
            return "pending"
        return "unschedulable" if now - since >= UNSCHEDULABLE_AFTER_S else "pending"
    for container in (*entries(status, "initContainerStatuses"), *entries(status, "containerStatuses")):
        waiting = mapping(mapping(container, "state"), "waiting").get("reason")
        if waiting in _PULL_REASONS:
            return "pull"
        if waiting:
            return "failing"  # CrashLoopBackOff, CreateContainerConfigError, ...
    return "load" if is_running(status) else "pull"


def is_ready(status: Mapping[str, Any]) -> bool:
    return _condition(status, "Ready").get("status") == "True"


def is_running(status: Mapping[str, Any]) -> bool:
    return any("running" in mapping(c, "state") for c in entries(status, "containerStatuses"))


def is_draining(pod: Pod) -> bool:
    """Being deleted, or taken out of routing by its label."""
    meta = mapping(pod, "metadata")
    return "deletionTimestamp" in meta or mapping(meta, "labels").get(SERVING_LABEL) == "false"


def node_of(pod: Pod) -> str | None:
    """The node it was given to; None before."""
    found = mapping(pod, "spec").get("nodeName")
    return str(found) if found else None


def address(pod: Pod) -> str | None:
    """The host part of a URL; None until a container runs: before that nothing can listen."""
    status = mapping(pod, "status")
    ip = status.get("podIP")
    if not ip or not is_running(status):
        return None
    return f"[{ip}]" if ":" in str(ip) else str(ip)


def _port(spec: Mapping[str, Any], notes: Mapping[str, Any], given: int | None) -> int | str:
    """The pod's own word, then the operator's, then the containers' ports."""
    return str(notes.get("prometheus.io/port") or "") or given or container_port(spec)


def container_port(spec: Mapping[str, Any]) -> int:
    """The port whose name says metrics or http, else the first, else 8000."""
    ports = [p for c in entries(spec, "containers") for p in entries(c, "ports") if p.get("containerPort")]
    named = {str(p.get("name")): int(p["containerPort"]) for p in reversed(ports)}
    found = next((named[name] for name in _PORT_NAMES if name in named), None)
    return found or (int(ports[0]["containerPort"]) if ports else 8000)


def unix(stamp: object) -> float | None:
    """An RFC 3339 stamp as Unix seconds."""
    try:
        return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp() if stamp else None
    except ValueError:
        return None


def mapping(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def entries(holder: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = holder.get(key)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _model(container: Pod) -> str | None:
    """What an engine is told to load: `--model X`, `--model=X`, `--model-path X`, or `serve X` of vLLM."""
    words = [str(w) for key in ("command", "args") for w in (container.get(key) or ())]
    for word, after in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag in _MODEL_FLAGS:
            return (value if equals else after) or None
        if word == "serve" and after and not after.startswith("-"):
            return after
    return None


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((c for c in entries(status, "conditions") if c.get("type") == kind), {})


def _since(status: Mapping[str, Any], kind: str) -> float | None:
    """Since when the condition holds; None while it does not."""
    found = _condition(status, kind)
    return unix(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _running_at(status: Mapping[str, Any]) -> float | None:
    states = (mapping(mapping(c, "state"), "running") for c in entries(status, "containerStatuses"))
    begun = [at for state in states if (at := unix(state.get("startedAt"))) is not None]
    return max(begun, default=None)


def _why(status: Mapping[str, Any]) -> str | None:
    """The scheduler's sentence, or the reason a container waits for."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") != "True":
        return str(scheduled["message"]) if scheduled.get("message") else None
    states = (mapping(mapping(c, "state"), "waiting") for c in entries(status, "containerStatuses"))
    return next((str(s["reason"]) for s in states if s.get("reason")), None)


def _cost(notes: Mapping[str, Any]) -> int:
    try:
        return int(str(notes.get(COST_ANNOTATION) or 0))
    except ValueError:
        return 0
