"""One situation with what follows from it, computed once: who serves, who starts, what the fleet carries, its supply.

It must not decide. The traps: a starting replica is supply at the instant it is expected to be useful, neither now nor
never; one that cannot be placed, or is long overdue, is no supply at all and must not freeze the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.situation import LIVE, CapacityFacts, Demand, ReplicaFacts, Situation
from policies.wording import replicas
from policies.worth import Rates, worth

Replicas = tuple[ReplicaFacts, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Build it with `draw`. Sums are over live replicas that tell the value, None when none does."""

    situation: Situation
    lead_s: float
    lead_assumed: bool
    capacity: CapacityFacts | None
    live: Replicas
    silent: Replicas  # may be serving but cannot be believed
    starting: Replicas  # warming, and will still become useful
    stuck: Replicas  # warming, but unschedulable, falling or later than expected by a whole lead
    draining: int
    waiting: float | None  # requests waiting in the engines and in front of the pool
    running: float | None
    kv: float | None  # occupancy, summed: averaging it would pin the fleet at its size
    preempting: float | None  # per second
    overload: float | None = None  # requests/s a replica that proved too much lately

    def ready_at(self, replica: ReplicaFacts) -> float:
        """When a warming replica is expected to be useful."""
        return expected(replica, self.situation.now, self.lead_s)

    @property
    def coming(self) -> int:
        """Supply once everything that starts now has arrived."""
        return len(self.live) + len(self.starting)

    def missing(self) -> str | None:
        """What a shrink must know and does not, in words; None when all is known of every live replica."""
        if not self.situation.covered:
            return "not every live replica answered in this tick"
        if self.silent:
            return f"{replicas(len(self.silent))} stale"
        for name, values in (("queue", [r.waiting for r in self.live]), ("running", [r.running for r in self.live])):
            blank = values.count(None)
            if blank:
                return f"{name} is unknown on {blank} of {len(values)} replicas"
        kv = [r.kv_usage for r in self.live]
        blank = kv.count(None)
        if blank and (blank < len(kv) or self.utilisation(len(kv)) is None):
            return f"KV occupancy is unknown on {blank} of {len(kv)} replicas"
        return None

    def utilisation(self, count: int) -> float | None:
        """The known share of `count` replicas' capacity that current demand takes, with backlog left aside."""
        worth = self.worth()
        return None if worth is None or count <= 0 else worth / count

    def worth(self, demand: Demand | None = None) -> float | None:
        """Replicas' worth of demand, at the low end of what a replica is known to serve."""
        demand, capacity = demand or self.situation.demand, self.capacity
        if capacity is None:
            return None
        rates = Rates(demand.request_rate, demand.prompt_rate, demand.output_rate)
        found = worth(rates, capacity, self.situation.role)
        return None if found is None else found / capacity.low


def draw(
    situation: Situation,
    lead_s: float,
    lead_assumed: bool,
    capacity: CapacityFacts | None,
    overload: float | None = None,
) -> Picture:
    """Sort the replicas and sum what they tell."""
    now, live, warming, silent, draining = situation.now, [], [], [], 0
    for replica in situation.replicas:
        state = replica.state
        if state in LIVE:
            live.append(replica)
        elif state == "warming":
            warming.append(replica)
        elif state == "draining":
            draining += 1
        if state == "stale" or replica.frozen:
            silent.append(replica)
    stuck = [r for r in warming if r.unschedulable or r.falling or now > expected(r, now, lead_s) + lead_s]
    waiting, gateway = _sum([r.waiting for r in live]), situation.demand.gateway_waiting
    if gateway is not None:
        waiting = (waiting or 0.0) + gateway
    return Picture(
        situation=situation,
        lead_s=lead_s,
        lead_assumed=lead_assumed,
        capacity=capacity,
        live=tuple(live),
        silent=tuple(silent),
        starting=tuple([r for r in warming if r not in stuck] if stuck else warming),
        stuck=tuple(stuck),
        draining=draining,
        waiting=waiting,
        running=_sum([r.running for r in live]),
        kv=_sum([r.kv_usage for r in live]),
        preempting=_sum([r.preempt_rate for r in live]),
        overload=overload,
    )


def expected(replica: ReplicaFacts, now: float, lead_s: float) -> float:
    """When a warming replica is expected to be useful: as told, else one lead after it was created."""
    if replica.expected_ready_at is not None:
        return replica.expected_ready_at
    return (now if replica.started_at is None else replica.started_at) + lead_s


def _sum(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None
