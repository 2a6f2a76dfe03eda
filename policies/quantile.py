"""Which quantile of demand to buy for: by cost, on the operator's own history.

It must not run a backtest; it reads its results. The trap: the newsvendor level is right only when a miss and an idle
replica are priced in the same unit; where nobody prices misses, the SLO target decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.wording import fine_percent, number


@dataclass(frozen=True, slots=True)
class Trial:
    """One level tried in a backtest: what it attained and what it held."""

    level: float
    attainment: float  # share of requests inside the SLO
    replica_hours: float


@dataclass(frozen=True, slots=True)
class Choice:
    level: float
    text: str


def prior(target: float, levels: Sequence[float]) -> Choice:
    """Before anything was backtested: the lowest level that would keep the target if all above it is missed."""
    level = min((level for level in levels if level >= target - 1e-9), default=max(levels))
    return Choice(level, f"{fine_percent(level)} for a target of {fine_percent(target)}, until forecasts are judged")


def newsvendor(miss_cost: float, idle_cost: float) -> float:
    """The level at which one more replica costs as much as it saves: miss / (miss + idle)."""
    if miss_cost < 0 or idle_cost < 0 or miss_cost + idle_cost <= 0:
        raise ValueError(
            f"costs of a miss ({miss_cost:g}) and of an idle replica ({idle_cost:g}) must be 0 or more and not both 0"
        )
    return miss_cost / (miss_cost + idle_cost)


def choose(trials: Sequence[Trial], target: float) -> Choice:
    """The cheapest level that met the target; the one that attained most where none did."""
    if not trials:
        raise ValueError("choosing a quantile needs at least 1 backtested level, got 0")
    met = [t for t in trials if t.attainment >= target]
    if met:
        best = min(met, key=lambda t: (t.replica_hours, t.level))
        return Choice(
            best.level,
            f"level {number(best.level)} is the cheapest that met {fine_percent(target)}: "
            f"{fine_percent(best.attainment)} for {number(best.replica_hours)} replica-hours",
        )
    best = max(trials, key=lambda t: (t.attainment, -t.replica_hours))
    closest = f"level {number(best.level)} came closest: {fine_percent(best.attainment)}"
    return Choice(best.level, f"no level met {fine_percent(target)}; {closest}")
