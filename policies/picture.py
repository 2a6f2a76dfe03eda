"""One situation with what follows from it, computed once: who serves, who starts, what the fleet carries, its supply.

It must not decide. The traps: a starting replica is supply at the instant it is expected to be useful, neither now nor
never; one that cannot be placed, or is long overdue, is no supply at all and must not freeze the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from policies.situation import LIVE, CapacityFacts, ReplicaFacts, Situation
from policies.wording import replicas


@dataclass(frozen=True)
class Picture:
    """The situation, and the learned facts that hold now. `lead_s` and `capacity` may come from memory."""

    situation: Situation
    lead_s: float
    lead_assumed: bool
    capacity: CapacityFacts | None

    @cached_property
    def live(self) -> tuple[ReplicaFacts, ...]:
        return tuple(r for r in self.situation.replicas if r.state in LIVE)

    @cached_property
    def silent(self) -> tuple[ReplicaFacts, ...]:
        """Replicas that may be serving but cannot be believed."""
        return tuple(r for r in self.situation.replicas if r.state == "stale" or r.frozen)

    @cached_property
    def starting(self) -> tuple[ReplicaFacts, ...]:
        """Warming replicas that will still become useful."""
        return tuple(r for r in self.situation.replicas if r.state == "warming" and not self.is_stuck(r))

    @cached_property
    def stuck(self) -> tuple[ReplicaFacts, ...]:
        return tuple(r for r in self.situation.replicas if r.state == "warming" and self.is_stuck(r))

    @cached_property
    def draining(self) -> int:
        return sum(1 for r in self.situation.replicas if r.state == "draining")

    def ready_at(self, replica: ReplicaFacts) -> float:
        """When a warming replica is expected to be useful."""
        if replica.expected_ready_at is not None:
            return replica.expected_ready_at
        started = self.situation.now if replica.started_at is None else replica.started_at
        return started + self.lead_s

    def is_stuck(self, replica: ReplicaFacts) -> bool:
        """Unschedulable, or later than expected by a whole lead."""
        return replica.unschedulable or self.situation.now > self.ready_at(replica) + self.lead_s

    def supply(self, at: float) -> int:
        """Replicas that serve at an instant: live now, and starting ones that are expected by then."""
        return len(self.live) + sum(1 for r in self.starting if self.ready_at(r) <= at)

    @cached_property
    def coming(self) -> int:
        """Supply once everything that starts now has arrived."""
        return len(self.live) + len(self.starting)

    @cached_property
    def waiting(self) -> float | None:
        """Requests waiting in the engines and in front of the pool; the known ones, None if none is known."""
        known = [r.waiting for r in self.live if r.waiting is not None]
        gateway = self.situation.demand.gateway_waiting
        if not known and gateway is None:
            return None
        return sum(known) + (gateway or 0.0)

    @cached_property
    def kv(self) -> float | None:
        """Occupancy summed over live replicas; averaging it would pin the fleet at its size."""
        known = [r.kv_usage for r in self.live if r.kv_usage is not None]
        return sum(known) if known else None

    @cached_property
    def preempting(self) -> float | None:
        known = [r.preempt_rate for r in self.live if r.preempt_rate is not None]
        return sum(known) if known else None

    @cached_property
    def running(self) -> float | None:
        known = [r.running for r in self.live if r.running is not None]
        return sum(known) if known else None

    @cached_property
    def complete(self) -> str | None:
        """None when everything a shrink must know is known of every live replica, else what is missing, in words."""
        if not self.situation.covered:
            return "not every live replica answered in this tick"
        if self.silent:
            return f"{replicas(len(self.silent))} stale"
        for name, values in (
            ("queue", [r.waiting for r in self.live]),
            ("running", [r.running for r in self.live]),
        ):
            missing = sum(1 for v in values if v is None)
            if missing:
                return f"{name} is unknown on {missing} of {len(values)} replicas"
        kv = [r.kv_usage for r in self.live]
        unknown = sum(1 for v in kv if v is None)
        if unknown and (unknown < len(kv) or self.utilisation(len(kv)) is None):
            return f"KV occupancy is unknown on {unknown} of {len(kv)} replicas"
        return None

    def utilisation(self, count: int) -> float | None:
        """The largest known share of `count` replicas' capacity that current demand takes, with backlog left aside."""
        shares = [need / count for need in self.needs() if count > 0]
        return max(shares) if shares else None

    def needs(self) -> list[float]:
        """Replicas' worth of demand by every measure known on both sides: requests, prompt tokens, output tokens."""
        demand, capacity = self.situation.demand, self.capacity
        if capacity is None:
            return []
        role = self.situation.role
        pairs = (
            (demand.request_rate, capacity.request_rate),
            (demand.prompt_rate, None if role == "decode" else capacity.prompt_rate),
            (demand.output_rate, None if role == "prefill" else capacity.output_rate),
        )
        return [rate / (per * capacity.low) for rate, per in pairs if rate is not None and per is not None and per > 0]
