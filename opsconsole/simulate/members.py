"""The replicas of a simulated pool through their lives: starting, ready, draining, gone; and the GPU-seconds of each.

It must not know requests or laws. The trap: a replica costs from the second it is asked for, so a start that is
cancelled has cost something too.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

from opsconsole.simulate.outcome import CountChange
from opsconsole.simulate.replica import Replica
from opsconsole.simulate.settings import ColdStart, ReplicaModel
from policies.routing import WorkerFacts


class Life(StrEnum):
    """Where a replica is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Reading:
    """What a scrape saw of one replica. Counters count from its start; rates are over the scrapes of a window."""

    __slots__ = ("at", "busy_s", "kv_usage", "output_tokens", "preemptions", "prompt_tokens", "running", "waiting")

    def __init__(self, replica: Replica, at: float) -> None:
        self.at = at
        self.waiting = len(replica.waiting)
        self.running = len(replica.running)
        self.kv_usage = replica.used_fraction(at)
        self.preemptions = replica.preemptions
        self.prompt_tokens = replica.prompt_tokens
        self.output_tokens = replica.output_at(at)
        self.busy_s = replica.busy_at(at)


class Member:
    """One replica with its life, what the router has sent it, and what was last read of it."""

    __slots__ = (
        "asked_at",
        "changed_at",
        "facts",
        "inflight_requests",
        "inflight_tokens",
        "life",
        "name",
        "queued_at",
        "readings",
        "ready_at",
        "replica",
    )

    def __init__(self, name: str, model: ReplicaModel, asked_at: float, ready_at: float) -> None:
        self.name = name
        self.replica = Replica(model)
        self.life = Life.STARTING
        self.asked_at, self.ready_at, self.changed_at = asked_at, ready_at, asked_at
        self.inflight_tokens = 0
        self.inflight_requests = 0
        self.facts: WorkerFacts | None = None  # as the router sees it; None = to be made anew
        self.readings: list[Reading] = []  # of the last window, oldest first
        self.queued_at = 0.0  # end of the run that stands in the event queue

    @property
    def serves(self) -> bool:
        return self.life is Life.READY or self.life is Life.DRAINING


class Members:
    """All replicas that exist, in order of creation, with the books of what they cost."""

    def __init__(self, model: ReplicaModel, cold_start: ColdStart, draw: Random, since: float) -> None:
        self._model, self._cold_start, self._draw = model, cold_start, draw
        self._since = since  # GPU-seconds before it are not counted
        self._until = float("inf")
        self._made = 0
        self.all: dict[str, Member] = {}
        self.ready: list[Member] = []
        self.spent: dict[Life, float] = {Life.STARTING: 0.0, Life.READY: 0.0, Life.DRAINING: 0.0}
        self.timeline: list[CountChange] = []

    def start(self, now: float, took: float | None = None) -> Member:
        """Ask for one more; `took` overrides how long its start takes."""
        seconds = self._start_s() if took is None else took
        member = Member(f"r{self._made:04d}", self._model, now, now + seconds)
        self._made += 1
        self.all[member.name] = member
        self._note(now)
        return member

    def move(self, member: Member, life: Life, now: float) -> None:
        """To the next part of its life."""
        self._book(member, now)
        if member.life is Life.READY:
            self.ready.remove(member)
        member.life = life
        member.changed_at = now
        if life is Life.READY:
            self.ready.append(member)
        elif life is Life.GONE:
            del self.all[member.name]
        self._note(now)

    def count_until(self, end: float) -> None:
        """The load ends here: what is spent and what changes afterwards is not counted."""
        self._until = end

    def close(self) -> None:
        """Book what is still there."""
        for member in self.all.values():
            self._book(member, self._until)
            member.changed_at = self._until

    def count(self, life: Life) -> int:
        return len(self.ready) if life is Life.READY else sum(1 for m in self.all.values() if m.life is life)

    def _book(self, member: Member, now: float) -> None:
        seconds = min(now, self._until) - max(member.changed_at, self._since)
        if seconds > 0.0:
            self.spent[member.life] += seconds

    def _note(self, now: float) -> None:
        if now >= self._until:
            return
        change = CountChange(now, len(self.ready), self.count(Life.STARTING), self.count(Life.DRAINING))
        if self.timeline and self.timeline[-1].at == now:
            self.timeline[-1] = change
        else:
            self.timeline.append(change)

    def _start_s(self) -> float:
        """One start: every phase by its length, spread as it says."""
        seconds = 0.0
        for phase in self._cold_start.phases:
            factor = self._draw.lognormvariate(-(phase.spread**2) / 2, phase.spread) if phase.spread else 1.0
            seconds += phase.seconds * factor
        return seconds
