"""What a source of facts is: something that answers with observations once a tick and never raises into the loop.

It must not know how any one source works. The trap: `observe` of a source that fails returns observations bearing
errors (or none at all) and says so in `status`; an empty answer of a source that is not ok is not an empty fleet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from opsconsole.domain.records import SourceView
from opsconsole.domain.replica import Observation, ReplicaRef

__all__ = ["Observation", "ReplicaRef", "Source", "Target", "TargetProvider"]


class Source(Protocol):
    """Facts about replicas, whoever tells them."""

    @property
    def name(self) -> str: ...

    async def observe(self, now: float) -> tuple[Observation, ...]:
        """One tick: one observation a replica that exists, in a stable order. Never raises for a failing world."""
        ...

    def status(self) -> SourceView:
        """Whether the source itself can be trusted now, with the age of its last good answer."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """One address that should answer with a metrics page, and who stands behind it.

    `ready`, `draining` and `phase` are what the discovery knows (Kubernetes, a supervisor); the page may know better.
    `url` is None while there is nothing to ask yet: a pod still pending is a replica that is warming.
    """

    replica: ReplicaRef
    url: str | None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # secrets do not belong in a traceback
    ready: bool | None = None
    draining: bool | None = None
    phase: str | None = None
    expected_ready_at: float | None = None
    waits_for: str | None = None  # what keeps it from starting, in the discovery's words


class TargetProvider(Protocol):
    """Who should be asked in this tick: a static list, DNS, a file, Kubernetes, a supervisor."""

    async def targets(self, now: float) -> tuple[Target, ...]:
        """The targets of this tick, or those last known when the provider fails. Never raises."""
        ...

    def status(self) -> SourceView: ...

    async def close(self) -> None: ...
