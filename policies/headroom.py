"""How many times the forecast to buy: raised while more is missed than the target allows, and let down again.

A forecast is of means over its step; what comes in bursts within one is missed at any of its quantiles. So where the
highest level is in force, or the fleet misses far more than is reckoned of the one that is, the miss itself is
integrated, request by request, until as much is missed as may be: adaptive conformal inference (Gibbs and Candes 2021)
on the one error that counts. It must not forecast. The traps: an outage is no burst, so it is bounded; and where no
number of replicas can meet the SLO, more of them must not be bought for it.
"""

from __future__ import annotations

from policies.memory import Memory
from policies.picture import Picture
from policies.slo_guard import infeasible

SERIES = "headroom"
GAIN = 0.2  # a lead in which all is missed raises it by this much
AIM = 0.8  # of what may be missed: who aims at the bound itself is over it half of the time
FALL = 0.5  # times as slow on the way down: bursts come in spells
MOST = 2.5


def in_force(memory: Memory) -> float:
    """Times the forecast; 1 without evidence."""
    rows = memory.series(SERIES)
    return rows[0][1] if rows else 1.0


def learn(picture: Picture, memory: Memory, leads: float, weight: float, is_spent: bool) -> Memory:
    """Fold one stretch in: so many leads long, `weight` times as busy as usual.

    `is_spent`: no level of the forecast explains what is missed; else a higher level is the answer.
    """
    slo = picture.situation.slo
    if slo.target is None or slo.attainment_low is None or slo.attainment_high is None or infeasible(picture):
        return memory
    missed = 1.0 - (slo.attainment_low + slo.attainment_high) / 2
    over = missed - AIM * (1.0 - slo.target)
    if over > 0 and not is_spent:
        return memory
    gain = GAIN if over > 0 else GAIN * FALL
    times = min(MOST, max(1.0, in_force(memory) + gain * leads * weight * over))
    if times <= 1.0:
        return memory.with_rows(SERIES, ())
    return memory.with_rows(SERIES, ((picture.situation.now, round(times, 5)),))
