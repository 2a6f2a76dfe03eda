"""What a policy is told: one pool at one instant, as frozen values with units in their names or comments.

It knows nothing of metrics pages, Kubernetes or forecasters; the caller translates. `None` is unknown and is never
read as 0. The trap: `demand` is what arrives, not what completes; once a fleet saturates, completions equal supply and
every law built on them goes blind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["ok", "hot", "saturated", "warming", "draining", "stale", "down"]

LIVE: frozenset[str] = frozenset({"ok", "hot", "saturated"})


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One replica as last seen. Rates are per second, occupancy a fraction, times Unix seconds, ages seconds."""

    name: str
    state: State
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    preempt_rate: float | None = None
    prompt_rate: float | None = None  # prompt tokens/s
    output_rate: float | None = None  # output tokens/s
    request_rate: float | None = None
    started_at: float | None = None
    expected_ready_at: float | None = None
    streams: int | None = None  # running streams, for a drain
    age: float | None = None  # seconds since the last good reading
    seen: bool = True  # answered in this tick
    cache_tokens: float | None = None  # prefix cache worth keeping
    cost: float | None = None  # per hour
    busy: float | None = None  # share of time with a batch in flight
    kv_capacity_tokens: float | None = None
    unschedulable: bool = False  # pending for want of a node: no supply, whatever its start-up says
    falling: bool = False  # its process starts and falls, again and again: no supply either
    frozen: bool = False  # gauges stand still while they should move: neither idle nor routable
    node: str | None = None  # what it runs on


@dataclass(frozen=True, slots=True)
class Demand:
    """What arrives at the pool, per second: started + change of waiting + rejected."""

    request_rate: float | None = None
    prompt_rate: float | None = None  # tokens/s
    output_rate: float | None = None  # tokens/s
    waiting_growth: float | None = None  # requests/s by which the queue grows
    rejected_rate: float | None = None
    gateway_waiting: float | None = None  # requests waiting in front of the pool (router, gateway)
    mean_prompt: float | None = None  # tokens a request
    mean_output: float | None = None  # tokens a request
    hit_rate: float | None = None  # fraction of prompt tokens found in cache
    window_s: float = 0.0  # over which the rates were counted; 0 is one interval


@dataclass(frozen=True, slots=True)
class SloFacts:
    """The pool's binding SLO class: bounds in seconds, attainment as an interval, burn in even spendings."""

    target: float | None = None
    attainment_low: float | None = None
    attainment_high: float | None = None
    burn_short: float | None = None
    burn_long: float | None = None
    ttft: float | None = None
    tpot: float | None = None
    ttft_p95: float | None = None
    tpot_p95: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and speeds set by the operator. `budget` is what a shared pool of GPUs leaves this pool, in replicas."""

    minimum: int = 1
    maximum: int = 10
    step_up: int | None = None  # most replicas added in one decision; None is unbounded
    step_down: int | None = 1
    stabilise_up_s: float = 0.0
    stabilise_down_s: float = 300.0
    drains_at_once: int = 1
    drain_deadline_s: float = 60.0
    budget: int | None = None
    to_zero_after_s: float | None = None  # idle time before the last replica goes; needs minimum 0

    def problems(self, measurement_lag_s: float = 0.0) -> tuple[str, ...]:
        """What is impossible here, each a sentence that names the numbers; empty when all is well."""
        found: list[str] = []
        if self.minimum < 0:
            found.append(f"minimum {self.minimum} is below 0: set it to 0 or more")
        if self.minimum > self.maximum:
            found.append(f"minimum {self.minimum} is above maximum {self.maximum}: raise maximum or lower minimum")
        if self.budget is not None and self.budget < self.minimum:
            found.append(f"budget {self.budget} is below minimum {self.minimum}: raise budget or lower minimum")
        for name, step in (("step_up", self.step_up), ("step_down", self.step_down)):
            if step is not None and step < 1:
                found.append(f"{name} {step} can never move the pool: set it to 1 or more, or leave it out")
        if self.drains_at_once < 1:
            found.append(f"drains_at_once {self.drains_at_once} can never drain: set it to 1 or more")
        for name, seconds in (
            ("stabilise_up", self.stabilise_up_s),
            ("stabilise_down", self.stabilise_down_s),
            ("drain_deadline", self.drain_deadline_s),
            ("to_zero_after", self.to_zero_after_s or 0.0),
        ):
            if seconds < 0:
                found.append(f"{name} {seconds:g} s is negative: set it to 0 s or more")
        if 0 <= self.stabilise_down_s < measurement_lag_s:
            found.append(
                f"stabilise_down {self.stabilise_down_s:g} s is shorter than the measurement lag "
                f"{measurement_lag_s:g} s, which makes the pool swing: set it to {measurement_lag_s:g} s or more"
            )
        if self.to_zero_after_s is not None and self.minimum > 0:
            found.append(f"to_zero_after is set but minimum is {self.minimum}: set minimum to 0 or leave it out")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast: `quantiles[i][j]` is the demand at `leads[i]` seconds from now at probability `levels[j]`.

    Each is the mean over the `step_s` that end at its lead; 0 is demand at that very instant.
    """

    leads: tuple[float, ...]
    levels: tuple[float, ...]
    quantiles: tuple[tuple[float, ...], ...]
    unit: str  # requests/s, prompt tokens/s, output tokens/s
    model: str
    warnings: tuple[str, ...] = ()
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CapacityFacts:
    """What one replica serves inside the SLO, per second; `low` and `high` are shares around it (0.8, 1.2)."""

    request_rate: float | None = None
    prompt_rate: float | None = None  # tokens/s
    output_rate: float | None = None  # tokens/s
    low: float = 1.0
    high: float = 1.0
    source: str = "configured"  # configured, bench, learned
    samples: int = 0
    idle_ttft: float | None = None  # s, a lone request on an idle replica
    idle_tpot: float | None = None  # s
    prompt_share: float | None = None  # of a replica's time at this capacity that prompts take; answers take the rest


@dataclass(frozen=True, slots=True)
class StepProfile:
    """How long one engine step takes: base + per_token x tokens in the batch + per_context x tokens of context read."""

    base_s: float
    per_token_s: float
    per_context_s: float = 0.0
    kv_tokens: float | None = None
    max_running: int | None = None
    max_batch_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ScheduleWindow:
    """An operator's override of the bounds between two instants (Unix seconds)."""

    start: float
    end: float
    minimum: int | None = None
    maximum: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tier:
    """A faster way to supply than a plain start: sleeping replicas, nodes with the image pulled. Used first."""

    name: str
    lead_s: float  # p90 of asked-for to useful
    available: int  # how many more it can supply now
    cost: float | None = None  # per replica and hour, while it waits to be used


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the reactive law starts to want more. Per live replica; occupancy is a fraction."""

    queue: float = 8.0  # waiting requests a replica
    kv: float = 0.85
    preempt: float = 0.1  # preemptions a second
    calm: float = 0.7  # a shrink must leave the rest below this share of every threshold
    packed: float = 0.85  # ... and below this share of known capacity
    queue_hold_s: float = 0.0  # how long the queue must stay above before it counts
    quantile: float | None = None  # of demand, for the forecast floor; None is chosen by backtested cost
    burn: float = 2.0  # both windows above this multiple of even spending


@dataclass(frozen=True, slots=True)
class Situation:
    """One pool at one instant: all a policy may look at."""

    now: float
    pool: str
    model: str | None
    want: int  # replicas asked for now (what the world was last told)
    replicas: tuple[ReplicaFacts, ...]
    demand: Demand = Demand()
    slo: SloFacts = SloFacts()
    limits: Limits = Limits()
    lead_s: float = 120.0  # p90 of create-to-useful plus one interval
    lead_assumed: bool = True  # no start has been observed yet
    capacity: CapacityFacts | None = None
    outlooks: Mapping[str, Outlook] = field(default_factory=dict)  # by unit, or by "model:unit" where one is needed
    covered: bool = False  # fresh data from every live replica
    paused_until: float | None = None
    pinned_minimum: int | None = None
    frozen_reason: str | None = None  # something else forbids any change (another owner of the scale, no lease)
    thresholds: Thresholds = Thresholds()
    profile: StepProfile | None = None
    schedule: tuple[ScheduleWindow, ...] = ()
    interval_s: float = 15.0  # between decisions
    tiers: tuple[Tier, ...] = ()  # beside the plain start, whose lead is `lead_s`
    role: str | None = None  # prefill, decode, or None
    kind: str | None = None  # node or accelerator type, under which lead and capacity are learned
    future: tuple[tuple[float, float], ...] = ()  # (time, demand in capacity units): for clairvoyant baselines only
