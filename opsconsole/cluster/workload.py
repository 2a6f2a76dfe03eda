"""Which object of a cluster is scaled, as an operator names it, and where the API server keeps it.

Pure. Any kind with a scale subresource will do: the usual ones go by their kubectl names, others are written out as
kubectl writes them (`PLURAL.VERSION.GROUP/NAME`). The trap: a StatefulSet and a LeaderWorkerSet take their highest
ordinal whatever anybody asks for, so who may choose the pod that goes depends on the kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from opsconsole.errors import ConfigError


class _Kind(NamedTuple):
    kind: str
    group: str
    version: str
    plural: str
    by_ordinal: bool = False


_KINDS = {
    "deployment": _Kind("Deployment", "apps", "v1", "deployments"),
    "statefulset": _Kind("StatefulSet", "apps", "v1", "statefulsets", True),
    "replicaset": _Kind("ReplicaSet", "apps", "v1", "replicasets"),
    "leaderworkerset": _Kind("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", True),
    "dynamographdeploymentscalingadapter": _Kind(
        "DynamoGraphDeploymentScalingAdapter", "nvidia.com", "v1alpha1", "dynamographdeploymentscalingadapters"
    ),
}
_SHORT = {
    "deploy": "deployment",
    "sts": "statefulset",
    "rs": "replicaset",
    "lws": "leaderworkerset",
    "dgdsa": "dynamographdeploymentscalingadapter",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One scalable object."""

    group: str
    version: str
    plural: str
    name: str
    namespace: str
    by_ordinal: bool = False  # the highest ordinal goes first
    kind: str | None = None  # None for a custom one: its plural does not tell

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}/namespaces/{self.namespace}/{self.plural}/{self.name}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def key(self) -> str:
        """Unique in a cluster, whatever version it is asked in."""
        return f"{self.plural}.{self.group}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.plural.removesuffix('s')} {self.namespace}/{self.name}"


def workload(text: str, namespace: str) -> Workload:
    """`deployment/vllm`, `sts/vllm`, or `widgets.v1.example.com/vllm`. Impossible ones are a ConfigError."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise ConfigError(f"{text!r} names no workload: write KIND/NAME, such as deployment/vllm.")
    word = kind.lower()
    word = _SHORT.get(word, word)
    known = _KINDS.get(word) or _KINDS.get(word.removesuffix("s"))
    if known is not None:
        return Workload(known.group, known.version, known.plural, name, namespace, known.by_ordinal, known.kind)
    plural, _, rest = word.partition(".")
    version, _, group = rest.partition(".")
    if not (plural and version and group):
        raise ConfigError(
            f"{kind!r} is no kind known here: use {', '.join(_KINDS)}, or write a custom one out as "
            "PLURAL.VERSION.GROUP/NAME."
        )
    return Workload(group, version, plural, name, namespace)
