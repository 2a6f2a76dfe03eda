"""NVIDIA Dynamo's planner, both loops: a throughput loop every 180 s that sets a floor, a load loop every 5 s.

The throughput loop predicts one interval ahead (last value, or a forecast the caller supplies) and divides by what a
replica does inside the SLO. The load loop moves by one and only when the fleet has settled. It must not see cold
starts: whatever an engine's start takes, the prediction is one interval. The trap: the load loop freezes while a
replica starts, so it adds one replica per cold start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.baselines.dynamo_model import Lengths, decode_rate, estimated_itl, estimated_ttft, prefill_rate
from policies.baselines.law import Count, decided, ready
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.outlook import at
from policies.situation import ReplicaFacts, Situation
from policies.wording import number

TTFT_S, ITL_S = 0.5, 0.05  # the planner's own defaults where the pool has no bounds


@dataclass(frozen=True, slots=True)
class Dynamo:
    name: str
    predictor: str  # constant, arima, kalman
    needs: tuple[str, ...] = ()
    throughput_interval_s: float = 180.0
    margin: float = 0.8
    period_s: float = 5.0

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        lengths, memory = self._lengths(situation, memory)
        floor, memory, said = self._throughput(situation, memory, lengths)
        step, why = self._load(situation, lengths)
        wants = max(situation.want + step, floor)
        if wants == floor and step < 0 and floor > situation.want - 1:
            why = f"{why}, scale_down_capped_by_throughput"
        text = f"load loop {why}; {said}"
        inputs = (Input("floor", floor, "replicas"), Input("request_rate", situation.demand.request_rate, "requests/s"))
        return decided(situation, self.name, Count(wants, text, inputs)), memory

    def _lengths(self, situation: Situation, memory: Memory) -> tuple[Lengths | None, Memory]:
        """Mean prompt, answer and hit rate; the last ones known."""
        told, key = situation.demand, f"{self.name}:lengths"
        if told.mean_prompt is not None and told.mean_output is not None and told.mean_output > 0:
            row = (situation.now, told.mean_prompt, told.mean_output, told.hit_rate or 0.0)
            memory = memory.with_rows(key, (row,))
        rows = memory.series(key)
        return (Lengths(*rows[0][1:]) if rows else None), memory

    def _throughput(self, situation: Situation, memory: Memory, lengths: Lengths | None) -> tuple[int, Memory, str]:
        """The floor; recomputed at each interval's end from what the interval saw."""
        now, seen, kept = situation.now, f"{self.name}:seen", f"{self.name}:floor"
        rate = situation.demand.request_rate
        if rate is not None and math.isfinite(rate):
            memory = memory.push(seen, (now, rate), keep_s=self.throughput_interval_s)
        floors = memory.series(kept)
        if not floors:
            memory = memory.with_rows(kept, ((now, 0.0),))
            return 0, memory, "throughput loop insufficient_data"
        since, floor = floors[0][0], int(floors[0][1])
        if now - since < self.throughput_interval_s:
            return floor, memory, f"throughput loop set_lower_bound {floor}"
        demand = self._predict(situation, memory)
        need = None if demand is None or lengths is None else self._replicas(situation, demand, lengths)
        if need is None:
            return floor, memory.with_rows(kept, ((now, float(floor)),)), "throughput loop predict_failed"
        memory = memory.with_rows(kept, ((now, float(need)),))
        return need, memory, f"throughput loop predicts {number(demand)} requests/s, set_lower_bound {need}"

    def _predict(self, situation: Situation, memory: Memory) -> float | None:
        """One interval ahead. Constant: the interval just seen. Others: the median of the forecast named."""
        if self.predictor == "constant":
            rows = memory.series(f"{self.name}:seen")
            return sum(r[1] for r in rows) / len(rows) if rows else None
        outlook = situation.outlooks.get(f"{self.predictor}:requests/s")
        return None if outlook is None else at(outlook, self.throughput_interval_s, 0.5)

    def _replicas(self, situation: Situation, demand: float, lengths: Lengths) -> int | None:
        """Prefill and decode each divided by a replica's rate; a pool that does both adds the two loads."""
        if situation.profile is None:
            return None
        itl = situation.slo.tpot or ITL_S
        prefill = 0.0 if situation.role == "decode" else demand / prefill_rate(situation.profile, lengths)
        decode = 0.0 if situation.role == "prefill" else demand / decode_rate(situation.profile, lengths, itl)
        return max(1, math.ceil(prefill + decode - 1e-9))

    def _load(self, situation: Situation, lengths: Lengths | None) -> tuple[int, str]:
        """+1 when every engine is estimated over the SLA, -1 when the rest would hold it with a margin."""
        live = ready(situation)
        if situation.profile is None or lengths is None or not live:
            return 0, "no_fpm_data"
        if len(live) != situation.want:
            starting = any(r.state == "warming" for r in situation.replicas)
            return 0, "scaling_in_progress" if starting else "worker_count_mismatch"
        if any(r.waiting is None or r.running is None for r in live):
            return 0, "insufficient_data"
        ttft, itl = situation.slo.ttft or TTFT_S, situation.slo.tpot or ITL_S
        profile = situation.profile
        slow_first = all(estimated_ttft(profile, lengths, r.waiting or 0.0) > ttft for r in live)
        slow_next = all(estimated_itl(profile, lengths, r.running or 0.0) > itl for r in live)
        if (slow_first and situation.role != "decode") or (slow_next and situation.role != "prefill"):
            return 1, "scale_up"
        if len(live) > 1 and self._may_consolidate(situation, live, lengths, ttft, itl):
            return -1, "scale_down"
        return 0, "no_change" if len(live) == 1 else "scale_down_refused_consolidation"

    def _may_consolidate(
        self, situation: Situation, live: tuple[ReplicaFacts, ...], lengths: Lengths, ttft: float, itl: float
    ) -> bool:
        profile = situation.profile
        assert profile is not None
        scale = len(live) / (len(live) - 1)
        own = estimated_ttft(profile, lengths, 0.0)
        for replica in live:
            queued = estimated_ttft(profile, lengths, (replica.waiting or 0.0) * scale) - own
            if queued >= self.margin * (ttft - own):
                return False
            if estimated_itl(profile, lengths, (replica.running or 0.0) * scale) >= self.margin * itl:
                return False
            if replica.kv_usage is not None and replica.kv_usage * scale > 1.0:
                return False
        return True


DYNAMO_CONSTANT = Dynamo("dynamo-constant", "constant")
DYNAMO_ARIMA = Dynamo("dynamo-arima", "arima", needs=("arima",))
DYNAMO_KALMAN = Dynamo("dynamo-kalman", "kalman", needs=("kalman",))
