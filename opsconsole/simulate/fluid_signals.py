"""What a law is told in the fluid fidelity: numbers of the last scrape, membership as it is, as a live `Situation`.

It must not move the fleet. All serving replicas are alike in a fluid, so they share one value; only those that start
keep a name of their own, until a law has seen them serve once and so learned how long a start takes. The trap: rates
are those between the last two scrapes, so a law that is asked more often sees the same numbers again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from opsconsole.simulate.settings import FleetSettings, PolicyHandle
from policies.situation import CapacityFacts, Demand, Outlook, ReplicaFacts, Situation, SloFacts, State, StepProfile

WINDOW_S, SHORT_S, LONG_S = 60.0, 300.0, 3600.0  # windows of attainment and of the burn rates, as in the live fold
GROWTH_S = 30.0
POOL, MODEL = "pool", "model"
DRAINING = ReplicaFacts("draining", "draining")


@dataclass(frozen=True, slots=True)
class Scraped:
    """Sums and levels between two scrapes. Rates a second, levels a replica."""

    at: float
    seconds: float
    requests: float
    prompt: float
    output: float
    ended: float  # requests that completed
    met: float  # of them
    waiting: float  # requests, all replicas
    running: float  # sequences a replica
    kv_usage: float
    busy: float
    ttft_p95: float | None
    utilisation: float


class Signals:
    """Remembers scrapes and builds situations."""

    def __init__(self, handle: PolicyHandle, settings: FleetSettings, capacity: CapacityFacts, tick_s: float) -> None:
        self._handle, self._settings, self._tick = handle, settings, tick_s
        self._capacity = handle.capacity or capacity
        self._profile: StepProfile = settings.replica.profile
        self._lead = settings.lead_s if settings.lead_s is not None else settings.cold_start.seconds + tick_s
        self._windows = (_Window(WINDOW_S), _Window(SHORT_S), _Window(LONG_S))
        self._queue: deque[tuple[float, float]] = deque()
        self.demand = Demand()
        self._slo = SloFacts(target=settings.slo.target, ttft=settings.slo.ttft, tpot=settings.slo.tpot)
        self._serving = _serving("ok", None, 0)
        self._covered = False

    def scrape(self, seen: Scraped, serving: int) -> None:
        """Take one reading."""
        for window in self._windows:
            window.add(seen.at, seen.ended, seen.met)
        self._queue.append((seen.at, seen.waiting))
        while self._queue[0][0] < seen.at - GROWTH_S:
            self._queue.popleft()
        rate = seen.requests
        self.demand = Demand(
            request_rate=rate,
            prompt_rate=seen.prompt,
            output_rate=seen.output,
            waiting_growth=self._growth(),
            mean_prompt=seen.prompt / rate if rate > 0 else None,
            mean_output=seen.output / rate if rate > 0 else None,
            window_s=seen.seconds,
        )
        self._slo = self._attainment(seen)
        self._serving = _serving(_state(seen, serving), seen, serving)
        self._covered = True

    def _growth(self) -> float | None:
        (first, before), (last, after) = self._queue[0], self._queue[-1]
        return (after - before) / (last - first) if last > first else None

    def _attainment(self, seen: Scraped) -> SloFacts:
        slo = self._settings.slo
        budget = 1.0 - slo.target
        last, short, long = (window.share() for window in self._windows)
        return SloFacts(
            target=slo.target,
            attainment_low=last,
            attainment_high=last,
            burn_short=None if short is None else (1.0 - short) / budget,
            burn_long=None if long is None else (1.0 - long) / budget,
            ttft=slo.ttft,
            tpot=slo.tpot,
            ttft_p95=seen.ttft_p95,
        )

    def situation(
        self, now: float, want: int, members: tuple[int, tuple[ReplicaFacts, ...], tuple[str, ...], int],
    ) -> Situation:  # fmt: skip
        """`members`: how many serve, who starts, who has just begun to serve, how many drain."""
        serving, starting, fresh, draining = members
        plain = self._serving
        replicas = (plain,) * (serving - len(fresh)) if self._covered else ()
        if fresh:
            replicas += tuple(_named(plain, name) for name in fresh)
        replicas += starting + (DRAINING,) * draining
        return Situation(
            now=now,
            pool=POOL,
            model=MODEL,
            want=want,
            replicas=replicas,
            demand=self.demand,
            slo=self._slo,
            limits=self._settings.limits,
            lead_s=self._lead,
            capacity=self._capacity,
            outlooks=self._outlooks(now),
            covered=self._covered,
            thresholds=self._handle.thresholds,
            profile=self._profile,
            interval_s=self._tick,
            future=self._handle.future,
        )

    def _outlooks(self, now: float) -> Mapping[str, Outlook]:
        ask = self._handle.outlooks
        return {} if ask is None else ask(now, self.demand)


class _Window:
    """Offered and met over the last seconds."""

    __slots__ = ("_met", "_offered", "_rows", "_span")

    def __init__(self, span: float) -> None:
        self._span = span
        self._rows: deque[tuple[float, float, float]] = deque()
        self._offered = self._met = 0.0

    def add(self, at: float, offered: float, met: float) -> None:
        self._rows.append((at, offered, met))
        self._offered += offered
        self._met += met
        while self._rows[0][0] <= at - self._span:
            _, old, was = self._rows.popleft()
            self._offered -= old
            self._met -= was

    def share(self) -> float | None:
        return min(1.0, max(0.0, self._met / self._offered)) if self._offered > 1e-9 else None


def _state(seen: Scraped, serving: int) -> State:
    if seen.waiting > 8.0 * max(1, serving):
        return "saturated"
    return "hot" if seen.utilisation > 0.9 else "ok"


def _serving(state: State, seen: Scraped | None, serving: int) -> ReplicaFacts:
    if seen is None:
        return ReplicaFacts("serving", state)
    each = max(1, serving)
    return ReplicaFacts(
        "serving",
        state,
        waiting=seen.waiting / each,
        running=seen.running,
        kv_usage=seen.kv_usage,
        preempt_rate=0.0,
        streams=round(seen.running),
        age=0.0,
        busy=seen.busy,
    )


def _named(plain: ReplicaFacts, name: str) -> ReplicaFacts:
    """A replica that serves since the last decision: idle so far, known by its own name."""
    return ReplicaFacts(name, "ok", waiting=0.0, running=0.0, kv_usage=0.0, preempt_rate=0.0, streams=0, busy=0.0)
