"""What the lead costs: the supply that a pool's forecast asks for at its lead and at shorter ones, on average.

A pure fold over decisions. Whoever starts late must hold what may come within two leads, so a shorter start is worth
the replicas that it lets go; by how many, only the forecasts of this pool can say. It must not know phases; a reader
takes them off the lead. The trap: this is what the level in force would hold inside the pool's bounds, whichever law
decides; where the minimum holds everything, a shorter start saves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsconsole.control.deciding import Decided
from opsconsole.control.regret import MEASURES, combined
from opsconsole.domain.records import CapacityView, LeadNeed
from policies.outlook import path
from policies.predictive import KEEP_LEADS
from policies.situation import Outlook

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the start; the interval between decisions stays
MEMORY_S = 86_400.0
LONGEST_S = 60.0  # credited to one decision: a gap is not time


@dataclass(frozen=True, slots=True)
class Needs:
    """Means over at most a day, by share of the start; `interval_s` and `lead_s` as they were last."""

    at: float
    span_s: float = 0.0
    interval_s: float = 0.0
    lead_s: float = 0.0
    replicas: tuple[float, ...] = ()

    def after(self, at: float, interval_s: float, lead_s: float, replicas: tuple[float, ...]) -> Needs:
        passed = min(LONGEST_S, max(0.0, at - self.at))
        span = min(MEMORY_S, self.span_s + passed)
        weight = passed / span if span > 0 else 1.0
        means = self.replicas or replicas
        mixed = tuple(mean + weight * (new - mean) for mean, new in zip(means, replicas, strict=True))
        return Needs(at, span, interval_s, lead_s, mixed)

    def told(self) -> tuple[LeadNeed, ...]:
        """By lead; none while nothing has been averaged."""
        if self.span_s <= 0:
            return ()
        start = self.lead_s - self.interval_s
        return tuple(
            LeadNeed(self.interval_s + share * start, round(count, 3))
            for share, count in zip(SHARES, self.replicas, strict=True)
        )


@dataclass(slots=True)
class LeadBook:
    """What each pool's forecasts asked for."""

    _needs: dict[str, Needs] = field(default_factory=dict)

    def note(self, decided: Sequence[Decided], levels: Mapping[str, float]) -> None:
        """Fold in decisions that knew a forecast, a capacity and a lead."""
        for item in decided:
            pool, situation, lead = item.view.pool, item.situation, item.view.lead
            if lead is None or lead <= situation.interval_s or pool not in levels:
                continue
            leads = [situation.interval_s + share * (lead - situation.interval_s) for share in SHARES]
            found = [_held(situation.outlooks, item.view.capacity, levels[pool], each) for each in leads]
            least, most = situation.limits.minimum, situation.limits.maximum
            counts = [min(most, max(float(least), count)) for count in found if count is not None]
            if len(counts) == len(SHARES):
                before = self._needs.get(pool, Needs(situation.now))
                self._needs[pool] = before.after(situation.now, situation.interval_s, lead, tuple(counts))

    def told(self, pool: str) -> tuple[LeadNeed, ...]:
        found = self._needs.get(pool)
        return () if found is None else found.told()


def _held(outlooks: Mapping[str, Outlook], capacity: CapacityView | None, level: float, lead_s: float) -> float | None:
    """Replicas' worth of the most that the quantile says for the leads in which nothing is given back."""
    if capacity is None:
        return None
    ratios: dict[str, float] = {}
    for unit, field_ in MEASURES:
        per, outlook = getattr(capacity, field_), outlooks.get(unit)
        found = path(outlook, level) if outlook is not None and per else None
        if found is not None:
            ratios[unit] = found.highest(0.0, KEEP_LEADS * lead_s) / (per * capacity.low)
    worth = combined(ratios, capacity)
    return worth[0] if worth is not None and math.isfinite(worth[0]) else None
