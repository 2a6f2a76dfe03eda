"""Knative's autoscaler: fleet concurrency averaged over a stable and a panic window.

Tick 2 s, stable 60 s, panic 6 s at twice the supply, target 100 x 0.7, up at most x1000, down at most half a tick, and
in panic never down. It must not see readiness of what is starting: supply is what is ready. The trap: averages need the
window's data; with none it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.baselines.law import Count, decided, ready, total_running, total_waiting
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.situation import Situation
from policies.wording import number


@dataclass(frozen=True, slots=True)
class Kpa:
    name: str = "kpa"
    target: float = 70.0  # concurrent requests a replica
    stable_s: float = 60.0
    panic_s: float = 6.0
    panic_threshold: float = 2.0
    up_rate: float = 1000.0
    down_rate: float = 2.0
    grace_s: float = 30.0
    period_s: float = 2.0
    needs: tuple[str, ...] = ()

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        now, live = situation.now, len(ready(situation))
        waiting, running = total_waiting(situation), total_running(situation)
        if not memory.series(f"{self.name}:seen") and live > 1:
            memory = memory.with_rows(f"{self.name}:panic", ((now, float(live)),))  # a restart must not shrink
        if waiting is not None or running is not None:
            concurrency = (waiting or 0.0) + (running or 0.0)
            memory = memory.push(f"{self.name}:seen", (now, concurrency), keep_s=self.stable_s)
        stable, panic = self._mean(memory, now, self.stable_s), self._mean(memory, now, self.panic_s)
        if stable is None or panic is None:
            return decided(situation, self.name, Count(None, "no data: hold")), memory
        base = max(1, live)
        high, low = math.ceil(self.up_rate * base), math.floor(base / self.down_rate) if live else 0
        by_stable = min(high, max(low, math.ceil(stable / self.target - 1e-9)))
        by_panic = min(high, max(low, math.ceil(panic / self.target - 1e-9)))
        over = math.ceil(panic / self.target - 1e-9) / base >= self.panic_threshold
        wants, memory, mode = self._mode(memory, now, over, by_stable, by_panic)
        if wants == 0:
            wants, memory = self._to_zero(memory, now, situation)
        else:
            _, memory = memory.holding(f"{self.name}:zero", False, now)
        inputs = (Input("stable", stable, "requests"), Input("panic", panic, "requests"))
        text = f"{mode}: concurrency {number(stable)} over 60 s, {number(panic)} over 6 s, target {number(self.target)}"
        return decided(situation, self.name, Count(wants, f"{text}, wants {wants}", inputs)), memory

    def _mode(self, memory: Memory, now: float, over: bool, stable: int, panic: int) -> tuple[int, Memory, str]:
        """Panic lasts until the stable window has passed without it; inside, the largest count is kept."""
        key = f"{self.name}:panic"
        rows = memory.series(key)
        if over:
            most = max(stable, panic, int(rows[0][1]) if rows else 0)
            return most, memory.with_rows(key, ((now, float(most)),)), "panic"
        if rows and rows[0][0] + self.stable_s >= now:
            most = max(stable, panic, int(rows[0][1]))
            return most, memory.with_rows(key, ((rows[0][0], float(most)),)), "panic"
        return stable, memory.with_rows(key, ()), "stable"

    def _to_zero(self, memory: Memory, now: float, situation: Situation) -> tuple[int, Memory]:
        since, memory = memory.holding(f"{self.name}:zero", True, now)
        if situation.want > 0 and (since is None or now - since < self.grace_s):
            return 1, memory
        return 0, memory

    def _mean(self, memory: Memory, now: float, window: float) -> float | None:
        seen = [row[1] for row in memory.series(f"{self.name}:seen") if row[0] > now - window]
        return sum(seen) / len(seen) if seen else None
