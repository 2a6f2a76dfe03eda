"""The composed law in a closed loop with a small world, on the days that broke other autoscalers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from policies import policy
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, Limits, ReplicaFacts, ScheduleWindow, Situation

Load = Callable[[float], float]


@dataclass
class World:
    """Replicas that serve `speed` requests/s and hold 16 at once; what does not fit waits. The policy's word is law."""

    load: Load
    law: str = "reactive"
    speed: float = 1.0
    cold_s: float = 60.0
    drain_s: float = 20.0
    limits: Limits = field(default_factory=lambda: Limits(1, 12, stabilise_down_s=120.0))
    capacity: CapacityFacts | None = None
    schedule: tuple[ScheduleWindow, ...] = ()
    tick_s: float = 10.0
    now: float = 0.0
    ready: int = 1
    starting: list[float] = field(default_factory=list)
    draining: list[float] = field(default_factory=list)
    queue: float = 0.0
    memory: Memory = field(default_factory=Memory)
    want: int = 1
    changes: list[tuple[float, int]] = field(default_factory=list)
    waited: float = 0.0  # request-seconds in the queue
    blind: Callable[[float], bool] = lambda _: False  # nobody answers then
    stuck: bool = False  # what starts never becomes ready

    def run(self, seconds: float) -> list[Decision]:
        decisions, until = [], self.now + seconds
        while self.now < until:
            decision, self.memory = policy(self.law).decide(self.situation(), self.memory)
            self.obey(decision)
            decisions.append(decision)
            self.flow()
        return decisions

    def flow(self) -> None:
        for _ in range(int(self.tick_s)):
            serves = self.ready * self.speed
            self.queue = max(0.0, self.queue + self.load(self.now) - serves)
            self.waited += self.queue
            self.now += 1.0
            if not self.stuck:
                self.ready += sum(1 for at in self.starting if at <= self.now)
                self.starting = [at for at in self.starting if at > self.now]
            self.draining = [at for at in self.draining if at > self.now]

    def obey(self, decision: Decision) -> None:
        if decision.target == self.want:
            return
        self.changes.append((self.now, decision.target))
        self.starting += [self.now + self.cold_s] * max(0, decision.target - self.want)
        for name in decision.drain:
            if name.startswith("b"):
                self.starting.pop()
            else:
                self.ready -= 1
                self.draining.append(self.now + self.drain_s)
        self.want = decision.target

    def situation(self) -> Situation:
        blind = self.blind(self.now)
        arrivals = self.load(self.now)
        share = 1.0 if self.queue > 0 else min(1.0, arrivals / max(1e-9, self.ready * self.speed))
        live = tuple(
            ReplicaFacts(
                f"r{i}",
                "stale" if blind else "ok",
                waiting=None if blind else self.queue / self.ready,
                running=None if blind else 16.0 * share,
                kv_usage=None if blind else 0.5 * share,
                preempt_rate=None if blind else 0.0,
                streams=round(16 * share),
            )
            for i in range(self.ready)
        )
        booting = tuple(
            ReplicaFacts(
                f"b{i}", "warming", expected_ready_at=at, started_at=at - self.cold_s, unschedulable=self.stuck
            )
            for i, at in enumerate(self.starting)
        )
        going = tuple(ReplicaFacts(f"d{i}", "draining", streams=3) for i in range(len(self.draining)))
        growth = None if blind else (arrivals - self.ready * self.speed if self.queue > 0 else 0.0)
        return Situation(
            now=self.now,
            pool="p",
            model="m",
            want=self.want,
            replicas=live + booting + going,
            demand=Demand(
                request_rate=None if blind else arrivals,
                waiting_growth=growth,
                gateway_waiting=self.queue if self.ready == 0 else None,
            ),
            limits=self.limits,
            lead_s=self.cold_s + self.tick_s,
            capacity=self.capacity,
            schedule=self.schedule,
            covered=not blind,
            interval_s=self.tick_s,
        )


def test_it_does_not_swing_between_two_and_one() -> None:
    """Load of 1.4 replicas, nothing known of capacity: the first overload teaches it, and two stay."""
    world = World(load=lambda _: 1.4)
    world.run(7200.0)
    assert world.want == 2
    assert len(world.changes) <= 3
    assert world.queue == 0.0


@pytest.mark.parametrize("capacity", [None, CapacityFacts(request_rate=1.0)], ids=["unknown", "known"])
def test_a_burst_is_served_and_given_back(capacity: CapacityFacts | None) -> None:
    world = World(load=lambda t: 5.5 if 600 <= t < 1800 else 0.4, capacity=capacity)
    world.run(1800.0)
    assert world.ready >= 6
    assert world.queue == 0.0
    peak = max(target for _, target in world.changes)
    world.run(3600.0)
    assert world.want == 1
    assert peak <= 12
    ups = [b for (_, a), (_, b) in zip(world.changes, world.changes[1:], strict=False) if b > a]
    assert len(ups) <= 4


def test_known_capacity_buys_the_burst_at_once_and_not_more() -> None:
    world = World(load=lambda t: 5.5 if t >= 600 else 0.4, capacity=CapacityFacts(request_rate=1.0))
    world.run(700.0)
    assert world.changes[:2] == [(600.0, 5), (610.0, 6)]  # what cannot be chance at once, the rest when seen twice
    world.run(1200.0)
    assert max(target for _, target in world.changes) <= 9  # some more, to work off what waited for the start


def test_an_outage_of_measurement_at_the_peak_changes_nothing() -> None:
    world = World(load=lambda _: 4.5, capacity=CapacityFacts(request_rate=1.0), blind=lambda t: 1200 <= t < 2400)
    world.run(1200.0)
    before = world.want
    assert {d.target for d in world.run(1200.0)} == {before}
    world.run(600.0)
    assert world.want == before


def test_a_window_full_of_holes_is_not_a_calm_window() -> None:
    """Calm begins while nobody answers; only a whole window of answers shrinks."""
    world = World(load=lambda t: 2.5 if t < 1200 else 0.1, blind=lambda t: 1200 <= t < 1500)
    world.run(1200.0)
    assert world.want >= 3
    world.run(300.0 + 110.0)
    assert world.want >= 3
    world.run(600.0)
    assert world.want == 1


def test_no_traffic_is_not_no_data_and_shrinks_to_the_minimum() -> None:
    world = World(load=lambda t: 3.5 if t < 900 else 0.0)
    world.run(900.0)
    world.run(1800.0)
    assert world.want == 1


def test_what_cannot_be_placed_is_given_back_when_the_load_ends() -> None:
    world = World(load=lambda t: 3.0 if t < 300 else 0.1, stuck=True)
    world.run(300.0)
    assert world.want > 1
    world.run(1800.0)
    assert world.want == 1
    assert world.ready == 1


def test_zero_wakes_on_the_first_request_and_sleeps_again() -> None:
    limits = Limits(0, 4, stabilise_down_s=60.0, to_zero_after_s=120.0)
    world = World(load=lambda t: 0.5 if 600 <= t < 900 else 0.0, limits=limits)
    world.run(600.0)
    assert world.want == 0
    world.run(10.0)
    world.run(10.0)
    assert world.want >= 1
    world.run(280.0)
    assert world.queue == 0.0
    world.run(900.0)
    assert world.want == 0


def test_an_announced_hour_is_warm_when_it_begins() -> None:
    window = ScheduleWindow(1200.0, 1800.0, minimum=5, note="launch")
    world = World(load=lambda _: 0.3, schedule=(window,))
    world.run(1200.0)
    assert world.ready == 5
    world.run(600.0)
    assert world.ready == 5
    world.run(1200.0)
    assert world.want == 1


@pytest.mark.parametrize("seed", range(4))
def test_noise_around_a_steady_load_moves_little(seed: int) -> None:
    rng = random.Random(seed)
    noise = [max(0.0, rng.gauss(3.2, 0.5)) for _ in range(4000)]
    world = World(load=lambda t: noise[int(t) // 10], capacity=CapacityFacts(request_rate=1.0))
    world.run(7200.0)
    assert len([c for c in world.changes if c[0] > 1200.0]) <= 4


def test_a_restart_of_the_agent_in_the_middle_changes_nothing_at_once() -> None:
    world = World(load=lambda t: 4.5 if t < 1200 else 0.1, capacity=CapacityFacts(request_rate=1.0))
    world.run(1200.0)
    before, world.memory = world.want, Memory()
    assert {d.target for d in world.run(110.0)} == {before}


def test_memory_kept_through_a_restart_decides_the_same() -> None:
    one = World(load=lambda t: 4.5 if t < 600 else 0.1)
    other = World(load=lambda t: 4.5 if t < 600 else 0.1)
    one.run(900.0)
    other.run(900.0)
    other.memory = Memory.from_json(other.memory.to_json())
    assert [d.target for d in one.run(900.0)] == [d.target for d in other.run(900.0)]
