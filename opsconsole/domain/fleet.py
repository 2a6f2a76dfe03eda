"""The fold: observations of one tick + pool specs + what was seen before -> one immutable FleetSnapshot.

It must not know where observations come from. Latencies of a pool come from merged buckets, never from averages of
replicas' quantiles. The trap: `covered` is about this tick only; a replica that answered last tick does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsconsole.domain.ledger import Ledger, observed, width_for
from opsconsole.domain.pool import Member, PoolSpec, pool_view
from opsconsole.domain.records import FleetSnapshot, ReplicaState, SourceView
from opsconsole.domain.replica import FoldOptions, Observation, SloSpec, replica_view
from opsconsole.domain.starts import Starts
from opsconsole.domain.track import Track

__all__ = ["FleetState", "FoldOptions", "PoolSpec", "SloSpec", "fold"]

Key = tuple[str, str]  # pool, replica


@dataclass(frozen=True, slots=True)
class FleetState:
    """What the fold remembers between ticks. Opaque to callers; start with an empty one."""

    tracks: Mapping[Key, Track] = field(default_factory=dict)
    seen: Mapping[Key, tuple[float, Observation]] = field(default_factory=dict)  # last tick it was listed in
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)  # by pool
    starts: Mapping[str, Starts] = field(default_factory=dict)  # by pool


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
    knobs = _widened(options or FoldOptions(), interval)
    sources_ok = all(s.ok for s in sources)
    listed = _listed(at, observations, state, sources_ok, knobs)
    specs = {spec.name: spec for spec in pools}
    for pool, _ in listed:
        specs.setdefault(pool, PoolSpec(pool))
    tracks, members, ledgers = _members(at, listed, specs, state, knobs)
    starts = {name: state.starts.get(name, Starts()).add(at, _phases(members[name])) for name in specs}
    views = tuple(
        starts[name].told(pool_view(spec, members[name], at, knobs, ledgers[name], (want or {}).get(name), sources_ok))
        for name, spec in sorted(specs.items())
    )
    snapshot = FleetSnapshot(
        tick=tick,
        at=at,
        fleet=fleet,
        mode=mode,
        replicas=tuple(m.view for name in sorted(members) for m in members[name]),
        pools=views,
        sources=tuple(sources),
        can_act=can_act,
        interval=interval,
        notes=tuple(notes),
    )
    return snapshot, FleetState(tracks, listed, ledgers, starts)


def _phases(members: Sequence[Member]) -> list[str]:
    """The start-up phase of every replica that is starting."""
    return [m.view.phase or "starting" for m in members if m.view.state is ReplicaState.WARMING]


def _members(
    at: float,
    listed: Mapping[Key, tuple[float, Observation]],
    specs: Mapping[str, PoolSpec],
    state: FleetState,
    knobs: FoldOptions,
) -> tuple[dict[Key, Track], dict[str, list[Member]], dict[str, Ledger]]:
    tracks: dict[Key, Track] = {}
    members: dict[str, list[Member]] = {name: [] for name in specs}
    moved: dict[str, list[tuple[Track, float]]] = {name: [] for name in specs}  # who has a new page, since the last
    for key in sorted(listed):
        seen_at, observation = listed[key]
        before = state.tracks.get(key, Track())
        track = before
        if observation.sample is not None and seen_at == at:
            track = before.extend(observation.sample, knobs.window_s)
        tracks[key] = track
        if track is not before and len(track.marks) > 1:
            moved[key[0]].append((track, track.marks[-2].at))
        view = replica_view(observation, track, at, knobs, specs[key[0]].slos, specs[key[0]].role)
        answered = seen_at == at and observation.sample is not None
        members[key[0]].append(Member(view, track, answered))
    fresh = Ledger(width=width_for(knobs.short_s))
    ledgers = {name: state.ledgers.get(name, fresh).add(at, observed(moved[name]), knobs.long_s) for name in specs}
    return tracks, members, ledgers


def _listed(
    at: float, observations: Sequence[Observation], state: FleetState, sources_ok: bool, knobs: FoldOptions
) -> dict[Key, tuple[float, Observation]]:
    """Who is in the fleet. A replica no longer listed is gone, unless a source failed and could not list it."""
    listed: dict[Key, tuple[float, Observation]] = {}
    for observation in observations:
        key = (observation.replica.pool, observation.replica.name)
        listed[key] = (at, _better(listed[key][1], observation) if key in listed else observation)
    if not sources_ok:
        for key, (seen_at, observation) in state.seen.items():
            if key not in listed and at - seen_at <= knobs.forget_after_s:
                listed[key] = (seen_at, replace(observation, sample=None))
    return listed


def _better(one: Observation, other: Observation) -> Observation:
    """Of two accounts of one replica the one with the newest page; equal ones are told apart by their content."""

    def rank(o: Observation) -> tuple[bool, float, str]:
        return (o.sample is not None, o.sample.at if o.sample is not None else 0.0, repr(o))

    best, rest = (one, other) if rank(one) >= rank(other) else (other, one)
    return replace(
        best,
        ready=best.ready if best.ready is not None else rest.ready,
        draining=best.draining if best.draining is not None else rest.draining,
        phase=best.phase or rest.phase,
        expected_ready_at=best.expected_ready_at if best.expected_ready_at is not None else rest.expected_ready_at,
        waits_for=best.waits_for or rest.waits_for,
    )


def _widened(options: FoldOptions, interval: float) -> FoldOptions:
    """A window holds at least two pages and a stale page is at least one missed one, however slow the ticks are."""
    stale = max(options.stale_after_s, 2.5 * interval)
    health = replace(options.health, stale_after_s=stale, down_after_s=max(options.health.down_after_s, 2 * stale))
    return replace(options, window_s=max(options.window_s, 2.5 * interval), stale_after_s=stale, health=health)
