"""A synthetic fleet for `--demo`, tests and screenshots: replicas with queues, KV, cold starts and failures.

It is a generator and says so in every snapshot (`notes`). It must not be mistaken for the simulator: nothing here is
calibrated. Time comes as an argument and chance from a seed, so a demo at a given second always looks the same. The
trap: failures are scripted on the replica's number, so a fleet of one replica has none.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

SLOTS = 16  # requests a replica runs at once
COLD_START_S = 75.0
PHASES = ((0.08, "schedule"), (0.30, "pull"), (0.62, "load"), (0.85, "compile"), (1.01, "warm"))
CYCLE_S = 900.0


@dataclass(slots=True)
class DemoReplica:
    """One pretended engine."""

    name: str
    number: int
    node: str
    started_at: float
    ready_at: float
    speed: float = 1.0  # of the pool's capacity
    queue: float = 0.0
    running: float = 0.0
    load: float = 0.0  # requests/s placed here
    draining_since: float | None = None
    seen_at: float = 0.0
    preempt: float = 0.0
    hit: float = 0.6
    broken: str = ""  # "", stale, down, nan

    @property
    def draining(self) -> bool:
        return self.draining_since is not None


@dataclass(slots=True)
class DemoPool:
    """One pretended model with its replicas and the demand on it."""

    name: str
    model: str
    base: float  # requests/s at the mean
    capacity: float  # requests/s a healthy replica serves
    minimum: int
    maximum: int
    want: int
    phase: float = 0.0
    replicas: list[DemoReplica] = field(default_factory=list)
    created: int = 0
    demand: float = 0.0
    version: int = 1
    misses: float = 0.02  # smoothed share of requests outside the SLO
    slow_misses: float = 0.02
    start_s: dict[str, float] = field(default_factory=dict)  # replica-seconds by start-up phase


_TAILS = ("x2k", "p4m", "q8t", "aa1", "bc7", "dz9", "ee4", "k3v", "m7w", "r5n", "t2h", "w8c")


def expected_demand(pool: DemoPool, at: float) -> float:
    """The part of demand that can be known ahead."""
    wave = math.sin(2 * math.pi * (at / CYCLE_S + pool.phase))
    return max(0.05, pool.base * (1 + 0.42 * wave + 0.1 * math.sin(2 * math.pi * at / 211 + pool.phase)))


class DemoWorld:
    """Steps pools through time; `step` must be called with rising times."""

    def __init__(self, at: float, seed: int = 7, replicas: int = 8, pools: int = 1) -> None:
        self._random = random.Random(seed)
        self.at = self.since = at
        models = ("llama-3.1-8b", "qwen2.5-32b", "mistral-small")
        each = max(0, replicas // max(1, pools))
        self.pools = [
            DemoPool(
                name=("chat", "code", "batch")[i % 3] + ("" if i < 3 else str(i)), model=models[i % 3],
                base=3.6 * max(each, 1) * 0.8, capacity=3.6, minimum=min(2, each), maximum=max(16, each * 2), want=each,
                phase=0.31 * i,
            )
            for i in range(pools)
        ]  # fmt: skip
        for pool in self.pools:
            for _ in range(each):
                self.create(pool, at - 10_800 - 60 * pool.created, ready=True)

    def create(self, pool: DemoPool, at: float, ready: bool = False) -> DemoReplica:
        """Start a replica; it serves after its cold start."""
        number = pool.created
        pool.created += 1
        tail = _TAILS[number % len(_TAILS)] + ("" if number < len(_TAILS) else str(number))
        start = COLD_START_S * (0.9 + 0.2 * self._random.random())
        replica = DemoReplica(
            name=f"{pool.model.split('-')[0]}-{pool.name}-7d9-{tail}", number=number, node=f"gpu-{number % 9 + 1}",
            started_at=at, ready_at=at if ready else at + start, seen_at=at,
            speed=0.72 if number == 0 else 0.94 + 0.12 * self._random.random(),
            hit=0.0 if not ready else 0.55 + 0.1 * self._random.random(),
        )  # fmt: skip
        pool.replicas.append(replica)
        return replica

    def step(self, at: float) -> None:
        """Move to `at`."""
        elapsed = max(0.0, min(5.0, at - self.at))
        self.at = at
        for pool in self.pools:
            noise = 1 + 0.05 * (self._random.random() - 0.5)
            pool.demand = expected_demand(pool, at) * noise
            self._script(pool, at)
            serving = [r for r in pool.replicas if self.serves(r, at)]
            weights = [r.speed ** (0.35 if r.number == 0 else 1.0) for r in serving]
            whole = sum(weights) or 1.0
            for replica in pool.replicas:
                replica.load = 0.0
            for replica, weight in zip(serving, weights, strict=True):
                replica.load = pool.demand * weight / whole
            for replica in pool.replicas:
                self._serve(pool, replica, at, elapsed)
            self._judge(pool, serving, elapsed)
            for replica in pool.replicas:
                if at < replica.ready_at:
                    phase = phase_of(replica, at)
                    pool.start_s[phase] = pool.start_s.get(phase, 0.0) + elapsed
            pool.replicas = [r for r in pool.replicas if not self._gone(r, at)]

    def serves(self, replica: DemoReplica, at: float) -> bool:
        """Whether the router sends work there."""
        return at >= replica.ready_at and not replica.draining and replica.broken != "down"

    def _script(self, pool: DemoPool, at: float) -> None:
        """Failures, by the clock: one goes stale, one restarts, one exports NaN for a while."""
        moment = at % 600
        for replica in pool.replicas:
            was = replica.broken
            if replica.number == 5 and moment < 150:
                replica.broken = "stale"
            elif replica.number == 6 and 240 <= moment < 262:
                replica.broken = "down"
            elif replica.number == 3 and 400 <= moment < 430:
                replica.broken = "nan"
            else:
                replica.broken = ""
            if was == "down" and not replica.broken:
                replica.started_at, replica.ready_at, replica.hit = at, at + 40.0, 0.0
                replica.queue = replica.running = 0.0

    def _serve(self, pool: DemoPool, replica: DemoReplica, at: float, elapsed: float) -> None:
        if replica.broken == "stale":
            return
        replica.seen_at = at
        if at < replica.ready_at or replica.broken == "down":
            replica.running = replica.queue = 0.0
            return
        capacity = pool.capacity * replica.speed
        if replica.draining:
            replica.running = max(0.0, replica.running - elapsed * 0.35)
            replica.queue = 0.0
            return
        busy = replica.load / capacity
        replica.queue = max(0.0, min(64.0, replica.queue + (replica.load - capacity) * elapsed))
        wanted = SLOTS * min(1.0, busy * 0.92 + 0.06 * (self._random.random() - 0.5)) if replica.queue < 1 else SLOTS
        replica.running += (wanted - replica.running) * min(1.0, elapsed * 0.4)
        full = max(0.0, self.kv(replica) - 0.94) / 0.06
        replica.preempt = 0.06 * full * (0.6 + 0.8 * self._random.random())
        replica.hit += ((0.62 if replica.number else 0.58) - replica.hit) * min(1.0, elapsed / 60)

    def kv(self, replica: DemoReplica) -> float:
        """The share of KV blocks in use."""
        drift = 0.05 * math.sin(self.at / 37 + replica.number)
        return max(0.02, min(1.0, 0.88 * replica.running / SLOTS + 0.06 * min(1.0, replica.queue / 8) + drift + 0.04))

    def ttft95(self, pool: DemoPool, replica: DemoReplica) -> float:
        """What a tail request waits for its first token, seconds."""
        busy = replica.running / SLOTS
        return 0.16 + 0.28 * busy**2 + replica.queue / (pool.capacity * replica.speed)

    def tpot95(self, replica: DemoReplica) -> float:
        """Seconds a token in the tail."""
        return 0.024 + 0.022 * replica.running / SLOTS + 0.3 * replica.preempt

    def met(self, pool: DemoPool, replica: DemoReplica) -> tuple[float, float]:
        """Shares inside the TTFT and the TPOT bound."""
        return (
            _share(self.ttft95(pool, replica), 1.0),
            _share(self.tpot95(replica), 0.05),
        )

    def _judge(self, pool: DemoPool, serving: list[DemoReplica], elapsed: float) -> None:
        offered = sum(r.load for r in serving) or 1.0
        missed = sum(r.load * (1 - min(self.met(pool, r))) for r in serving) / offered if serving else 1.0
        pool.misses += (missed - pool.misses) * min(1.0, elapsed / 60)
        pool.slow_misses += (missed - pool.slow_misses) * min(1.0, elapsed / 900)

    def _gone(self, replica: DemoReplica, at: float) -> bool:
        return replica.draining_since is not None and replica.running < 0.5 and at - replica.draining_since > 8

    def live(self, pool: DemoPool) -> list[DemoReplica]:
        """Replicas that stay."""
        return [r for r in pool.replicas if not r.draining]

    def scale(self, pool: DemoPool, to: int) -> list[str]:
        """Bring the pool to `to`; the names that drain for it."""
        pool.version += 1
        pool.want = to
        staying = self.live(pool)
        for _ in range(to - len(staying)):
            self.create(pool, self.at)
        going = sorted(staying, key=lambda r: -r.number)[: max(0, len(staying) - to)]
        for replica in going:
            replica.draining_since = self.at
        return [r.name for r in going]


def _share(value: float, bound: float) -> float:
    """A smooth pretended share of requests inside a bound whose tail is at `value`."""
    return max(0.0, min(1.0, 1 / (1 + math.exp(9 * (value / bound - 1.12))))) if value > bound * 0.45 else 1.0


def phase_of(replica: DemoReplica, at: float) -> str:
    """The start-up phase in words."""
    whole = max(1e-9, replica.ready_at - replica.started_at)
    done = (at - replica.started_at) / whole
    return next((word for limit, word in PHASES if done < limit), "warm")
