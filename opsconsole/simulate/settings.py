"""What a simulated fleet is made of: arrivals, a replica, its start, the bounds, the law that scales it.

Frozen values only; nothing here runs. Times are seconds on the simulation's own clock, which starts at 0. The trap:
`tick_s` is how often the law is asked and `scrape_s` how often anybody looks at the replicas; a law asked more often
than the fleet is read decides on the same stale numbers again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from opsconsole.errors import ConfigError
from opsconsole.simulate.steptime import A100_8B, KV_BYTES_PER_TOKEN, StepCurve
from policies.decision import Policy
from policies.registry import policy
from policies.situation import CapacityFacts, Demand, Limits, Outlook, StepProfile, Thresholds

Router = Literal["place", "round-robin", "random"]


def _at_least(what: str, value: float, least: float, unit: str = "") -> None:
    if not value >= least:
        raise ConfigError(f"{what} is {value:g}{' ' + unit if unit else ''}: set it to {least:g} or more")


def _above(what: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{what} is {value:g} s: set it above 0 s")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request. `blocks` are ids of its prompt's prefix blocks, `ReplicaModel.hash_tokens` tokens each."""

    at: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    slo_class: str = "default"


@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """One replica: how fast it steps and what it holds."""

    name: str
    step: StepCurve
    kv_blocks: int
    block_size: int = 16
    chunk: int = 512  # token budget of a step
    max_seqs: int = 128
    prefix_cache: bool = True
    hash_tokens: int = 512  # tokens of one id in `Arrival.blocks`; a multiple of block_size
    watermark: float = 0.0  # share of the blocks that admission leaves free
    max_queued: int = 0  # requests waiting at a replica beyond which it refuses (503); 0 = never

    def __post_init__(self) -> None:
        for name in ("kv_blocks", "block_size", "chunk", "max_seqs", "hash_tokens"):
            _at_least(f"replica {name}", getattr(self, name), 1)
        if self.hash_tokens % self.block_size:
            raise ConfigError(
                f"hash_tokens {self.hash_tokens} is no multiple of block_size {self.block_size}: make it one"
            )
        if self.max_seqs > self.chunk:
            raise ConfigError(f"max_seqs {self.max_seqs} is above the step's budget of {self.chunk} tokens: lower it")

    @property
    def kv_tokens(self) -> int:
        return self.kv_blocks * self.block_size

    @property
    def profile(self) -> StepProfile:
        """The same replica as laws see it that plan by a profile: a line through the curve's working range."""
        low, high = self.step.batch_s(1), self.step.batch_s(self.chunk)
        slope = (high - low) / (self.chunk - 1) if self.chunk > 1 else 0.0
        return StepProfile(
            base_s=low,
            per_token_s=slope + self.step.per_prefill_s,
            per_context_s=self.step.per_context_s,
            kv_tokens=float(self.kv_tokens),
            max_running=self.max_seqs,
            max_batch_tokens=self.chunk,
        )


KV_BYTES = 72e9 - 16.06e9  # of 80 GB: 72 usable, less the 16-bit weights of 8.03 billion parameters
DEFAULT_REPLICA = ReplicaModel(
    "a100-8b", A100_8B, kv_blocks=int(KV_BYTES / KV_BYTES_PER_TOKEN / 16), block_size=16, chunk=512, max_seqs=128
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a start."""

    name: str
    seconds: float
    spread: float = 0.0  # sigma of a lognormal factor around the seconds; 0 = always the same

    def __post_init__(self) -> None:
        _at_least(f"cold-start phase {self.name}", self.seconds, 0.0, "s")
        _at_least(f"spread of the cold-start phase {self.name}", self.spread, 0.0)


SHARES = (("schedule", 0.05), ("pull", 0.30), ("load", 0.35), ("compile", 0.20), ("warm", 0.10))


@dataclass(frozen=True, slots=True)
class ColdStart:
    """From asked-for to useful. A replica costs from the first second and serves after the last."""

    phases: tuple[Phase, ...]

    @classmethod
    def of(cls, seconds: float, spread: float = 0.0) -> ColdStart:
        """A start of this length, split into phases by usual shares."""
        _at_least("cold start", seconds, 0.0, "s")
        return cls(tuple(Phase(name, share * seconds, spread) for name, share in SHARES))

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)


@dataclass(frozen=True, slots=True)
class SloBounds:
    """What a request must meet to count: seconds, and the share of requests that should."""

    ttft: float = 1.0
    tpot: float = 0.05
    target: float = 0.99

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"SLO {name} is {getattr(self, name):g} s: set it above 0 s")
        if not 0.0 < self.target < 1.0:
            raise ConfigError(f"SLO target is {self.target:g}: it is a share of requests, above 0 and below 1")

    def met(self, ttft: float, tpot: float | None) -> bool:
        """Joint; a TPOT that is undefined (one token) cannot miss."""
        return ttft <= self.ttft and (tpot is None or tpot <= self.tpot)


@dataclass(frozen=True, slots=True)
class Failures:
    """Ready replicas that die: at given times, and by chance with this mean time between failures of one replica."""

    at: tuple[float, ...] = ()
    mean_between_s: float | None = None

    def __post_init__(self) -> None:
        if any(at < 0 for at in self.at):
            raise ConfigError(f"failure at {min(self.at):g} s is before the start: times count from 0 s")
        if self.mean_between_s is not None and self.mean_between_s <= 0:
            raise ConfigError(f"mean time between failures is {self.mean_between_s:g} s: set it above 0 s")


# Asked at every decision, with the demand seen since the one before; returns forecasts by unit ("requests/s") or
# "model:unit". It may remember what it was told, and must not look at the trace.
OutlookProvider = Callable[[float, Demand], Mapping[str, Outlook]]


@dataclass(frozen=True, slots=True)
class PolicyHandle:
    """A live law with what it is given beside the situation."""

    law: Policy
    outlooks: OutlookProvider | None = None
    future: tuple[tuple[float, float], ...] = ()  # (time, replicas' worth): for the oracles only
    thresholds: Thresholds = field(default_factory=Thresholds)
    capacity: CapacityFacts | None = None  # what one replica serves inside the SLO, where it is known beforehand

    @classmethod
    def named(cls, name: str, **knobs: float) -> PolicyHandle:
        return cls(policy(name, **knobs))


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Everything but the load and the law."""

    replica: ReplicaModel = DEFAULT_REPLICA
    cold_start: ColdStart = field(default_factory=lambda: ColdStart.of(120.0))
    limits: Limits = field(default_factory=lambda: Limits(minimum=1, maximum=1000, step_down=None, drains_at_once=1000))
    slo: SloBounds = SloBounds()
    tick_s: float | None = None  # how often the law is asked; None = its own period
    scrape_s: float = 15.0
    router: Router = "place"
    initial: int = 1  # replicas that are ready at time 0
    lead_s: float | None = None  # the lead that laws are told; None = cold start + one tick
    failures: Failures = Failures()
    warm_up_s: float = 0.0  # arrivals before this are simulated and not scored; hours before it are not counted
    until_s: float | None = None  # where the load ends, and with it the books; None = the last arrival
    patience_s: float = 600.0  # requests still open this long after the end have failed
    rows: bool = False  # keep one row per request
    seed: int = 1

    def __post_init__(self) -> None:
        if self.tick_s is not None:
            _above("tick", self.tick_s)
        _above("scrape interval", self.scrape_s)
        _at_least("initial replicas", self.initial, 0)
        _at_least("warm-up", self.warm_up_s, 0.0, "s")
        _at_least("patience", self.patience_s, 0.0, "s")
        if self.until_s is not None:
            _at_least("end of the load", self.until_s, self.warm_up_s, "s")
        if self.lead_s is not None:
            _at_least("lead", self.lead_s, 0.0, "s")
        problems = self.limits.problems(self.scrape_s)
        if problems:
            raise ConfigError("; ".join(problems))
        if not self.limits.minimum <= self.initial <= self.limits.maximum:
            raise ConfigError(
                f"initial {self.initial} replicas are outside the limits {self.limits.minimum} to "
                f"{self.limits.maximum}: start inside them"
            )
