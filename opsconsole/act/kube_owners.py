"""Who else writes the scale of a workload: an HPA, a KEDA ScaledObject, another opsconsole.

Asked before every write, and answered with a name that a person finds again in the cluster. It changes nothing. The
trap: what may not be listed is not absent. A ScaledObject that this account is not allowed to see is a reason to stop,
while a cluster that has no such kind is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.pods import entries, mapping, unix
from opsconsole.cluster.workload import Workload

TARGETS = "opsconsole.dev/targets"  # annotation of a Lease: the workloads its holder writes
MANAGED_BY = "app.kubernetes.io/managed-by=opsconsole"
WRITES_AS = "opsconsole.dev/writes-as"  # ... and as which field manager
MANAGER = "opsconsole"  # field managers of ours are `opsconsole/FLEET`


@dataclass(frozen=True, slots=True)
class Self:
    """How this writer is told apart from others of its kind."""

    manager: str
    lease: str  # NAMESPACE/NAME


async def owner_of(api: KubeApi, workload: Workload, thing: Mapping[str, Any], me: Self, now: float) -> str | None:
    """The other writer in words, or None. `thing` is the workload's own object. Raises when it cannot be told."""
    kind = str(thing.get("kind") or "")
    for scaled in await _scaled_objects(api, workload):
        if _meant(mapping(scaled, "spec"), workload, kind) and not _is_paused(scaled):
            return f"the ScaledObject {_name(scaled)}"
    for hpa in await _list(api, f"/apis/autoscaling/v2/namespaces/{workload.namespace}/horizontalpodautoscalers"):
        if _meant(mapping(hpa, "spec"), workload, kind):
            return _hpa_words(hpa)
    released: set[str] = set()
    for lease in await _leases(api, workload):
        meta, spec = mapping(lease, "metadata"), mapping(lease, "spec")
        if f"{meta.get('namespace')}/{meta.get('name')}" == me.lease:
            continue
        if not _is_held(spec, now):
            released.add(str(mapping(meta, "annotations").get(WRITES_AS)))
        elif workload.key in _targets(meta):
            return f"the opsconsole {spec.get('holderIdentity')} (Lease {meta.get('name')})"
    return next(_writers(thing, me, released), None)


def via_owner(via: str, owner: str | None) -> str | None:
    """Why a pool that leaves the scale to an HPA or to KEDA is not in order; None when it is."""
    wanted = {"hpa": "the HPA", "keda": "the ScaledObject"}[via]
    if owner is None:
        return f'the pool says via = "{via}", and no {wanted.removeprefix("the ")} scales it'
    return None if owner.startswith(wanted) else f'the pool says via = "{via}", and {owner} scales it'


async def _scaled_objects(api: KubeApi, workload: Workload) -> list[Mapping[str, Any]]:
    path = f"/apis/keda.sh/v1alpha1/namespaces/{workload.namespace}/scaledobjects"
    try:
        return await _list(api, path)
    except KubeError as error:
        if error.is_missing:
            return []
        # Rights are asked before existence: where KEDA is not installed an account without them hears 403.
        if error.status == 403 and not await _has_keda(api):
            return []
        raise


async def _has_keda(api: KubeApi) -> bool:
    try:
        await api.get("/apis/keda.sh/v1alpha1")
    except KubeError as error:
        if error.is_missing:
            return False
        raise
    return True


async def _leases(api: KubeApi, workload: Workload) -> list[Mapping[str, Any]]:
    """Leases of other opsconsoles in the namespace. Listing them is not among the rights that are always given."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{workload.namespace}/leases"
    try:
        return await _list(api, path, {"labelSelector": MANAGED_BY})
    except KubeError as error:
        if error.status == 403:
            return []  # the scale's own managed fields tell of a writer as well
        raise


async def _list(api: KubeApi, path: str, query: Mapping[str, Any] | None = None) -> list[Mapping[str, Any]]:
    return list(entries(await api.get(path, query), "items"))


def _meant(spec: Mapping[str, Any], workload: Workload, kind: str) -> bool:
    ref = mapping(spec, "scaleTargetRef")
    group = str(ref.get("apiVersion") or "apps/v1").partition("/")[0]
    named = str(ref.get("kind") or "Deployment")
    same_kind = named == kind or (not kind and f"{named.lower()}s" == workload.plural)
    return ref.get("name") == workload.name and same_kind and group == workload.group


def _is_paused(scaled: Mapping[str, Any]) -> bool:
    notes = mapping(mapping(scaled, "metadata"), "annotations")
    return notes.get("autoscaling.keda.sh/paused") == "true" and "autoscaling.keda.sh/paused-replicas" not in notes


def _hpa_words(hpa: Mapping[str, Any]) -> str:
    owners = entries(mapping(hpa, "metadata"), "ownerReferences")
    above = next((o for o in owners if o.get("kind") == "ScaledObject"), None)
    return f"the ScaledObject {above.get('name')}" if above is not None else f"the HPA {_name(hpa)}"


def _writers(thing: Mapping[str, Any], me: Self, released: Set[str]) -> Iterator[str]:
    """Another opsconsole that wrote the scale last, unless its Lease says that it has ended.

    The server keeps no time for writes of `/scale`, so how long ago that was cannot be told.
    """
    for entry in entries(mapping(thing, "metadata"), "managedFields"):
        manager = str(entry.get("manager") or "")
        if entry.get("subresource") != "scale" or manager == me.manager or manager in released:
            continue
        if manager.startswith(f"{MANAGER}/"):
            yield f"another opsconsole ({manager}, the last to write it, and no Lease says that it ended)"


def _targets(meta: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        told = json.loads(str(mapping(meta, "annotations").get(TARGETS) or "[]"))
    except ValueError:
        return ()
    return tuple(str(item) for item in told) if isinstance(told, list) else ()


def _is_held(spec: Mapping[str, Any], now: float) -> bool:
    renewed = unix(spec.get("renewTime"))
    lasts = float(spec.get("leaseDurationSeconds") or 15.0)
    return bool(spec.get("holderIdentity")) and renewed is not None and now - renewed < 3 * lasts


def _name(thing: Mapping[str, Any]) -> str:
    return str(mapping(thing, "metadata").get("name", "?"))
