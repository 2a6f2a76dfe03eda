"""Discovery by workload: the pods of a Deployment (or whatever has a scale), by the selector its own scale tells.

It asks for the selector until it has one and then is `KubeTargets`. The trap: a workload that cannot be asked is not an
empty one, so until then the source says that it fails and names why.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi, Place, connect
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.cluster.pods import mapping
from opsconsole.cluster.workload import Workload
from opsconsole.domain.records import SourceView
from opsconsole.errors import ConfigError, SourceErrorKind
from opsconsole.observe.kube import KubeOptions, KubeTargets
from opsconsole.observe.source import Target

RETRY_S = 5.0


class WorkloadTargets:
    """The pods of one workload."""

    def __init__(self, place: Place, of: Workload, options: KubeOptions, clock: Clock) -> None:
        self._api, self._of, self._clock = KubeApi(place, clock), of, clock
        self._options = replace(options, namespace=of.namespace)
        self._new_api = functools.partial(connect, place)
        self._pods: KubeTargets | None = None
        self._problem: tuple[SourceErrorKind, str] = (SourceErrorKind.EMPTY, f"{of} has not been asked for yet")
        self._retry_at = 0.0

    async def targets(self, now: float) -> tuple[Target, ...]:
        if self._pods is None and now >= self._retry_at:
            await self._ask(now)
        return () if self._pods is None else await self._pods.targets(now)

    def names(self) -> frozenset[str] | None:
        """As `KubeTargets.names`."""
        return None if self._pods is None else self._pods.names()

    def status(self) -> SourceView:
        if self._pods is not None:
            return self._pods.status()
        kind, detail = self._problem
        return SourceView("kubernetes", "kubernetes", False, None, detail, kind.value, self._retry_at or None)

    async def close(self) -> None:
        if self._pods is not None:
            await self._pods.close()
        await self._api.close()

    async def _ask(self, now: float) -> None:
        """One try: a tick must not wait for a server that is away."""
        try:
            scale = await self._api.get(f"{self._of.path}/scale", patience=Patience(tries=1, timeout_s=3.0))
        except (KubeError, ConfigError) as error:
            self._retry_at = now + RETRY_S
            forbidden = isinstance(error, KubeError) and error.is_forbidden
            self._problem = (SourceErrorKind.AUTH if forbidden else SourceErrorKind.HTTP_STATUS, str(error))
            return
        selector = str(mapping(scale, "status").get("selector") or "")
        if not selector:
            self._retry_at = now + RETRY_S
            self._problem = (SourceErrorKind.EMPTY, f"the scale of {self._of} names no selector yet")
            return
        self._pods = KubeTargets(replace(self._options, selector=selector), self._clock, self._new_api)
