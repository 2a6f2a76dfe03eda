"""What becomes of the queue before a replica started now could help: the supply curve against what arrives.

It must not decide. Serving capacity is the learned one; where none is known, what left the queue while everybody was
busy says it. The trap: a queue that is long and shrinking needs nobody who comes after it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.picture import Picture


@dataclass(frozen=True, slots=True)
class Backlog:
    """Requests still waiting one lead from now, and when the queue is gone (None: not within the lead)."""

    left: float
    gone_in_s: float | None
    per_replica: float  # requests/s one replica serves
    known: bool  # learned or given, rather than read off the queue


def project(picture: Picture, waiting: float) -> Backlog | None:
    """None where neither capacity nor the queue's growth is known."""
    rate = picture.situation.demand.request_rate
    speed = _speed(picture)
    if rate is None or speed is None:
        return None
    per, known = speed
    now = picture.situation.now
    arrivals = sorted(picture.ready_at(r) for r in picture.starting)
    events = [max(0.0, at - now) for at in arrivals if at - now < picture.lead_s]
    left, at, serving = waiting, 0.0, len(picture.live)
    for event in (*events, picture.lead_s):
        slope = rate - serving * per
        if slope < 0 and left + slope * (event - at) <= 0:
            return Backlog(0.0, at + left / -slope, per, known)
        left = max(0.0, left + slope * (event - at))
        at, serving = event, serving + 1
    return Backlog(left, None, per, known)


def _speed(picture: Picture) -> tuple[float, bool] | None:
    capacity = picture.capacity
    if capacity is not None and capacity.request_rate:
        return capacity.request_rate, True
    demand, live = picture.situation.demand, len(picture.live)
    if demand.request_rate is None or demand.waiting_growth is None or not live:
        return None
    served = demand.request_rate - demand.waiting_growth
    return (served / live, False) if served > 0 else None
