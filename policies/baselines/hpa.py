"""HPA v2 on the four signals people put it on: queue, KV occupancy, GPU utilisation, TTFT p95.

It must not be cleverer than the HPA. The trap: an HPA whose target is scaled to 0 by hand while its minimum is above 0
is disabled, and stays disabled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.baselines.hpa_core import SYNC_S, Behaviour, Pod, average_metric, behave, pods_metric, value_metric
from policies.baselines.law import Count, decided, ready, total_waiting
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.situation import ReplicaFacts, Situation
from policies.wording import number, percent, seconds


@dataclass(frozen=True, slots=True)
class Hpa:
    """One HPA on one signal. `target` is per replica: requests, a share, or seconds (None: the SLO's own bound)."""

    name: str
    signal: str  # queue, kv, gpu, ttft
    target: float | None
    period_s: float = SYNC_S
    needs: tuple[str, ...] = ()
    behaviour: Behaviour = field(default_factory=Behaviour)

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        if situation.want == 0 and situation.limits.minimum > 0:
            return decided(situation, self.name, Count(0, "ScalingDisabled: the target was set to 0 by hand")), memory
        raw = self._raw(situation)
        if raw.wants is None:
            return decided(situation, self.name, raw), memory
        limits = situation.limits
        bounded = max(limits.minimum, min(raw.wants, limits.maximum))
        wants, memory = behave(memory, self.name, situation.now, situation.want, bounded, self.behaviour)
        text = raw.text if wants == raw.wants else f"{raw.text}; behaviour allows {wants}"
        return decided(situation, self.name, Count(wants, text, raw.inputs)), memory

    def _raw(self, situation: Situation) -> Count:
        if self.signal == "queue":
            return self._queue(situation)
        if self.signal == "ttft":
            return self._ttft(situation)
        return self._pods(situation)

    def _queue(self, situation: Situation) -> Count:
        waiting, target = total_waiting(situation), self.target or 1.0
        if waiting is None:
            return Count(None, "FailedGetExternalMetric: queue is unknown")
        wants = average_metric(waiting, target, situation.want)
        inputs = (Input("waiting", waiting, "requests"), Input("target", target, "requests a replica"))
        return Count(wants, f"queue {number(waiting)}, target {number(target)} a replica, wants {wants}", inputs)

    def _ttft(self, situation: Situation) -> Count:
        target = self.target if self.target is not None else situation.slo.ttft
        value = situation.slo.ttft_p95
        if value is None or target is None:
            return Count(None, "FailedGetObjectMetric: TTFT p95 or its target is unknown")
        wants = value_metric(value, target, len(ready(situation)), situation.want)
        inputs = (Input("ttft_p95", value, "s"), Input("target", target, "s"))
        return Count(wants, f"TTFT p95 {seconds(value)}, target {seconds(target)}, wants {wants}", inputs)

    def _pods(self, situation: Situation) -> Count:
        target = self.target or 0.8
        pods = [_pod(r, self.signal) for r in situation.replicas if r.state != "draining"]
        wants = pods_metric(pods, target, situation.want)
        known = [p.value for p in pods if p.value is not None]
        if wants is None or not known:
            return Count(None, f"FailedGetPodsMetric: {self.signal} is unknown on every replica")
        mean = sum(known) / len(known)
        inputs = (Input(self.signal, mean, "share"), Input("target", target, "share"))
        return Count(wants, f"{self.signal} {percent(mean)}, target {percent(target)}, wants {wants}", inputs)


def _pod(replica: ReplicaFacts, signal: str) -> Pod:
    value = replica.kv_usage if signal == "kv" else replica.busy
    return Pod(value, pending=replica.state == "warming" and value is None)


HPA_QUEUE = Hpa("hpa-queue", "queue", 5.0)
HPA_KV = Hpa("hpa-kv", "kv", 0.8)
HPA_GPU = Hpa("hpa-gpu", "gpu", 0.8)
HPA_TTFT = Hpa("hpa-ttft", "ttft", None)
