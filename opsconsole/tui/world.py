"""What a screen may know of the world at one moment: the snapshot, how fresh the line to the agent is, and recent past.

It must not ask for anything; `feed` fills it. The trap: a link that was lost keeps the last snapshot, so every view
looks at `link` before it calls anything live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from typing import Any

from opsconsole.domain.records import (
    AlertView,
    BudgetView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    HoldView,
    JournalEntry,
    PoolView,
    PrefixView,
    ReplicaView,
)
from opsconsole.tui.theme import BLOCK, Glyphs


class LinkState(StrEnum):
    """How the console is connected. The value is the word shown."""

    NONE = "NO AGENT"
    CONNECTING = "CONNECTING"
    LIVE = "LIVE"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class Link:
    """The line to the agent."""

    state: LinkState = LinkState.NONE
    address: str = ""
    detail: str = ""  # why it is not live, a sentence
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a replica or pool, for the small charts."""

    at: float
    waiting: float | None = None
    running: float | None = None
    kv: float | None = None
    ttft95: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    requests: float | None = None
    goodput: float | None = None
    hit: float | None = None
    preempt: float | None = None
    met: float | None = None


def point(at: float, view: PoolView | ReplicaView) -> Point:
    """The charted facts of a pool or replica."""
    attained = view.attainment if isinstance(view, ReplicaView) else None
    return Point(
        at, view.waiting, view.running, view.kv_usage, view.ttft.p95, view.prompt_rate, view.output_rate,
        view.request_rate, view.goodput, view.hit_rate, view.preempt_rate, attained.low if attained else None,
    )  # fmt: skip


class Trends:
    """The newest points of every pool and replica, bounded; what has gone is forgotten."""

    def __init__(self, keep: int = 64) -> None:
        self._keep = keep
        self._pools: dict[str, deque[Point]] = {}
        self._replicas: dict[str, deque[Point]] = {}
        self._last = float("-inf")

    @classmethod
    def of(cls, snapshots: Iterable[FleetSnapshot], keep: int = 64) -> Trends:
        """Trends of a past that was asked for."""
        trends = cls(keep)
        for snapshot in snapshots:
            trends.add(snapshot)
        return trends

    def as_now(self) -> Trends:
        """These trends, standing still."""
        still = Trends(self._keep)
        still._pools = {name: points.copy() for name, points in self._pools.items()}
        still._replicas = {name: points.copy() for name, points in self._replicas.items()}
        still._last = self._last
        return still

    def add(self, snapshot: FleetSnapshot) -> None:
        """One tick more; a tick already seen, or older, changes nothing."""
        if snapshot.at <= self._last:
            return
        self._last = snapshot.at
        self._extend(self._pools, ((pool.pool, pool) for pool in snapshot.pools), snapshot.at)
        self._extend(self._replicas, ((replica.replica, replica) for replica in snapshot.replicas), snapshot.at)

    def _extend(
        self, held: dict[str, deque[Point]], views: Iterable[tuple[str, PoolView | ReplicaView]], at: float
    ) -> None:
        seen = set()
        for name, view in views:
            seen.add(name)
            if name not in held:
                held[name] = deque(maxlen=self._keep)
            held[name].append(point(at, view))
        for name in [name for name in held if name not in seen]:
            del held[name]

    def pool(self, name: str, field_name: str) -> list[float | None]:
        """One fact of a pool over time, oldest first."""
        return [getattr(p, field_name) for p in self._pools.get(name, ())]

    def replica(self, name: str, field_name: str) -> list[float | None]:
        """One fact of a replica over time, oldest first."""
        return [getattr(p, field_name) for p in self._replicas.get(name, ())]

    def total(self, field_name: str) -> list[float | None]:
        """The sum over pools at each tick; None where any pool's value is unknown in all of them."""
        series = [self.pool(name, field_name) for name in self._pools]
        length = max((len(s) for s in series), default=0)
        blank: list[float | None] = [None]
        padded = [blank * (length - len(s)) + s for s in series]
        out: list[float | None] = []
        for column in zip(*padded, strict=True):
            seen = [value for value in column if value is not None]
            out.append(sum(seen) if seen else None)
        return out

    def __len__(self) -> int:
        return len(self._replicas)


@dataclass(frozen=True, slots=True)
class World:
    """Everything a view may read."""

    link: Link = Link()
    snapshot: FleetSnapshot | None = None
    received_at: float | None = None  # when the snapshot came, by this machine's clock
    trends: Trends = field(default_factory=Trends)
    journal: tuple[JournalEntry, ...] = ()  # oldest first
    alerts: tuple[AlertView, ...] = ()
    decisions: tuple[DecisionView, ...] = ()
    forecasts: tuple[ForecastView, ...] = ()
    holds: tuple[HoldView, ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    history: tuple[FleetSnapshot, ...] = ()  # pools only, oldest first, about the last hour
    prefixes: tuple[PrefixView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()  # over weeks


@dataclass(frozen=True, slots=True)
class Look:
    """How things are said: glyphs, the reader's zone and moment, and which fleets are production."""

    glyphs: Glyphs = BLOCK
    zone: tzinfo | None = None
    now: float = 0.0
    production: Sequence[str] = ()
    read_only: bool = False  # this console was told to change nothing
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recording: bool = False  # what is seen is written to a file

    @property
    def lasting(self) -> Look:
        """How things are said, whatever the moment."""
        return Look(glyphs=self.glyphs, zone=self.zone)


def main_pool(snapshot: FleetSnapshot, selected: str | None) -> PoolView | None:
    """The pool meant by the selection: the selected replica's, else the first."""
    replica = snapshot.replica(selected) if selected else None
    if replica is not None and (found := snapshot.pool(replica.pool)) is not None:
        return found
    return snapshot.pools[0] if snapshot.pools else None


def is_production(fleet: str, globs: Sequence[str]) -> bool:
    """Whether the fleet's name fits one of `[tui] production`."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(fleet, pattern) for pattern in globs)


def can_change(world: World, look: Look) -> bool:
    """Whether actions that mutate may be offered at all: a live agent that lets intents through, and not read-only."""
    snapshot = world.snapshot
    return not look.read_only and snapshot is not None and snapshot.can_act and world.link.state is LinkState.LIVE
