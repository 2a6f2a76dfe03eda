"""Kinds that a cluster does not have by itself, as small definitions: KEDA's ScaledObject, Dynamo's scaling adapter.

They carry what the product reads of the real ones and nothing else. The trap: a definition is usable a moment after it
was created, so making one waits until the API server lists it.
"""

from __future__ import annotations

from typing import Any

from tests.kubernetes.plane import Cluster, wait_for

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def define(cluster: Cluster, group: str, version: str, kind: str, *, scale: bool = False) -> None:
    """The definition, unless it is there already."""
    plural = f"{kind.lower()}s"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}"
    if cluster.find(path) is None:
        schema = {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}
        shape: dict[str, Any] = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
        }
        if scale:
            paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
            shape["subresources"] = {"status": {}, "scale": {**paths, "labelSelectorPath": ".status.selector"}}
            properties: Any = schema["properties"]
            properties["spec"] = {**_ANY, "properties": {"replicas": {"type": "integer", "minimum": 0, "maximum": 8}}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [shape]}
        cluster.create(path.rpartition("/")[0], {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    wait_for(f"{plural}.{group}", lambda: cluster.answers(f"/apis/{group}/{version}/{plural}"))


def undefine(cluster: Cluster, group: str, kind: str) -> None:
    cluster.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.lower()}s.{group}")
