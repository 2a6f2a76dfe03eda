"""The workers as facts: who lives, in which phase, how long starts take, and when a dead one is tried again.

No processes and no clock here; times come in as arguments. `version` moves with every change that a plan depends on
(members, readiness, drains, the wanted count), not with a phase of a start. Trap: a restarted worker keeps its name and
changes `started_at`; whoever keeps facts about it (a prefix index, counters) must look at both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

BACKOFF_FIRST, BACKOFF_MOST = 0.5, 30.0  # s
STABLE_AFTER = 60.0  # s of life after which a crash is the first again
EVENTS_KEPT = 2000


class Phase(StrEnum):
    """Where a worker is on its way from nothing to gone."""

    SCHEDULE = "schedule"  # decided, not yet a process
    LOAD = "load"  # a process: imports and weights
    WARM = "warm"  # answers HTTP, has not produced a token yet
    READY = "ready"
    DRAIN = "drain"
    BACKOFF = "backoff"  # died; waits for its next try
    GONE = "gone"


STARTING = (Phase.SCHEDULE, Phase.LOAD, Phase.WARM)


@dataclass(slots=True)
class Worker:
    """One worker. `marks` holds when each phase of the present life began (Unix seconds)."""

    name: str
    phase: Phase = Phase.SCHEDULE
    url: str | None = None
    pid: int | None = None
    device: str | None = None
    decided_at: float = 0.0
    started_at: float | None = None
    ready_at: float | None = None
    expected_ready_at: float | None = None
    marks: dict[str, float] = field(default_factory=dict)
    streams: int | None = None
    crashes: int = 0  # in a row
    restarts: int = 0
    retry_at: float | None = None
    drain_deadline: float | None = None

    @property
    def is_member(self) -> bool:
        """Counts towards what is wanted."""
        return self.phase not in (Phase.DRAIN, Phase.GONE)

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.READY

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "phase": self.phase.value,
            "ready": self.is_ready,
            "draining": self.phase is Phase.DRAIN,
            "url": self.url,
            "pid": self.pid,
            "device": self.device,
            "decided_at": self.decided_at,
            "started_at": self.started_at,
            "ready_at": self.ready_at,
            "expected_ready_at": self.expected_ready_at,
            "marks": dict(self.marks),
            "streams": self.streams,
            "restarts": self.restarts,
            "retry_at": self.retry_at,
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a worker, in words for the journal."""

    seq: int
    at: float
    worker: str
    kind: str  # decided | phase | ready | drain | undrain | gone | crash | restart | scale
    text: str
    facts: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "at": self.at,
            "worker": self.worker,
            "kind": self.kind,
            "text": self.text,
            "facts": self.facts,
        }


class Workers:
    """All workers of the pool, what is wanted of them, and what has happened."""

    def __init__(self, want: int, devices: tuple[str, ...] = (), notify: Callable[[], None] = lambda: None) -> None:
        self.want = want
        self.version = 1
        self.events: list[Event] = []
        self._notify = notify
        self._devices = devices
        self._all: dict[str, Worker] = {}
        self._made = 0
        self._starts: list[float] = []  # durations of finished starts, s
        self._next_event = 1

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._all.values()))

    def get(self, name: str) -> Worker | None:
        return self._all.get(name)

    @property
    def members(self) -> list[Worker]:
        return [worker for worker in self if worker.is_member]

    def changed(self) -> None:
        """Something that a plan depends on has moved."""
        self.version += 1
        self._notify()

    def note(self, at: float, worker: str, kind: str, text: str, **facts: float) -> None:
        """Keep an event for the journal."""
        self.events.append(Event(self._next_event, at, worker, kind, text, facts))
        self._next_event += 1
        del self.events[:-EVENTS_KEPT]

    def add(self, decided_at: float, now: float) -> Worker:
        """One more worker, decided on at `decided_at`."""
        self._made += 1
        used = {worker.device for worker in self if worker.phase is not Phase.GONE}
        free = next((device for device in self._devices if device not in used), None)
        worker = Worker(f"w{self._made}", device=free, decided_at=decided_at, marks={Phase.SCHEDULE: decided_at})
        worker.expected_ready_at = self.expected_ready(now)
        self._all[worker.name] = worker
        self.note(now, worker.name, "decided", f"{worker.name} is to start")
        self.changed()
        return worker

    def enter(self, worker: Worker, phase: Phase, now: float) -> None:
        """Move a worker to its next phase, once."""
        if worker.phase is phase:
            return
        worker.phase = phase
        worker.marks[phase] = now
        if phase is Phase.LOAD:
            worker.started_at = now
            worker.expected_ready_at = self.expected_ready(now)
        if phase is Phase.READY:
            self._became_ready(worker, now)
        if phase not in STARTING:
            self.changed()

    def _became_ready(self, worker: Worker, now: float) -> None:
        worker.ready_at, worker.expected_ready_at = now, None
        if worker.started_at is not None:
            self._starts.append(now - worker.started_at)
        facts = start_facts(worker)
        total = now - worker.decided_at
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in facts.items())
        text = f"{worker.name} is useful {total:.1f} s after its decision ({parts})"
        self.note(now, worker.name, "ready", text, decided_at=worker.decided_at, **facts)

    def expected_ready(self, now: float) -> float | None:
        """When a start beginning now should be useful: p90 of the starts seen; None before the first."""
        if not self._starts:
            return None
        ordered = sorted(self._starts)
        return now + ordered[max(0, math.ceil(0.9 * len(ordered)) - 1)]

    def crashed(self, worker: Worker, why: str, now: float) -> float:
        """Note a death that nobody asked for; the seconds until the next try."""
        lived = now - worker.ready_at if worker.ready_at is not None else 0.0
        worker.crashes = 1 if lived > STABLE_AFTER else worker.crashes + 1
        wait: float = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** (worker.crashes - 1))
        worker.restarts += 1
        worker.retry_at, worker.started_at = now + wait, now
        worker.ready_at = worker.pid = worker.streams = worker.url = None
        self.note(now, worker.name, "crash", f"{worker.name} {why}; started again in {wait:g} s", wait_s=wait)
        self.enter(worker, Phase.BACKOFF, now)
        return wait

    def restarting(self, worker: Worker, now: float) -> None:
        """The back-off is over: a new life under the same name."""
        worker.retry_at, worker.decided_at, worker.marks = None, now, {Phase.SCHEDULE: now}
        worker.phase = Phase.SCHEDULE
        self.note(now, worker.name, "restart", f"{worker.name} is started again (restart {worker.restarts})")
        self.changed()

    def returned(self, worker: Worker, now: float) -> None:
        """A draining worker is wanted after all."""
        worker.phase, worker.drain_deadline = Phase.READY, None
        self.note(now, worker.name, "undrain", f"{worker.name} serves again")
        self.changed()

    def gone(self, worker: Worker, text: str, now: float, **facts: float) -> None:
        """A worker that was asked to go has gone."""
        self.enter(worker, Phase.GONE, now)
        self.note(now, worker.name, "gone", text, **facts)
        self._all.pop(worker.name, None)

    def surplus(self, named: tuple[str, ...] = ()) -> list[Worker]:
        """Who goes when fewer are wanted: the named first, then those that serve nobody yet, then the least busy."""
        over = len(self.members) - self.want

        def order(worker: Worker) -> tuple[bool, bool, float, float]:
            return worker.name not in named, worker.is_ready, worker.streams or 0, -(worker.started_at or math.inf)

        return sorted(self.members, key=order)[: max(0, over)]


def start_facts(worker: Worker) -> dict[str, float]:
    """Seconds of each phase of the present start, from the decision to a first token."""
    order = [phase for phase in (*STARTING, Phase.READY) if phase in worker.marks]
    return {
        str(phase.value): worker.marks[following] - worker.marks[phase]
        for phase, following in itertools.pairwise(order)
    }
