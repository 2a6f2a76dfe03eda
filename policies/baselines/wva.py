"""llm-d's Workload Variant Autoscaler, version 2 (token capacity), one variant, behind its sample HPA.

Interval 60 s. Capacity of a replica is min(0.8 x KV tokens, tokens in use when its queue was 5 or more, averaged over
the last ten). Up when demand / 0.85 exceeds ready and pending supply, down when supply exceeds demand / 0.70. Kept as
shipped: a missing occupancy or queue is 0, and one stream longer than ten minutes counts as idle.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from policies.baselines.hpa_core import Behaviour, RatePolicy, average_metric, behave
from policies.baselines.law import Count, decided, pending, ready
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.situation import ReplicaFacts, Situation
from policies.wording import number

TEN_PODS = Behaviour(up=(RatePolicy(pods=10),), down=(RatePolicy(pods=10),))


@dataclass(frozen=True, slots=True)
class WvaV2:
    name: str = "wva-v2"
    up_at: float = 0.85
    down_at: float = 0.70
    kv_share: float = 0.80
    saturated_queue: float = 5.0
    retention_s: float = 600.0
    period_s: float = 60.0
    needs: tuple[str, ...] = ()
    behaviour: Behaviour = field(default_factory=lambda: TEN_PODS)

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        live = ready(situation)
        capacity, memory = self._capacity(situation, live, memory)
        quiet, memory = memory.holding(f"{self.name}:quiet", situation.demand.request_rate == 0, situation.now)
        idle = quiet is not None and situation.now - quiet >= self.retention_s
        if situation.want == 0:
            wake = (situation.demand.gateway_waiting or 0.0) > 0
            return decided(situation, self.name, Count(1 if wake else 0, "router queue poll")), memory
        if idle and situation.limits.minimum == 0:
            return decided(situation, self.name, Count(0, "no request in the retention time")), memory
        if capacity is None:
            return decided(situation, self.name, Count(None, "MetricsMissing: no capacity known")), memory
        demand = self._demand(situation, live)
        desired = max(1, self._desired(situation, len(live), capacity, demand))
        through = average_metric(float(desired), 1.0, situation.want)
        wants, memory = behave(memory, self.name, situation.now, situation.want, through, self.behaviour)
        inputs = (Input("demand", demand, "tokens"), Input("capacity", capacity, "tokens a replica"))
        text = f"demand {number(demand)} tokens, capacity {number(capacity)} a replica, wants {desired}"
        return decided(situation, self.name, Count(wants, text, inputs)), memory

    def _desired(self, situation: Situation, live: int, capacity: float, demand: float) -> int:
        supply = (live + pending(situation)) * capacity
        required = max(0.0, demand / self.up_at - supply)
        if required > 0:
            return situation.want + math.ceil(required / capacity - 1e-9)
        spare = max(0.0, live * capacity - demand / self.down_at)
        return situation.want - math.floor(spare / capacity + 1e-9)

    def _demand(self, situation: Situation, live: tuple[ReplicaFacts, ...]) -> float:
        """Tokens in use, waiting prompts, and what the router holds with its answers."""
        told = situation.demand
        prompt, output = told.mean_prompt or 0.0, told.mean_output or 0.0
        used = sum(_used(r) + (r.waiting or 0.0) * prompt for r in live)
        router = told.gateway_waiting or 0.0
        return used + router * prompt * (1.0 - (told.hit_rate or 0.0)) + router * output

    def _capacity(
        self, situation: Situation, live: tuple[ReplicaFacts, ...], memory: Memory
    ) -> tuple[float | None, Memory]:
        key = f"{self.name}:k2:{self._bucket(situation)}"
        seen = []
        for replica in sorted(live, key=lambda r: r.name):
            k1 = self.kv_share * (replica.kv_capacity_tokens or _profiled(situation) or 0.0)
            if (replica.waiting or 0.0) >= self.saturated_queue:
                memory = memory.push(key, (situation.now, _used(replica)), keep_s=math.inf, most=10)
            rows = memory.series(key)
            k2 = statistics.fmean(r[1] for r in rows) if rows else self._estimate(situation)
            if k1 > 0:
                seen.append(k1 if k2 is None or k2 <= 0 else min(k1, k2))
        if seen:
            capacity = statistics.median(seen)
            return capacity, memory.with_rows(f"{self.name}:stored", ((situation.now, capacity),))
        stored = memory.series(f"{self.name}:stored")
        return (stored[0][1] if stored else None), memory

    def _estimate(self, situation: Situation) -> float | None:
        """Before anything saturated: N_s (I + O/2) with N_s = min(B O / (I + O), S)."""
        profile, told = situation.profile, situation.demand
        if profile is None or profile.max_batch_tokens is None or profile.max_running is None:
            return None
        if told.mean_prompt is None or told.mean_output is None or told.mean_prompt + told.mean_output <= 0:
            return None
        prompt, output = told.mean_prompt, told.mean_output
        slots = min(profile.max_batch_tokens * output / (prompt + output), float(profile.max_running))
        return slots * (prompt + output / 2)

    def _bucket(self, situation: Situation) -> str:
        output = situation.demand.mean_output or 0.0
        return "short" if output < 100 else "medium" if output < 500 else "long"


def _used(replica: ReplicaFacts) -> float:
    return (replica.kv_usage or 0.0) * (replica.kv_capacity_tokens or 0.0)


def _profiled(situation: Situation) -> float | None:
    return None if situation.profile is None else situation.profile.kv_tokens
