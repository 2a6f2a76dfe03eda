"""What proved too much: the demand per replica at which the fleet had to grow, remembered for an hour.

It must not grow or shrink anything. Where no capacity is known and occupancy says little, this is what keeps a fleet
from giving back the replica it will need again. The trap: an hour later requests may be shorter, so it is forgotten.
"""

from __future__ import annotations

from policies.memory import Memory
from policies.picture import Picture

SERIES = "overload"
KEEP_S = 3600.0
EVERY_S = 60.0
MARGIN = 0.9
SETTLE_S = 30.0  # the queue's growth is counted over this long


def remember(picture: Picture, full_for_s: float, memory: Memory) -> Memory:
    """Note demand per serving replica while a queue has grown in front of the same full replicas for a while.

    A queue that shrinks is what an earlier shortage left behind and says nothing against the count that serves it.
    """
    live, demand = len(picture.live), picture.situation.demand
    if not live or not demand.request_rate or full_for_s < max(SETTLE_S, demand.window_s):
        return memory
    if demand.waiting_growth is None or demand.waiting_growth <= 0:
        return memory
    now, per = picture.situation.now, demand.request_rate / live
    rows = memory.series(SERIES)
    if rows and now - rows[-1][0] < EVERY_S and per >= min(row[1] for row in rows):
        return memory
    return memory.push(SERIES, (now, per), keep_s=KEEP_S, most=120)


def least(memory: Memory, now: float) -> float | None:
    """The smallest demand per replica (requests/s) that was too much within the hour."""
    seen = [row[1] for row in memory.series(SERIES) if row[0] >= now - KEEP_S]
    return min(seen) if seen else None
