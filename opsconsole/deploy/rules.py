"""Who may do what: the least verbs that each part of the daemon needs, and why each is there.

The chart's role and `opsconsole manifests daemon` are both made from here. The trap: a verb added "to be safe" is
granted in every cluster; each rule below names the code that would fail without it.
"""

from __future__ import annotations

from typing import Any

Rule = dict[str, Any]

LOOK = ["get", "list", "watch"]
SCALABLE = {
    "apps": ["deployments", "statefulsets", "replicasets"],
    "leaderworkerset.x-k8s.io": ["leaderworkersets"],
    "nvidia.com": ["dynamographdeployments", "dynamographdeploymentscalingadapters"],
}


def watching() -> list[Rule]:
    """Discovery, start-up phases, other owners: enough for modes off and advise."""
    return [
        _rule("", ["pods", "events"], LOOK),
        *(_rule(group, kinds, LOOK) for group, kinds in SCALABLE.items()),
        *(_rule(group, [f"{kind}/scale" for kind in kinds], ["get"]) for group, kinds in SCALABLE.items()),
        _rule("autoscaling", ["horizontalpodautoscalers"], LOOK),
        _rule("keda.sh", ["scaledobjects"], LOOK),
        _rule("policy", ["poddisruptionbudgets"], LOOK),
        _rule("inference.networking.k8s.io", ["inferencepools"], LOOK),
    ]


def acting() -> list[Rule]:
    """What mode act adds: scale, deletion cost and routing label, readiness gates, events, the lease."""
    return [
        *(_rule(group, [f"{kind}/scale" for kind in kinds], ["update", "patch"]) for group, kinds in SCALABLE.items()),
        _rule("", ["pods", "pods/status"], ["patch"]),
        _rule("", ["events"], ["create", "patch"]),
        # list: whether another opsconsole that wrote a scale still lives
        _rule("coordination.k8s.io", ["leases"], ["get", "list", "create", "update"]),
    ]


def nodes() -> list[Rule]:
    """A ClusterRole of its own, as nodes have no namespace: node types for learned cold starts."""
    return [_rule("", ["nodes"], ["get"])]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
