"""KEDA on the router's signals, the queue overlay of the llm-d guide: max(ceil(Q / 1), ceil(R / 16)) through an HPA.

Poll 15 s; up 100 % in 15 s; down window 300 s, 100 % in 15 s; both metrics AverageValue. KEDA's own loop wakes from
zero, and goes to zero after the cooldown. The trap, kept as shipped: an empty upstream answer reads as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.baselines.hpa_core import Behaviour, RatePolicy, average_metric, behave, combine
from policies.baselines.law import Count, decided, total_running, total_waiting
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.situation import Situation
from policies.wording import number

OVERLAY = Behaviour(up=(RatePolicy(percent=100.0),))


@dataclass(frozen=True, slots=True)
class KedaEpp:
    name: str = "keda-epp"
    queue: float = 1.0  # requests a replica
    running: float = 16.0  # requests a replica
    cooldown_s: float = 300.0
    period_s: float = 15.0
    needs: tuple[str, ...] = ()
    behaviour: Behaviour = field(default_factory=lambda: OVERLAY)

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        waiting, running = total_waiting(situation) or 0.0, total_running(situation) or 0.0
        inputs = (Input("waiting", waiting, "requests"), Input("running", running, "requests"))
        words = (
            f"queue {number(waiting)} over {number(self.queue)}, running {number(running)} over {number(self.running)}"
        )
        quiet, memory = memory.holding(f"{self.name}:inactive", waiting <= 0 and running <= 0, situation.now)
        if situation.want == 0:
            wants = max(1, situation.limits.minimum) if quiet is None else situation.limits.minimum
            return decided(situation, self.name, Count(wants, f"{words}: activation", inputs)), memory
        if situation.limits.minimum == 0 and quiet is not None and situation.now - quiet >= self.cooldown_s:
            return decided(situation, self.name, Count(0, f"{words}: inactive for the cooldown", inputs)), memory
        raw = combine(
            [
                average_metric(waiting, self.queue, situation.want),
                average_metric(running, self.running, situation.want),
            ],
            situation.want,
        )
        limits = situation.limits
        bounded = max(1, limits.minimum, min(raw or 0, limits.maximum))
        wants, memory = behave(memory, self.name, situation.now, situation.want, bounded, self.behaviour)
        return decided(situation, self.name, Count(wants, f"{words}, wants {wants}", inputs)), memory
