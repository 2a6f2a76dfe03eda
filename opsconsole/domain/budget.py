"""Error budgets over weeks, from one line of totals a minute: what an objective of 30 days is held against.

Each minute counts its requests (arrivals over the window, taken as the minute's) and the share of them that met the
objective then. It must not make a number of a bound: where minutes are ranges, so is the sum. The trap: minutes of
which nothing was known are not minutes in which all was well; they count as nothing, and `minutes` says how many count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opsconsole.domain.records import BudgetView, FleetSnapshot, Interval

MINUTE_S, DAY_S = 60.0, 86_400.0
MONTH_S = 30 * DAY_S
Key = tuple[str, str]  # pool, SLO class


@dataclass(frozen=True, slots=True)
class Spent:
    """What was asked and what surely and possibly met, in requests."""

    since: float = math.inf  # the oldest minute counted, Unix s
    minutes: int = 0
    offered: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            min(self.since, other.since), self.minutes + other.minutes, self.offered + other.offered,
            self.low + other.low, self.high + other.high,
        )  # fmt: skip


def of_minute(totals: FleetSnapshot) -> dict[Key, Spent]:
    """What one minute's totals say, by objective."""
    found: dict[Key, Spent] = {}
    for pool in totals.pools:
        asked = (pool.request_rate or 0.0) * MINUTE_S
        for slo in pool.slos:
            if asked > 0 and slo.attainment is not None:
                met = slo.attainment
                found[pool.pool, slo.name] = Spent(totals.at, 1, asked, asked * met.low, asked * met.high)
    return found


def together(parts: Iterable[Mapping[Key, Spent]]) -> dict[Key, Spent]:
    """The sums."""
    found: dict[Key, Spent] = {}
    for part in parts:
        for key, spent in part.items():
            found[key] = found[key] + spent if key in found else spent
    return found


def views(spent: Mapping[Key, Spent], newest: FleetSnapshot) -> tuple[BudgetView, ...]:
    """The budgets of the objectives there are now, by today's targets."""
    found = []
    for pool in newest.pools:
        for slo in pool.slos:
            sum_of = spent.get((pool.pool, slo.name))
            if sum_of is None or sum_of.offered <= 0:
                continue
            met = Interval(sum_of.low / sum_of.offered, sum_of.high / sum_of.offered)
            allowed = 1.0 - slo.target
            left = None if allowed <= 0 else Interval(1 - (1 - met.low) / allowed, 1 - (1 - met.high) / allowed)
            found.append(BudgetView(
                pool.pool, slo.name, slo.target, sum_of.since, newest.at, sum_of.minutes, sum_of.offered, met, left,
            ))  # fmt: skip
    return tuple(found)
