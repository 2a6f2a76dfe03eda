"""The scale of one workload: read it, try a change on the server without doing it, and write it exactly once.

Every write bears the resourceVersion that was read, so that one made for a world that moved fails by itself. It knows
nothing of why. The trap: a status that changes moves the resourceVersion as well, so a conflict is not yet a quarrel;
what matters is whether the number of replicas is still the one that the plan was made for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import TOO_MANY, KubeError, Patience
from opsconsole.cluster.pods import mapping
from opsconsole.cluster.workload import Workload
from opsconsole.errors import PlanRefused

WRITE_S = 3.0  # for one write; a leader's lease must outlast it
TRIES = 6
CROWDED = 3  # conflicts after which the count itself is the precondition
FAILED_TEST = 422  # how the server answers a patch whose test does not hold
JSON_PATCH = "application/json-patch+json"
_ONCE = Patience(tries=1, timeout_s=WRITE_S)
_LONGEST_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Scale:
    """What `/scale` says: how many are asked for, how many exist, which pods are meant, and at which version."""

    replicas: int
    existing: int
    selector: str
    version: str
    uid: str


@dataclass(slots=True)
class Scaler:
    """Reads and writes scales in one name. `fence` raises where this process may not write now."""

    api: KubeApi
    clock: Clock
    manager: str  # field manager: how the API server names this writer
    fence: Callable[[float], None] = lambda seconds: None
    draw: random.Random = field(default_factory=random.Random)

    async def read(self, workload: Workload) -> Scale:
        try:
            return _scale(await self.api.get(f"{workload.path}/scale"))
        except KubeError as error:
            if error.is_missing:
                raise KubeError(f"There is no {workload}, or it cannot be scaled: {error}", error.status) from error
            raise

    async def rehearse(self, workload: Workload, seen: Scale, to: int) -> KubeError | None:
        """What the server would say to the change (admission, quotas, rights); None when it would take it."""
        try:
            await self.api.put(
                f"{workload.path}/scale",
                _body(workload, seen, to),
                {"dryRun": "All", "fieldManager": self.manager},
                Patience(tries=2, timeout_s=WRITE_S),
            )
        except KubeError as error:
            return None if error.is_conflict else error
        return None

    async def write(self, workload: Workload, seen: Scale, to: int) -> Scale:
        """Bring it from what was seen to `to`. Raises `PlanRefused` when somebody else moved it meanwhile."""
        before = seen
        last: KubeError | None = None
        for attempt in range(TRIES):
            if attempt:
                await self.clock.sleep(self._wait(attempt, last))
                seen = await self.read(workload)
                if seen.replicas == to and seen.uid == before.uid:
                    return seen  # the write that seemed to fail had arrived
                self._same(workload, before, seen)
            self.fence(WRITE_S)
            # A status that churns faster than we write would win every race over the resourceVersion.
            crowded = attempt >= CROWDED and seen.replicas > 0
            try:
                return await (self._swap(workload, seen, to) if crowded else self._put(workload, seen, to))
            except KubeError as error:
                lost = error.is_conflict or (crowded and error.status == FAILED_TEST)
                if not (lost or error.status in (0, TOO_MANY) or error.status >= 500):
                    raise PlanRefused(f"The cluster refuses: {error}") from error
                last = error
        raise PlanRefused(f"{workload} was not changed: {TRIES} attempts failed, at last with: {last}")

    async def _put(self, workload: Workload, seen: Scale, to: int) -> Scale:
        """Under the resourceVersion that was read."""
        query = {"fieldManager": self.manager}
        return _scale(await self.api.put(f"{workload.path}/scale", _body(workload, seen, to), query, _ONCE))

    async def _swap(self, workload: Workload, seen: Scale, to: int) -> Scale:
        """Under the count that was read: the server compares and replaces in one go, whatever else has changed."""
        body: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": seen.uid},
            {"op": "test", "path": "/spec/replicas", "value": seen.replicas},
            {"op": "replace", "path": "/spec/replicas", "value": to},
        ]
        path, query = f"{workload.path}/scale", {"fieldManager": self.manager}
        return _scale(await self.api.ask("PATCH", path, query=query, body=body, patience=_ONCE, kind=JSON_PATCH))

    def _wait(self, attempt: int, error: KubeError | None) -> float:
        if error is not None and error.retry_after_s is not None:
            return min(_LONGEST_WAIT_S, error.retry_after_s)
        return min(_LONGEST_WAIT_S, 0.05 * 2.0**attempt * self.draw.uniform(0.5, 1.5))

    def _same(self, workload: Workload, before: Scale, now: Scale) -> None:
        if now.uid != before.uid:
            raise PlanRefused(f"{workload} was replaced by another of its name.")
        if now.replicas != before.replicas:
            raise PlanRefused(
                f"The world moved: {workload} was at {before.replicas} replicas when this was planned and is at "
                f"{now.replicas} now."
            )


def _body(workload: Workload, seen: Scale, to: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "resourceVersion": seen.version,
            "uid": seen.uid,
        },
        "spec": {"replicas": to},
    }


def _scale(body: Any) -> Scale:
    meta, spec, status = mapping(body, "metadata"), mapping(body, "spec"), mapping(body, "status")
    return Scale(
        replicas=int(spec.get("replicas") or 0),  # the API leaves zero out
        existing=int(status.get("replicas") or 0),
        selector=str(status.get("selector") or ""),
        version=str(meta.get("resourceVersion") or ""),
        uid=str(meta.get("uid") or ""),
    )
