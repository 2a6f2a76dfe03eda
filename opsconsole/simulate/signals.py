"""What a law is told of a simulated pool: numbers of the last scrape, lives as the control plane knows them.

The same `Situation` the live loop builds. Loads and rates are as old as the last scrape; who starts, serves and drains
is known at once, because the control plane says so. It must not move the fleet. The trap: a replica that became ready
after the last scrape has no numbers yet, and counts as warming until it has: unknown is not idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from opsconsole.simulate.members import Life, Member, Reading
from opsconsole.simulate.score import Score
from opsconsole.simulate.settings import FleetSettings, PolicyHandle
from policies.situation import Demand, ReplicaFacts, Situation, SloFacts, State

GROWTH_S = 30.0  # over which the queue's growth is counted, as in the live loop
HOT_QUEUE, DEEP_QUEUE, HOT_KV, FULL_KV, PREEMPT = 4.0, 16.0, 0.80, 0.90, 0.1  # the live health rules


class Counters:
    """What the router counts."""

    __slots__ = ("arrivals", "rejected")

    def __init__(self) -> None:
        self.arrivals = 0
        self.rejected = 0


class Signals:
    """Remembers the last scrape and builds situations."""

    def __init__(self, handle: PolicyHandle, settings: FleetSettings, tick_s: float) -> None:
        self._handle, self._settings, self._tick_s = handle, settings, tick_s
        self._lead_s = settings.lead_s if settings.lead_s is not None else settings.cold_start.seconds + tick_s
        self._at: float | None = None
        self._counted = (0, 0)
        self._queue: deque[tuple[float, int]] = deque()
        self._demand = Demand()
        self._slo = SloFacts()
        self._profile = settings.replica.profile

    def scrape(self, now: float, members: Iterable[Member], held: int, counters: Counters, score: Score) -> None:
        """Read every serving replica and the router."""
        waiting, tokens = held, [0, 0]
        for member in members:
            if not member.serves:
                continue
            for request in member.replica.firsts:
                score.saw_first(request)
            member.replica.firsts.clear()
            reading = Reading(member.replica, now)
            before = member.readings[-1] if member.readings else None
            member.readings = [reading] if before is None else [before, reading]
            waiting += reading.waiting
            tokens[0] += reading.prompt_tokens - (before.prompt_tokens if before else 0)
            tokens[1] += reading.output_tokens - (before.output_tokens if before else 0)
        self._queue.append((now, waiting))
        while self._queue[0][0] < now - GROWTH_S:
            self._queue.popleft()
        self._demand = self._demand_of(now, tokens, held, counters)
        self._slo = score.facts(now)
        self._at, self._counted = now, (counters.arrivals, counters.rejected)

    def situation(self, now: float, want: int, members: Iterable[Member]) -> Situation:
        """The pool as the law sees it."""
        handle, settings = self._handle, self._settings
        return Situation(
            now=now,
            pool="pool",
            model=settings.replica.name,
            want=want,
            replicas=tuple(self._facts(member, now) for member in members),
            demand=self._demand,
            slo=self._slo,
            limits=settings.limits,
            lead_s=self._lead_s,
            capacity=handle.capacity,
            outlooks={} if handle.outlooks is None else handle.outlooks(now, self._demand),
            covered=self._at is not None,
            thresholds=handle.thresholds,
            profile=self._profile,
            interval_s=self._tick_s,
            future=handle.future,
        )

    def _demand_of(self, now: float, tokens: list[int], held: int, counters: Counters) -> Demand:
        since = self._at if self._at is not None else 0.0
        span = now - since
        if span <= 0.0:
            return Demand(gateway_waiting=float(held))
        rate = (counters.arrivals - self._counted[0]) / span
        prompt, output = tokens[0] / span, tokens[1] / span
        (first, before), (last, after) = self._queue[0], self._queue[-1]
        return Demand(
            request_rate=rate,
            prompt_rate=prompt,
            output_rate=output,
            waiting_growth=(after - before) / (last - first) if last > first else None,
            rejected_rate=(counters.rejected - self._counted[1]) / span,
            gateway_waiting=float(held),
            mean_prompt=prompt / rate if rate else None,
            mean_output=output / rate if rate else None,
            window_s=span,
        )

    def _facts(self, member: Member, now: float) -> ReplicaFacts:
        if member.life is Life.STARTING or not member.readings:
            return ReplicaFacts(member.name, "warming", started_at=member.asked_at)
        last, before = member.readings[-1], member.readings[0]
        span = last.at - before.at
        preempted = (last.preemptions - before.preemptions) / span if span > 0 else None
        return ReplicaFacts(
            name=member.name,
            state="draining" if member.life is Life.DRAINING else _state(last, preempted),
            waiting=float(last.waiting),
            running=float(last.running),
            kv_usage=last.kv_usage,
            preempt_rate=preempted,
            prompt_rate=(last.prompt_tokens - before.prompt_tokens) / span if span > 0 else None,
            output_rate=(last.output_tokens - before.output_tokens) / span if span > 0 else None,
            started_at=member.asked_at,
            streams=last.running,
            age=now - last.at,
            busy=(last.busy_s - before.busy_s) / span if span > 0 else None,
            kv_capacity_tokens=float(self._settings.replica.kv_tokens),
        )


def _state(reading: Reading, preempted: float | None) -> State:
    """As the live health rules say."""
    waiting, kv = reading.waiting, reading.kv_usage
    if (preempted or 0.0) >= PREEMPT or (waiting > 0 and kv >= FULL_KV) or waiting >= DEEP_QUEUE:
        return "saturated"
    return "hot" if waiting >= HOT_QUEUE or kv >= HOT_KV else "ok"
