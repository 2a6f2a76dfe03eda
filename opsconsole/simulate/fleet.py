"""A fleet on a virtual clock: arrivals are routed, replicas step, a live law is asked, the world follows it.

One heap of events; a replica's run, however many steps it has, is one of them. It must not look at wall clocks, and
every draw comes from the seed. The trap: an event already in the heap cannot be changed, so a run that is cut short is
pushed again, and the old entry is known by its time and skipped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from enum import IntEnum
from random import Random

from opsconsole.errors import UsageError
from opsconsole.simulate.alone import sequence_of
from opsconsole.simulate.members import Life, Member, Members
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.replica import NEVER
from opsconsole.simulate.router import rule_named
from opsconsole.simulate.score import Score, percentile
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import Arrival, FleetSettings, PolicyHandle
from opsconsole.simulate.signals import Counters, Signals
from policies.drain import choose
from policies.memory import Memory


class Happens(IntEnum):
    """Kinds of events; at one instant the smaller goes first."""

    RUN_ENDS = 0
    READY = 1
    DRAIN_OVER = 2
    FAILURE = 3
    SCRAPE = 4
    TICK = 5


class Fleet:
    """One run of one law; use it once."""

    def __init__(self, handle: PolicyHandle, settings: FleetSettings) -> None:
        self.settings = settings
        self._handle, self._law = handle, handle.law
        self._memory = Memory()
        self._tick_s = settings.tick_s or handle.law.period_s
        self._events: list[tuple[float, int, int, Member | None]] = []
        self._pushed = 0
        self.members = Members(settings.replica, settings.cold_start, self._draw("start"), settings.warm_up_s)
        self._route = rule_named(settings.router, self._draw("router"), settings.replica.hash_tokens)
        self._lives = self._draw("failures")
        self.score = Score(settings.slo, settings.warm_up_s, settings.rows)
        self._signals = Signals(handle, settings, self._tick_s)
        self._counters = Counters()
        self._held: deque[Sequence] = deque()  # in front of the pool: nobody takes requests
        self._want = settings.initial
        self._open = 0  # requests neither complete nor failed
        self._end = NEVER  # of the load, once it is known
        self._ups = self._downs = self._cut = self._preempted = 0

    def run(self, arrivals: Iterable[Arrival]) -> RunOutcome:
        """Everything, to the end."""
        for _ in range(self.settings.initial):
            self._become_ready(self.members.start(0.0, 0.0), 0.0, -3600.0)
        for at in self.settings.failures.at:
            self._push(at, Happens.FAILURE, None)
        self._push(0.0, Happens.TICK, None)
        self._push(self.settings.scrape_s, Happens.SCRAPE, None)
        self._through(_in_order(arrivals))
        self._close()
        return self._outcome()

    def _through(self, coming: Iterator[Sequence]) -> None:
        """Events and arrivals in order of time, until nobody waits for anything any more."""
        events, last = self._events, 0.0
        request = next(coming, None)
        give_up = NEVER
        while True:
            at = events[0][0]
            if request is not None and request.arrived < at:
                last = request.arrived
                self._arrive(request, last)
                request = next(coming, None)
                continue
            if request is None and give_up == NEVER:
                self._end = max(last, self.settings.until_s or 0.0)
                self.members.count_until(self._end)
                give_up = self._end + self.settings.patience_s
            if request is None and ((self._open == 0 and at > self._end) or at > give_up):
                return
            at, kind, _, member = heapq.heappop(events)
            if kind == Happens.RUN_ENDS:
                assert member is not None
                if member.replica.next_at == at:
                    self._run_ends(member, at)
            else:
                self._happen(Happens(kind), member, at)

    # -- requests ----------------------------------------------------------------------------------------------

    def _arrive(self, request: Sequence, now: float) -> None:
        self._counters.arrivals += 1
        self._open += 1
        self.score.offer(request)
        if request.prompt + request.output > self.settings.replica.kv_tokens:
            self._refuse(request, now)
        else:
            self._send(request, now)

    def _send(self, request: Sequence, now: float) -> None:
        member = self._route.choose(request, self.members.ready, now)
        if member is None:
            self._held.append(request)
            return
        replica = member.replica
        if self.settings.replica.max_queued and len(replica.waiting) >= self.settings.replica.max_queued:
            self._refuse(request, now)
            return
        request.replica = member.name
        member.inflight_requests += 1
        member.inflight_tokens += request.prompt + request.output
        member.facts = None
        replica.submit(request, now)
        if replica.next_at != member.queued_at:
            self._await_run(member)

    def _refuse(self, request: Sequence, now: float) -> None:
        self._counters.rejected += 1
        self._fail(request, now)

    def _fail(self, request: Sequence, now: float) -> None:
        self._open -= 1
        self.score.fail(request, now)

    def _run_ends(self, member: Member, now: float) -> None:
        done = member.replica.finish_run()
        if done:
            for request in done:
                member.inflight_requests -= 1
                member.inflight_tokens -= request.prompt + request.output
                self.score.complete(request, now)
            member.facts = None
            self._open -= len(done)
        if member.replica.next_at != NEVER:
            self._await_run(member)
        elif member.life is Life.DRAINING:
            self._leave(member, now)

    def _await_run(self, member: Member) -> None:
        member.queued_at = member.replica.next_at
        self._push(member.queued_at, Happens.RUN_ENDS, member)

    # -- the world ---------------------------------------------------------------------------------------------

    def _happen(self, kind: Happens, member: Member | None, now: float) -> None:
        if kind is Happens.SCRAPE:
            self._signals.scrape(now, self.members.all.values(), len(self._held), self._counters, self.score)
            self._push(now + self.settings.scrape_s, Happens.SCRAPE, None)
        elif kind is Happens.TICK:
            self._decide(now)
            self._push(now + self._tick_s, Happens.TICK, None)
        elif kind is Happens.FAILURE:
            self._die(member, now)
        elif member is not None and member.name in self.members.all:
            if kind is Happens.READY:
                self._become_ready(member, now, now)
            elif member.life is Life.DRAINING:
                self._cut += self._abandon(member, now)

    def _decide(self, now: float) -> None:
        """Ask the law and do what it says."""
        situation = self._signals.situation(now, self._want, self.members.all.values())
        decision, self._memory = self._law.decide(situation, self._memory)
        more = decision.target - self._want
        if more == 0:
            return
        if self.settings.warm_up_s <= now <= self._end:
            self._ups += more > 0
            self._downs += more < 0
        self._want = decision.target
        if more > 0:
            for _ in range(more):
                self._start(now)
            return
        leavers = [name for name in decision.drain if self._may_leave(name)]
        leavers += [name for name in choose(situation, len(situation.replicas)) if self._may_leave(name)]
        for name in list(dict.fromkeys(leavers))[:-more]:
            self._give_back(self.members.all[name], now)

    def _may_leave(self, name: str) -> bool:
        member = self.members.all.get(name)
        return member is not None and member.life in (Life.STARTING, Life.READY)

    def _start(self, now: float) -> None:
        member = self.members.start(now)
        self._push(member.ready_at, Happens.READY, member)

    def _give_back(self, member: Member, now: float) -> None:
        if member.life is Life.STARTING or member.replica.next_at == NEVER:
            self._leave(member, now)
            return
        self.members.move(member, Life.DRAINING, now)
        self._push(now + self.settings.limits.drain_deadline_s, Happens.DRAIN_OVER, member)

    def _become_ready(self, member: Member, now: float, useful_at: float) -> None:
        member.ready_at = useful_at
        self.members.move(member, Life.READY, now)
        if self.settings.failures.mean_between_s is not None:
            life = self._lives.expovariate(1.0 / self.settings.failures.mean_between_s)
            self._push(now + life, Happens.FAILURE, member)
        while self._held:
            self._send(self._held.popleft(), now)

    def _die(self, member: Member | None, now: float) -> None:
        """A replica fails; its place is filled at once by one that starts anew."""
        if member is None:
            if not self.members.ready:
                return
            member = self.members.ready[self._lives.randrange(len(self.members.ready))]
        if not member.serves:
            return
        wanted = member.life is Life.READY
        self._abandon(member, now)
        if wanted:
            self._start(now)

    def _abandon(self, member: Member, now: float) -> int:
        """Cut what a replica still has and take it away; how many requests were cut."""
        left = member.replica.give_up()
        for request in left:
            self._fail(request, now)
        self._leave(member, now)
        return len(left)

    def _leave(self, member: Member, now: float) -> None:
        self._preempted += member.replica.preemptions
        self.members.move(member, Life.GONE, now)

    # -- the end -----------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self.members.close()
        for member in list(self.members.all.values()):
            self._abandon(member, self._end)
        while self._held:
            self._fail(self._held.popleft(), self._end)

    def _outcome(self) -> RunOutcome:
        score, spent = self.score, self.members.spent
        return RunOutcome(
            fidelity="request",
            policy=self._law.name,
            offered=score.offered,
            met=score.met,
            failed=score.failed,
            gpu_hours_ready=spent[Life.READY] / 3600.0,
            gpu_hours_starting=spent[Life.STARTING] / 3600.0,
            gpu_hours_draining=spent[Life.DRAINING] / 3600.0,
            scale_ups=self._ups,
            scale_downs=self._downs,
            streams_cut=self._cut,
            ttft_p99=percentile(score.ttfts, 0.99),
            tpot_p99=percentile(score.tpots, 0.99),
            shortage_s=score.shortage_s(self.settings.slo.target),
            span_s=max(0.0, self._end - self.settings.warm_up_s),
            preemptions=self._preempted,
            prompt_tokens=score.prompt_tokens,
            output_tokens=score.output_tokens,
            cached_tokens=score.cached_tokens,
            replica_timeline=tuple(self.members.timeline),
            request_rows=tuple(sorted(score.rows, key=lambda row: row.at)) if score.rows is not None else (),
        )

    def _draw(self, what: str) -> Random:
        """A source of chance of its own, so that one more draw here changes nothing there."""
        return Random(f"{self.settings.seed}:{what}")

    def _push(self, at: float, kind: Happens, member: Member | None) -> None:
        self._pushed += 1
        heapq.heappush(self._events, (at, int(kind), self._pushed, member))


def _in_order(arrivals: Iterable[Arrival]) -> Iterator[Sequence]:
    """Arrivals as sequences; one that is impossible is an error that names it."""
    before = 0.0
    for number, arrival in enumerate(arrivals):
        at = arrival.at
        if not at >= 0.0:
            raise UsageError(f"arrival {number} is at {at:g} s: times count from 0 s and must not be negative")
        if at < before:
            raise UsageError(f"arrival {number} is at {at:g} s, before the one ahead of it at {before:g} s: sort them")
        if arrival.prompt_tokens < 1 or arrival.output_tokens < 1:
            raise UsageError(
                f"arrival {number} has {arrival.prompt_tokens} prompt and {arrival.output_tokens} output tokens: "
                "each needs at least 1"
            )
        before = at
        yield sequence_of(number, arrival)
