"""A fixed count: the static peak every autoscaler is measured against.

It must not look at anything. The trap: without a count of its own it holds whatever is asked for now.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.baselines.law import Count, decided
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import Situation


@dataclass(frozen=True, slots=True)
class Static:
    name: str = "static"
    replicas: int | None = None
    period_s: float = 60.0
    needs: tuple[str, ...] = ()

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        wants = situation.want if self.replicas is None else self.replicas
        return decided(situation, self.name, Count(wants, f"static {wants}")), memory
