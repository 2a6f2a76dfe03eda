"""The fold: observations of one tick + pool specs + what was seen before -> one immutable FleetSnapshot.

It must not know where observations come from. Latencies of a pool come from merged buckets, never from averages of
replicas' quantiles. The trap: `covered` is about this tick only; a replica that answered last tick does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsconsole.domain.records import FleetSnapshot, Sample, SourceView
from opsconsole.domain.replica import Observation, ReplicaRef


@dataclass(frozen=True, slots=True)
class SloSpec:
    """A named SLO class: bounds in seconds, target share, and the span over which its budget is counted."""

    name: str
    ttft: float | None = None
    tpot: float | None = None
    target: float = 0.95


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What the configuration says of a pool."""

    name: str
    model: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    slos: tuple[SloSpec, ...] = ()
    price_per_hour: float | None = None  # one GPU, one hour
    gpus_per_replica: int | None = None


@dataclass(frozen=True, slots=True)
class FleetState:
    """What the fold remembers: per replica key (pool, name) the samples of the window, newest last. Opaque to callers."""

    samples: Mapping[tuple[str, str], tuple[Sample, ...]] = field(default_factory=dict)
    refs: Mapping[tuple[str, str], ReplicaRef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """Windows and limits of the fold, seconds."""

    window_s: float = 60.0  # rates, latencies, attainment
    short_s: float = 300.0  # burn, short window
    long_s: float = 3600.0  # burn, long window
    stale_after_s: float = 15.0


def fold(
    tick: int,
    at: float,
    observations: Sequence[Observation],
    pools: Sequence[PoolSpec],
    state: FleetState,
    *,
    want: Mapping[str, int] | None = None,
    sources: Sequence[SourceView] = (),
    fleet: str = "fleet",
    mode: str = "advise",
    can_act: bool = False,
    interval: float = 1.0,
    notes: Sequence[str] = (),
    options: FoldOptions | None = None,
) -> tuple[FleetSnapshot, FleetState]:
    """One tick. Pure: the same inputs give the same snapshot, whatever the order of observations."""
    snapshot = FleetSnapshot(
        tick, at, fleet, mode, sources=tuple(sources), can_act=can_act, interval=interval, notes=tuple(notes)
    )
    return snapshot, state
