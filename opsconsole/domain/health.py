"""What a replica is, and why, in one sentence a person can act on.

It must not know how a replica is reached. The traps: stale is neither zero nor down; a high KV occupancy alone is not
saturation (engines count reusable blocks differently), a queue in front of it is; and gauges freeze, so load that is
shown while no counter moves is neither load nor idleness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opsconsole.domain.ranks import Standing, stalled
from opsconsole.domain.records import ReplicaState, Sample
from opsconsole.errors import SourceError, SourceErrorKind

# engines that need more patience: older SGLang publishes idle gauges only this often, a prompt on a CPU takes long
FROZEN_AFTER_S = {"sglang": 30.0, "opsconsole": 60.0}


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Where a state begins. Occupancy is a fraction, times are seconds."""

    hot_queue: float = 4.0
    hot_kv: float = 0.80
    full_kv: float = 0.90
    deep_queue: float = 16.0
    preempt: float = 0.1  # a second
    stale_after_s: float = 15.0
    down_after_s: float = 60.0
    frozen_after_s: float = 15.0  # counters still while gauges show load
    start_grace_s: float = 600.0  # a replica that never answered may still be starting


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one replica when its state is judged."""

    at: float
    sample: Sample | None  # newest good page
    error: SourceError | None = None  # this tick's failure
    ready: bool | None = None
    draining: bool | None = None
    phase: str | None = None
    expected_ready_at: float | None = None
    waits_for: str | None = None  # what keeps it from starting
    started_at: float | None = None
    preempt_rate: float | None = None
    still_since: float | None = None  # since when no counter moved while a load gauge is above zero
    still_pages: int = 0
    streams: int | None = None
    conflict: str | None = None  # why its counters cannot be believed at all
    ranks: Mapping[str, Standing] = field(default_factory=dict)  # of several data-parallel ranks

    @property
    def age(self) -> float | None:
        return None if self.sample is None else max(0.0, self.at - self.sample.at)


Judgement = tuple[ReplicaState, str]


def judge(facts: Facts, limits: HealthLimits | None = None) -> Judgement:
    """State and reason; the first rule that applies decides, so their order is the meaning."""
    bounds = limits or HealthLimits()
    for rule in (_gone, _draining, _starting, _silent, _unbelievable, _loaded):
        found = rule(facts, bounds)
        if found is not None:
            return found
    return ReplicaState.OK, _load_words(facts)


def _gone(facts: Facts, _: HealthLimits) -> Judgement | None:
    if facts.error is not None and facts.error.kind is SourceErrorKind.GONE:
        return ReplicaState.DOWN, f"gone: {facts.error.detail}"
    return None


def _draining(facts: Facts, bounds: HealthLimits) -> Judgement | None:
    if not (facts.draining or (facts.sample is not None and facts.sample.draining)):
        return None
    if facts.age is None and facts.error is None:  # nothing could be asked yet: a pod without a node
        return ReplicaState.DRAINING, f"draining: it never served{_waits_for(facts)}"
    silent = _silent(facts, bounds)
    if silent is not None and silent[0] is ReplicaState.DOWN:
        return silent
    if facts.streams is None:
        return ReplicaState.DRAINING, "draining: streams left unknown"
    return ReplicaState.DRAINING, f"draining: {facts.streams} {'stream' if facts.streams == 1 else 'streams'} left"


def _starting(facts: Facts, bounds: HealthLimits) -> Judgement | None:
    if facts.sample is not None and facts.sample.asleep:
        return ReplicaState.WARMING, "asleep: weights are not on the device"
    named = facts.phase is not None and facts.phase not in ("ready", "serving")
    never_ready = facts.sample is None or facts.sample.ready is False
    young = facts.started_at is not None and facts.at - facts.started_at < bounds.start_grace_s
    if facts.ready is not False and not named and not (never_ready and young and facts.ready is None):
        return None
    if facts.ready is True:
        return None
    if facts.ready is False and not named and not young and facts.error is not None:
        return None  # long past its start and not answering: the rules about silence speak
    words = facts.phase or "starting"
    if facts.started_at is not None:
        words += f" for {facts.at - facts.started_at:.0f} s"
    if facts.expected_ready_at is not None:
        left = facts.expected_ready_at - facts.at
        words += f", ready in about {left:.0f} s" if left >= 0 else f", {-left:.0f} s later than expected"
    return ReplicaState.WARMING, words + _waits_for(facts)


def _waits_for(facts: Facts) -> str:
    return f": {facts.waits_for}" if facts.waits_for else ""


def _silent(facts: Facts, bounds: HealthLimits) -> Judgement | None:
    why = "no answer" if facts.error is None else f"{facts.error.kind}: {facts.error.detail}"
    if facts.age is None:
        return ReplicaState.DOWN, f"never answered: {why}"
    if facts.age <= bounds.stale_after_s:
        return None
    refused = facts.error is not None and facts.error.kind is SourceErrorKind.REFUSED
    if refused or facts.age > bounds.down_after_s:
        return ReplicaState.DOWN, f"no good page for {facts.age:.0f} s ({why})"
    return ReplicaState.STALE, f"no good page for {facts.age:.0f} s ({why})"


def _unbelievable(facts: Facts, bounds: HealthLimits) -> Judgement | None:
    if facts.conflict is not None:
        return ReplicaState.STALE, facts.conflict
    sample = facts.sample
    if sample is None:
        return None
    wait = FROZEN_AFTER_S.get(sample.engine or "", bounds.frozen_after_s)
    if facts.still_since is not None and facts.still_pages >= 2 and (still := facts.at - facts.still_since) >= wait:
        return ReplicaState.STALE, f"gauges stand still: {_gauges(sample)} but no counter moved for {still:.0f} s"
    hanging = stalled(facts.ranks, sample.at, wait)
    return (ReplicaState.STALE, _hanging_words(hanging)) if hanging else None


def _loaded(facts: Facts, bounds: HealthLimits) -> Judgement | None:
    sample = facts.sample
    if sample is None:
        return None
    waiting, kv = sample.waiting, sample.kv_usage
    if facts.preempt_rate is not None and facts.preempt_rate >= bounds.preempt:
        return ReplicaState.SATURATED, f"preempting {facts.preempt_rate:.2g}/s; {_load_words(facts)}"
    if waiting is not None and waiting > 0 and kv is not None and kv >= bounds.full_kv:
        return ReplicaState.SATURATED, f"queue {waiting:g} behind KV {kv:.0%}"
    if waiting is not None and waiting >= bounds.deep_queue:
        return ReplicaState.SATURATED, f"queue {waiting:g} >= {bounds.deep_queue:g}"
    if waiting is not None and waiting >= bounds.hot_queue:
        return ReplicaState.HOT, f"queue {waiting:g} >= {bounds.hot_queue:g}"
    if kv is not None and kv >= bounds.hot_kv:
        return ReplicaState.HOT, f"KV {kv:.0%} >= {bounds.hot_kv:.0%}"
    return None


def _hanging_words(ranks: Mapping[str, float]) -> str:
    who = f"rank {next(iter(ranks))} stands" if len(ranks) == 1 else f"ranks {', '.join(ranks)} stand"
    return f"{who} still with load for {min(ranks.values()):.0f} s while others move"


def _gauges(sample: Sample) -> str:
    parts = []
    if sample.running:
        parts.append(f"{sample.running:g} running")
    if sample.waiting:
        parts.append(f"{sample.waiting:g} waiting")
    return ", ".join(parts) or "load shown"


def _load_words(facts: Facts) -> str:
    sample = facts.sample
    if sample is None:
        return "no page yet"
    running = "unknown" if sample.running is None else f"{sample.running:g}"
    waiting = "unknown" if sample.waiting is None else f"{sample.waiting:g}"
    kv = "unknown" if sample.kv_usage is None else f"{sample.kv_usage:.0%}"
    return f"{running} running, queue {waiting}, KV {kv}"
