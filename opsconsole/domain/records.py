"""The values that cross borders, which are also the wire format of the agent's API.

Every field is frozen; missing is `None`, never 0 or NaN; times are Unix seconds, durations seconds, occupancy a
fraction 0..1. The trap: a field added here must have a default, so that an old recording still reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReplicaState(StrEnum):
    """What a replica is, worst first in the order of `risk`. The value is the word shown to the user."""

    SATURATED = "SAT"
    DOWN = "DOWN"
    STALE = "STALE"
    HOT = "HOT"
    WARMING = "WARM"
    DRAINING = "DRAIN"
    OK = "OK"

    @property
    def risk(self) -> int:
        """0 is the most urgent."""
        return _RISK[self]


_RISK = {state: urgency for urgency, state in enumerate(ReplicaState)}


@dataclass(frozen=True, slots=True)
class Buckets:
    """A cumulative histogram as exposed: `bounds` ascending, ending in +Inf; `counts` cumulative, same length."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float | None = None

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0


@dataclass(frozen=True, slots=True)
class RankLoad:
    """One data-parallel rank of a replica, where the page tells several apart."""

    rank: str
    running: float | None = None
    waiting: float | None = None
    steps: float | None = None  # tokens and completions together: a counter that moves with the rank's own steps


@dataclass(frozen=True, slots=True)
class Sample:
    """One replica's metrics page, normalised. Counters are totals since the process started."""

    replica: str  # stable id, unique in its pool
    at: float  # when the page was read
    engine: str | None = None  # vllm, sglang, trtllm, triton, tgi, llamacpp, lmdeploy, nim, dynamo, opsconsole...
    engine_version: str | None = None
    model: str | None = None
    process_start: float | None = None  # restart detection
    waiting: float | None = None  # requests queued and not yet scheduled
    running: float | None = None  # requests in the batch
    swapped: float | None = None
    kv_usage: float | None = None  # fraction 0..1 (max over data-parallel ranks)
    kv_usage_mean: float | None = None
    kv_capacity_tokens: float | None = None
    max_running: float | None = None  # max_num_seqs where told
    preemptions: float | None = None  # counter
    prompt_tokens: float | None = None  # counter, includes cached
    prompt_tokens_computed: float | None = None  # counter, excludes cached
    output_tokens: float | None = None  # counter
    requests_started: float | None = None  # counter
    requests_finished: float | None = None  # counter, all reasons
    requests_failed: float | None = None  # counter: errors and aborts
    requests_rejected: float | None = None  # counter: refused by queue limits
    finished_by_reason: Mapping[str, float] | None = None
    prefix_hits: float | None = None  # counter, tokens
    prefix_queries: float | None = None  # counter, tokens
    prefix_hit_rate: float | None = None  # gauge, only where no counters are told
    spec_drafts: float | None = None  # counter
    spec_draft_tokens: float | None = None  # counter
    spec_accepted_tokens: float | None = None  # counter
    ttft: Buckets | None = None  # seconds
    tpot: Buckets | None = None  # seconds a token, per finished request
    itl: Buckets | None = None  # seconds, per engine output
    e2e: Buckets | None = None
    queue_time: Buckets | None = None
    prefill_time: Buckets | None = None
    decode_time: Buckets | None = None
    slo_outcomes: Mapping[str, float] | None = None  # "class/met", "class/missed": exact joint counters
    asleep: bool | None = None
    ready: bool | None = None
    draining: bool | None = None
    gpus: Mapping[str, float] | None = None  # shown, never scaled on
    flags: tuple[str, ...] = ()  # hazards seen, as named in the cases of the dialects
    unknown: tuple[tuple[str, str], ...] = ()  # (field, why it is unknown)
    ranks: tuple[RankLoad, ...] = ()  # only where there are two or more


@dataclass(frozen=True, slots=True)
class Interval:
    """A value known only as a range, `low <= x <= high`; exact when both are equal."""

    low: float
    high: float

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class LatencyView:
    """Quantiles of one latency over the window, seconds; `None` where nothing was observed in it."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    count: float | None = None
    lower_bound: bool = False  # the quantile fell in the top bucket: it is at least this


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica in one tick: the newest facts, rates over the window, and a state with its reason in words."""

    replica: str
    pool: str
    state: ReplicaState
    why: str
    url: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    node: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    started_at: float | None = None
    seen_at: float | None = None  # last good page
    age: float | None = None  # seconds since `seen_at`
    phase: str | None = None  # start-up phase while WARMING
    expected_ready_at: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    preempt_rate: float | None = None  # per second
    request_rate: float | None = None  # arrivals per second
    prompt_rate: float | None = None  # tokens/s
    output_rate: float | None = None  # tokens/s
    hit_rate: float | None = None  # fraction of prompt tokens found in cache, in the window
    ttft: LatencyView = LatencyView()
    tpot: LatencyView = LatencyView()
    itl: LatencyView = LatencyView()
    e2e: LatencyView = LatencyView()
    queue_time: LatencyView = LatencyView()
    attainment: Interval | None = None  # joint share of requests inside the SLO
    ttft_ok: Interval | None = None
    tpot_ok: Interval | None = None
    goodput: float | None = None  # requests/s that met the SLO (lower end where a bound)
    streams: int | None = None  # running streams, for a drain
    error: str | None = None  # the source error's sentence, if any
    flags: tuple[str, ...] = ()
    sample: Sample | None = None  # newest page, for the detail screen
    role: str | None = None  # prefill or decode, where one serves a part of every request


@dataclass(frozen=True, slots=True)
class SloView:
    """One SLO class in one pool over the window, with its budget."""

    name: str
    ttft: float | None = None  # bound, s
    tpot: float | None = None  # bound, s
    target: float = 0.95
    attainment: Interval | None = None
    ttft_ok: Interval | None = None
    tpot_ok: Interval | None = None
    burn_short: float | None = None  # multiples of the budget's even spending
    burn_long: float | None = None
    budget_left: float | None = None  # fraction
    exact: bool = False
    attainment_short: Interval | None = None  # over the short burn window
    attainment_long: Interval | None = None  # over the long one, which is also the budget's
    short_s: float = 300.0
    long_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class PoolView:
    """Totals of one pool: sums over live replicas, latencies from merged buckets, never averages of averages."""

    pool: str
    model: str | None = None
    want: int | None = None  # replicas asked for
    ready: int = 0
    warming: int = 0
    draining: int = 0
    down: int = 0
    stale: int = 0
    minimum: int | None = None
    maximum: int | None = None
    waiting: float | None = None  # in the replicas
    running: float | None = None
    kv_usage: float | None = None
    preempt_rate: float | None = None
    request_rate: float | None = None
    prompt_rate: float | None = None
    output_rate: float | None = None
    hit_rate: float | None = None
    ttft: LatencyView = LatencyView()
    tpot: LatencyView = LatencyView()
    e2e: LatencyView = LatencyView()
    queue_time: LatencyView = LatencyView()
    slos: tuple[SloView, ...] = ()
    goodput: float | None = None
    gpus: int | None = None
    price_per_hour: float | None = None
    covered: bool = False  # every live replica answered in this tick
    gateway_waiting: float | None = None  # in front of the pool, because no replica can take them
    ttft_buckets: Buckets | None = None  # of the window, merged over replicas: one column of a heat map
    start_s: Mapping[str, float] = field(default_factory=dict)  # replica-seconds by start-up phase, at most a day's
    start_since: float | None = None  # since when those are counted
    role: str | None = None  # as the configuration says


@dataclass(frozen=True, slots=True)
class BudgetView:
    """An objective over weeks: what was asked and met in the minutes that are kept, at most 30 days of them."""

    pool: str
    slo: str
    target: float
    since: float  # the oldest minute counted, Unix s
    until: float
    minutes: int  # with requests and a known share
    offered: float  # requests
    met: Interval  # share of them
    left: Interval | None = None  # of the budget of this span, as a fraction; below 0 where more was spent


@dataclass(frozen=True, slots=True)
class SourceView:
    """One source of facts and whether it can be trusted now."""

    name: str
    kind: str
    ok: bool
    age: float | None = None
    error: str | None = None
    error_kind: str | None = None
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Everything known at one tick. Immutable; what screens, policies and the journal read."""

    tick: int
    at: float
    fleet: str
    mode: str  # off | advise | act
    replicas: tuple[ReplicaView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    sources: tuple[SourceView, ...] = ()
    can_act: bool = False  # confirmed intents are let through
    interval: float = 1.0  # s between ticks
    notes: tuple[str, ...] = ()  # clearly shown: demo, replay, paused until ...

    def pool(self, name: str) -> PoolView | None:
        return next((p for p in self.pools if p.pool == name), None)

    def replica(self, name: str) -> ReplicaView | None:
        return next((r for r in self.replicas if r.replica == name), None)


class PlanKind(StrEnum):
    """What a plan does to the world."""

    SCALE = "scale"
    DRAIN = "drain"
    UNDRAIN = "undrain"


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done, and why; validated against the world again just before it is applied.

    `version` is the actuator's own token of the world it was made for (a resource version, a generation): a plan whose
    version no longer matches is refused.
    """

    plan_id: str
    kind: PlanKind
    pool: str
    from_count: int | None = None
    to_count: int | None = None
    replicas: tuple[str, ...] = ()  # the ones to drain or undrain
    reason: str = ""
    version: str = ""
    made_at: float = 0.0
    streams_at_risk: int | None = None
    deadline: float | None = None  # seconds a drain may wait
    effect: str = ""  # predicted effect, in words
    dry_run: bool = True
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan."""

    plan_id: str
    status: str  # applied | refused | failed | running | done
    at: float
    detail: str = ""
    streams_cut: int = 0
    by: str = "auto"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """One rule's own account of itself; the text is all that is ever shown of it."""

    rule: str
    inputs: str
    wants: int | None
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class CapacityView:
    """What one replica serves inside the SLO, per second; `low` and `high` are shares around it (0.8, 1.2)."""

    request_rate: float | None = None
    prompt_rate: float | None = None  # tokens/s
    output_rate: float | None = None  # tokens/s
    low: float = 1.0
    high: float = 1.0
    source: str = "configured"  # configured, bench, learned
    samples: int = 0
    prompt_share: float | None = None  # of a replica's time that prompts take; the loads of both then add up


@dataclass(frozen=True, slots=True)
class SupplyPoint:
    """From `at` on, so many replicas serve (those that start now counted from when they are expected to be useful)."""

    at: float
    replicas: int


@dataclass(frozen=True, slots=True)
class RegretView:
    """What a decision should have been against what came, known once its lead has passed."""

    pool: str
    decided_at: float
    due_at: float  # decided_at + lead: the instant it decided for
    lead: float  # s
    target: int  # replicas decided
    needed: int  # replicas that what came would have filled, inside the pool's bounds
    worth: float  # the same before rounding up
    peak: float  # highest demand from due_at on for one interval, in `unit`
    unit: str
    text: str = ""

    @property
    def short(self) -> int:
        """Replicas too few; negative is too many."""
        return self.needed - self.target


@dataclass(frozen=True, slots=True)
class RegretTally:
    """The decisions of the last hour that came due: how often they were right, and what the others cost."""

    decisions: int  # each counted for the time it stood
    right: float  # share of the time that target equalled need
    short: float  # mean replicas too few
    idle: float  # mean replicas too many
    since: float  # Unix s of the oldest counted


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A decision as shown: from, to, the rule that bound, and the trace."""

    at: float
    pool: str
    current: int
    target: int
    binding: str
    reason: str
    trace: tuple[RuleTrace, ...] = ()
    drain: tuple[str, ...] = ()  # replicas chosen to go
    counterfactual: Mapping[str, int] = field(default_factory=dict)
    held: bool = False  # unknowns kept the target where it was
    capacity: CapacityView | None = None  # as the law knew it
    lead: float | None = None  # s: p90 of created-to-useful plus one interval
    lead_assumed: bool = True  # no start has been seen yet
    supply: tuple[SupplyPoint, ...] = ()  # now, and at every instant a starting replica is expected
    regret: RegretView | None = None  # once known: in `decisions?at=`, and on entries of kind "regret"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of the journal: a decision, an act, an event of a replica, or a person's word."""

    seq: int
    at: float
    kind: str  # decision | plan | outcome | regret | replica | mode | note | alert | error
    pool: str
    text: str
    tick: int | None = None
    who: str = "auto"
    decision: DecisionView | None = None
    plan: Plan | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class LeadRecord:
    """How forecasts at one lead have gone on this pool's own history, the last day weighing most."""

    lead: float  # s
    scored: int  # forecasts whose target has come
    skill: float | None = None  # 1 - error / error of last value: above 0 earns its place
    coverage: tuple[float, ...] = ()  # by level of the forecast: share of targets at or under the quantile


@dataclass(frozen=True, slots=True)
class LeadNeed:
    """What would be held if supply came after this lead: replicas' worth of the level bought, on average."""

    lead: float  # s
    replicas: float


@dataclass(frozen=True, slots=True)
class ForecastView:
    """Quantiles of one demand series at each lead, as last made. `quantiles[i][j]` is lead i, level j."""

    pool: str
    unit: str  # requests/s | prompt tokens/s | output tokens/s
    made_at: float
    leads: tuple[float, ...] = ()  # s
    levels: tuple[float, ...] = ()
    quantiles: tuple[tuple[float, ...], ...] = ()
    model: str = ""
    warnings: tuple[str, ...] = ()
    step: float | None = None  # s: each quantile is of the mean rate over a step that ends at its lead
    bought: float | None = None  # the level the pool's floor buys for (0.9)
    demoted: bool = False  # it loses to last value and answers with that
    weights: Mapping[str, float] = field(default_factory=dict)  # of the members, those of 1 % and more
    events: tuple[str, ...] = ()  # scheduled bursts, in words
    record: tuple[LeadRecord, ...] = ()  # by lead; empty until targets have come
    regret: RegretTally | None = None  # of the pool's decisions, the same on each of its units
    needs: tuple[LeadNeed, ...] = ()  # of the pool, by lead up to its own, over at most a day


@dataclass(frozen=True, slots=True)
class TickRecord:
    """What the journal keeps of a tick: the snapshot, what was decided, what was planned and what came of it."""

    snapshot: FleetSnapshot
    decisions: tuple[DecisionView, ...] = ()
    plans: tuple[Plan, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    forecasts: tuple[ForecastView, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertView:
    """One alert: what, where, since when, and whether somebody silenced it."""

    rule: str
    subject: str  # a pool, a replica or a source
    state: str  # pending | firing | silenced
    since: float
    text: str
    severity: str = "warning"  # info | warning | critical
    silenced_until: float | None = None
    silenced_by: str | None = None


@dataclass(frozen=True, slots=True)
class PrefixView:
    """A prompt prefix that many requests share, as a router sees it: an id, never its text."""

    prefix: str  # a hash
    tokens: float  # about how long
    requests: int  # that began with it since it was first seen
    forks: int  # different continuations
    holders: tuple[str, ...]  # replicas believed to have it cached
    last_at: float


@dataclass(frozen=True, slots=True)
class HoldView:
    """A person's standing order: automatic changes paused, or a minimum pinned, until a time."""

    kind: str  # pause | pin
    pool: str  # "" is every pool
    by: str
    at: float
    until: float | None = None
    minimum: int | None = None
    note: str = ""
