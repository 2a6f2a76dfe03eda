"""One replica as a source reports it: who it is, and what was read of it in this tick.

It must not know how the page was fetched or parsed. The trap: `ready` and `draining` are three-valued; a source that
cannot tell leaves them None, which is neither ready nor not.
"""

from __future__ import annotations

from dataclasses import dataclass

from opsconsole.domain.records import Sample
from opsconsole.errors import SourceError


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    """Who a replica is. `name` is stable and unique in its pool."""

    name: str
    pool: str
    url: str | None = None
    node: str | None = None
    gpu: str | None = None  # kind of accelerator
    gpus: int | None = None  # how many
    started_at: float | None = None  # Unix seconds, creation
    role: str | None = None  # prefill, decode


@dataclass(frozen=True, slots=True)
class Observation:
    """What one source says of one replica in one tick. No sample and an error means: asked, and no good answer."""

    replica: ReplicaRef
    sample: Sample | None = None
    error: SourceError | None = None
    ready: bool | None = None
    draining: bool | None = None
    phase: str | None = None  # start-up phase: pending, pull, load, compile, warm
    expected_ready_at: float | None = None
