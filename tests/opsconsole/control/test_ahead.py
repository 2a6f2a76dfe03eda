"""The law, the live forecast and a pretended fleet together: on a load with days, the forecast starts replicas ahead.

A day takes two minutes and a start six seconds, as in single-node mode. The model of the fleet is the plainest there
is: a queue, and replicas that serve a fixed rate once they are ready.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from random import Random

from opsconsole.clock import ManualClock
from opsconsole.control.deciding import Decider
from opsconsole.control.demand import SeriesOptions
from opsconsole.control.foresight import Foresight, ForesightOptions
from opsconsole.control.settings import PoolSettings
from opsconsole.control.situation import Surroundings, situation_of
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import FleetSnapshot, PoolView, ReplicaState, ReplicaView
from policies.registry import policy
from policies.situation import CapacityFacts, Limits

DAY_S, DAYS, START_S, SERVED, MAXIMUM, WINDOW_S = 120, 2, 6.0, 8.0, 2, 10
PATIENCE_S = 0.3  # of queue, beyond which an arrival is late


def rate_at(second: int) -> float:
    return SERVED * (0.1 + 1.4 * (1 - math.cos(2 * math.pi * second / DAY_S)) / 2)


@dataclass(slots=True)
class Fleet:
    """Replicas by when they are ready, a queue, and what it came to."""

    ready: dict[str, float] = field(default_factory=lambda: {"w1": 0.0})
    queue: float = 0.0
    made: int = 1
    offered: int = 0
    late: int = 0
    seconds: int = 0  # replica-seconds
    short_s: int = 0
    waited: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=40))

    def second(self, now: int, arrived: int) -> None:
        serving = sum(ready <= now for ready in self.ready.values())
        self.queue = max(0.0, self.queue + arrived - SERVED * serving)
        self.offered += arrived
        self.late += arrived if self.queue > PATIENCE_S * SERVED * serving else 0
        self.short_s += serving < MAXIMUM and rate_at(now) > SERVED * serving
        self.seconds += len(self.ready)
        self.waited.append((float(now), self.queue))

    def snapshot(self, now: int, rate: float) -> FleetSnapshot:
        live = sum(ready <= now for ready in self.ready.values())
        views = tuple(self._view(name, ready, now, live, rate) for name, ready in self.ready.items())
        pool = PoolView("p", "m", len(self.ready), waiting=self.queue, request_rate=rate, covered=True)
        return FleetSnapshot(now, float(now), "f", "act", views, (pool,), interval=1.0)

    def _view(self, name: str, ready: float, now: int, live: int, rate: float) -> ReplicaView:
        if ready > now:
            return ReplicaView(name, "p", ReplicaState.WARMING, "", started_at=ready - START_S, expected_ready_at=ready)
        return ReplicaView(
            name, "p", ReplicaState.OK, "", started_at=0.0, seen_at=float(now), age=0.0,
            waiting=self.queue / live, running=rate / live, kv_usage=0.1,
        )  # fmt: skip

    def scale(self, to: int, going: tuple[str, ...], now: int) -> None:
        for name in going:
            del self.ready[name]
        while len(self.ready) < to:
            self.made += 1
            self.ready[f"w{self.made}"] = now + START_S


def lived(law: str, seed: int) -> Fleet:
    """Two days under one law."""
    draw, fleet, arrivals = Random(seed), Fleet(), deque[int](maxlen=WINDOW_S)
    limits, capacity = Limits(1, MAXIMUM, stabilise_down_s=10.0), CapacityFacts(SERVED, source="bench")
    pool = PoolSettings(PoolSpec("p", "m", 1, MAXIMUM), limits, law, START_S, capacity=capacity)
    series = SeriesOptions(86_400.0 / DAY_S, 1.0, WINDOW_S, 3 * START_S + 1)
    foresight, decider = Foresight(ForesightOptions(series, fits=False), ManualClock()), Decider(policy)
    for now in range(DAYS * DAY_S):
        arrivals.append(sum(draw.random() < rate_at(now) / 100 for _ in range(100)))
        fleet.second(now, arrivals[-1])
        snapshot = fleet.snapshot(now, sum(arrivals) / len(arrivals))
        foresight.observe(snapshot)
        around = Surroundings(len(fleet.ready), outlooks=foresight.outlooks("p", float(now)), queue=tuple(fleet.waited))
        decided = decider.decide([(situation_of(snapshot, pool, around), pool)])[0].view
        fleet.scale(decided.target, decided.drain if decided.target < decided.current else (), now)
    return fleet


def test_on_a_load_with_days_the_forecast_starts_replicas_before_they_are_needed() -> None:
    reactive, predictive = lived("reactive", 2), lived("predictive", 2)
    assert predictive.offered == reactive.offered > 1000
    assert reactive.short_s >= 12, "a start of six seconds is late each morning"
    assert predictive.short_s <= reactive.short_s / 3
    assert predictive.late <= reactive.late * 2 / 3, "what is left is mostly bursts at noon, and the first morning"
    assert predictive.seconds <= 1.15 * reactive.seconds
