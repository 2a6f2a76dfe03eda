"""The demo's own memory of its decisions: what each should have been, told once its lead has passed.

It must not decide. Like everything of the demo it is pretended, and it keeps the rules of the real one: a decision is
judged by the demand at the moment it was made for. The trap: only decisions that changed something become journal
lines; the tally counts them all.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from opsconsole.client.demo_world import COLD_START_S, DemoPool
from opsconsole.domain.records import CapacityView, DecisionView, RegretTally, RegretView, SupplyPoint

LEAD_S = COLD_START_S + 30.0
SURE = 0.9  # of a replica's capacity, what it serves inside the objective
HOUR_S = 3600.0


def facts(pool: DemoPool, at: float) -> tuple[CapacityView, tuple[SupplyPoint, ...]]:
    """What a decision of the demo knows: a replica's capacity, and when starting ones are expected."""
    ready = sum(at >= r.ready_at and not r.draining for r in pool.replicas)
    due = sorted(r.ready_at for r in pool.replicas if at < r.ready_at and not r.draining)
    supply = (SupplyPoint(at, ready), *(SupplyPoint(when, ready + i + 1) for i, when in enumerate(due)))
    capacity = CapacityView(pool.capacity, pool.capacity * 1500, pool.capacity * 210, SURE, 1.1, "learned", 14)
    return capacity, supply


@dataclass(slots=True)
class Hindsight:
    """Decisions that wait for their moment, and how those of the last hour went."""

    waiting: deque[DecisionView] = field(default_factory=deque)
    judged: dict[str, deque[RegretView]] = field(default_factory=dict)

    def remember(self, decision: DecisionView) -> None:
        self.waiting.append(decision)

    def due(self, at: float, pools: list[DemoPool]) -> list[DecisionView]:
        """The decisions whose lead has passed now, with what became of them."""
        found: list[DecisionView] = []
        while self.waiting and at >= self.waiting[0].at + LEAD_S:
            decision = self.waiting.popleft()
            pool = next(p for p in pools if p.name == decision.pool)
            regret = _judge(decision, pool)
            held = self.judged.setdefault(pool.name, deque())
            held.append(regret)
            while held and held[0].due_at < at - HOUR_S:
                held.popleft()
            found.append(replace(decision, regret=regret))
        return found

    def tally(self, pool: str) -> RegretTally | None:
        """The last hour's decisions about a pool."""
        held = self.judged.get(pool)
        if not held:
            return None
        count = len(held)
        return RegretTally(
            count, sum(r.short == 0 for r in held) / count, sum(max(0, r.short) for r in held) / count,
            sum(max(0, -r.short) for r in held) / count, held[0].due_at,
        )  # fmt: skip


def _judge(decision: DecisionView, pool: DemoPool) -> RegretView:
    worth = pool.demand / (pool.capacity * SURE)
    needed = max(pool.minimum, min(pool.maximum, math.ceil(worth)))
    gap = needed - decision.target
    verdict = f"{gap} too few" if gap > 0 else f"{-gap} too many" if gap else "as decided"
    text = (
        f"{pool.name} decided {decision.target}; {worth:.1f} replicas' worth came ({pool.demand:.1f} requests/s): "
        f"{needed} were needed, {verdict}"
    )
    due = decision.at + LEAD_S
    return RegretView(
        pool.name, decision.at, due, LEAD_S, decision.target, needed, worth, pool.demand, "requests/s", text
    )
