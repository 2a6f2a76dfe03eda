"""The fluid fidelity: load as a flow in bins, replicas as supply, a backlog where supply falls short.

The law is the live one, asked at its own period with the numbers of the last scrape. Figures are estimates, made to
agree with the request level where both can run. It must not read files or clocks. The traps: within a bin the flow is
even, so what a burst of seconds does to latency comes from `latency`, except near the limit, where a bin is too short
for a steady state and chance makes a backlog (`brink`); and a scrape sees an instant, whose queue and batch are
not the mean of the stretch, so `glimpse` draws them.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field

from opsconsole.simulate.brink import Brink
from opsconsole.simulate.fluid_signals import Scraped, Signals
from opsconsole.simulate.fluid_tally import Tally
from opsconsole.simulate.glimpse import Glimpse, Seconds
from opsconsole.simulate.latency import SCALES, Latency, lagged, rounded
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.settings import FleetSettings, PolicyHandle
from opsconsole.simulate.traces import Load
from policies.memory import Memory
from policies.situation import ReplicaFacts

EDGES = [math.sqrt(a * b) for a, b in itertools.pairwise(SCALES)]


@dataclass(slots=True)
class Fleet:
    """Who serves, starts and drains; `want` is what was asked for last."""

    cold_s: float
    want: int
    ready: int
    warming: deque[ReplicaFacts] = field(default_factory=deque)  # as laws see them, oldest first
    ready_at: deque[float] = field(default_factory=deque)  # of each of them
    draining: deque[float] = field(default_factory=deque)  # gone at
    fresh: list[str] = field(default_factory=list)  # serve since the law was asked last
    born: int = 0

    def move(self, now: float) -> None:
        while self.ready_at and self.ready_at[0] <= now + 1e-9:
            self.ready_at.popleft()
            self.fresh.append(self.warming.popleft().name)
            self.ready += 1
        while self.draining and self.draining[0] <= now + 1e-9:
            self.draining.popleft()

    def scale(self, now: float, target: int, drain_s: float) -> int:
        """Towards `target`: starts anew, or gives back the newest starts first. Returns how many drain for it."""
        self.want = target
        gone = 0
        have = self.ready + len(self.warming)
        while have < target:
            self.born += 1
            self.warming.append(ReplicaFacts(f"r{self.born}", "warming", started_at=now))
            self.ready_at.append(now + self.cold_s)
            have += 1
        while have > target:
            have -= 1
            if self.warming:
                self.warming.pop()
                self.ready_at.pop()
            else:
                self.ready -= 1
                gone += 1
                self.draining.append(now + drain_s)
        return gone

    def next_change(self) -> float:
        """When the next one is ready or gone."""
        ready = self.ready_at[0] if self.ready_at else math.inf
        return min(ready, self.draining[0]) if self.draining else ready


def simulate_fluid(
    load: Load, handle: PolicyHandle, settings: FleetSettings, latency: Latency | None = None
) -> RunOutcome:
    """One law on one load. Deterministic from the seed, which draws only what a scrape happens to see."""
    latency = latency or Latency(settings.replica, load.lengths, settings.slo)
    return _Run(load, handle, settings, latency).run()


class _Run:
    """One run's state: the backlog in replica-seconds, and sums since the last scrape."""

    def __init__(self, load: Load, handle: PolicyHandle, settings: FleetSettings, latency: Latency) -> None:
        self._settings, self._latency, self._handle = settings, latency, handle
        self._step = load.trace.step
        self._rate, self._prompt = load.rate.tolist(), load.prompt.tolist()
        self._output = lagged(load.output, latency.lag, load.trace.step).tolist()  # counted as tokens are made
        self._work = latency.work_rate(load).tolist()
        self._mean_prompt = load.lengths.prompt
        self._law = handle.law
        self._tick = settings.tick_s or self._law.period_s
        self._fleet = Fleet(settings.cold_start.seconds, settings.initial, settings.initial)
        capacity = latency.capacity(max(2, settings.initial))
        self._signals = Signals(handle, settings, capacity, self._tick)
        self._tally = Tally(latency, settings)
        self._memory = Memory()
        self._backlog = 0.0
        self._sums = [0.0] * 5  # seconds, requests, prompt and output tokens that were served, utilisation
        self._open: deque[tuple[float, float, float]] = deque()  # (complete at, requests, of them met)
        self._last = (0.0, 0.0, 0.0)  # requests/s, utilisation and mean wait of the stretch before now
        self._glimpse = Glimpse(latency, settings.seed)
        self._brink = Brink(latency, settings.seed)
        self._ttft = Seconds()

    def run(self) -> RunOutcome:
        """From boundary to boundary; a law that is asked in between costs a stretch only where it changes something."""
        end = len(self._rate) * self._step
        now, scrape_s, tick = 0.0, self._settings.scrape_s, self._tick
        scrapes, ticks, bin_ = 1, 0, 0
        fleet = self._fleet
        while now < end - 1e-9:
            if now >= scrapes * scrape_s - 1e-9:
                self._scrape(now)
                scrapes += 1
            if now >= (bin_ + 1) * self._step - 1e-9:
                bin_ += 1
            until = min((bin_ + 1) * self._step, scrapes * scrape_s, fleet.next_change(), end)
            target = fleet.want
            while (at := max(now, ticks * tick)) < until - 1e-9:
                ticks += 1
                target = self._ask(at)
                if target != fleet.want:
                    until = at
                    break
            if until - now > 1e-9:
                self._flow(now, until - now, bin_)
            now = until
            if target != fleet.want:
                self._scale_to(now, target)
            fleet.move(now)
        return self._tally.outcome(self._law.name, end)

    def _flow(self, now: float, seconds: float, bin_: int) -> None:
        """An even stretch: nobody comes or goes, the load stands."""
        ready, work, rate = self._fleet.ready, self._work[bin_], self._rate[bin_]
        before, scale, replicas = self._backlog, self._scale(bin_), rounded(ready)
        arrived = rate * seconds
        left = (bin_ + 1) * self._step - now - seconds
        after = self._brink.after(before, ready, work, seconds, max(0.0, left), scale)
        used = min(1.0, max(0.0, (before - after) / seconds + work) / ready) if ready else 0.0
        self._backlog = after
        met = wait = 0.0
        if ready and before <= 0.0 and after <= 0.0:
            served = self._latency.at(replicas, used, scale)
            met, wait = served.attained * arrived, served.wait
            self._ttft.add(arrived, self._latency.reached(replicas, used, scale))
        elif ready:
            delays = before / ready, after / ready
            met = self._latency.late(replicas, used, delays, scale) * arrived
            self._ttft.add(arrived, self._latency.reached(replicas, used, scale, delays))
        done_s = (
            seconds - (after - before) / work if work else 0.0
        )  # of this bin's load: what was served in the stretch
        sums = self._sums
        sums[0] += seconds
        sums[1] += arrived
        sums[2] += self._prompt[bin_] * done_s
        sums[3] += self._output[bin_] * done_s
        sums[4] += used * seconds
        self._last = rate, used, wait
        took = self._latency.stay(used) + (after / ready if ready else 0.0)
        self._open.append((now + seconds / 2 + took, arrived, met))
        self._tally.add(now, seconds, self._fleet, arrived, met, used, before, after, scale)

    def _scale(self, bin_: int) -> int:
        rate = self._rate[bin_]
        ratio = self._prompt[bin_] / rate / self._mean_prompt if rate > 0 else 1.0
        place = 0
        while place < len(EDGES) and ratio > EDGES[place]:
            place += 1
        return place

    def _scrape(self, now: float) -> None:
        seconds, requests, prompt, output, used = self._sums
        ended, met = self._ended(now)
        fleet, latency = self._fleet, self._latency
        used = used / seconds if seconds else 0.0
        rate, at_end, wait = self._last
        behind = 0.0
        if self._backlog:
            behind = self._backlog / self._work_of_mean(prompt, output, requests)
        seen = self._glimpse.at(fleet.ready, rate, at_end, wait, behind)
        self._signals.scrape(
            Scraped(
                at=now,
                seconds=seconds,
                requests=requests / seconds if seconds else 0.0,
                prompt=prompt / seconds if seconds else 0.0,
                output=output / seconds if seconds else 0.0,
                ended=ended,
                met=met,
                waiting=seen.waiting,
                running=seen.running,
                kv_usage=min(1.0, seen.running * latency.mean_context / self._settings.replica.kv_tokens),
                busy=1.0 - math.exp(-latency.running(used)) if used < 1.0 else 1.0,
                ttft_p95=self._ttft.close(now),
                utilisation=used,
            ),
            fleet.ready,
        )
        self._sums = [0.0] * 5

    def _ended(self, now: float) -> tuple[float, float]:
        """Requests that are complete since the last scrape, and how many of them met the bounds."""
        ended = met = 0.0
        while self._open and self._open[0][0] <= now:
            _, count, good = self._open.popleft()
            ended += count
            met += good
        return ended, met

    def _work_of_mean(self, prompt: float, output: float, requests: float) -> float:
        lengths = self._latency.lengths
        if requests <= 0:
            return self._latency.work(lengths.prompt, lengths.output)
        return self._latency.work(prompt / requests, output / requests)

    def _ask(self, now: float) -> int:
        """What the law wants, from what the last scrape told it."""
        fleet = self._fleet
        fresh = tuple(fleet.fresh) if len(fleet.fresh) <= fleet.ready else ()
        members = (fleet.ready, tuple(fleet.warming), fresh, len(fleet.draining))
        fleet.fresh.clear()
        decision, self._memory = self._law.decide(self._signals.situation(now, fleet.want, members), self._memory)
        return decision.target

    def _scale_to(self, now: float, target: int) -> None:
        self._tally.decided(now, self._fleet.want, target)
        drained = self._fleet.scale(now, target, self._tally.drain_s)
        self._tally.drained(now, drained)
