"""Where a request goes: the least in-flight tokens, less what the worker's prefix cache saves, within bounded load.

It must not know HTTP or prompts: it sees hashes of prefix chunks, an estimate of tokens, and what this router itself
has in flight. The traps: load is tokens and never requests (one long context fills a worker); affinity without a bound
pins a shared system prompt to one worker; a bound over unhealthy workers makes the rest look overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from policies.routing_memory import Match, RoutingMemory
from policies.wording import number, percent

__all__ = ["Placement", "RouteRequest", "RoutingMemory", "WorkerFacts", "place"]


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """One request: chained hashes of its prefix chunks (salted by the caller) and its estimated tokens."""

    prefix_hashes: tuple[int, ...] = ()
    tokens: float = 1.0
    slo_class: str = "default"
    key: str = ""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker as this router knows it. `age` is that of its last health reading, seconds."""

    name: str
    healthy: bool = True
    draining: bool = False
    inflight_tokens: float = 0.0
    inflight_requests: int = 0
    started_at: float | None = None
    age: float | None = None
    capacity_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Knobs of the rule. `slack` bounds affinity: a worker may be that much busier than the least busy one."""

    slack: float = 0.25  # of the mean load
    slack_requests: float = 2.0  # ... or this many requests like the one at hand, whichever is more
    slow_start_s: float = 30.0
    slow_start_floor: float = 0.2  # weight of a worker in its first second
    stale_after_s: float = 10.0
    shared_credit: float = 0.25  # of a prefix that many requests share: copying it is paid once and pays often


@dataclass(frozen=True, slots=True)
class Placement:
    """The worker, why, and every candidate's score (in-flight plus uncached tokens over weight; least wins)."""

    worker: str | None
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)
    matched_tokens: float = 0.0


class _Candidate(NamedTuple):
    facts: WorkerFacts
    weight: float
    load: float
    matched: float  # tokens
    credit: float  # tokens of the match that count for affinity


DEFAULTS = RoutingOptions()
NO_MATCH = Match(0, 0)


def place(
    request: RouteRequest,
    workers: Sequence[WorkerFacts],
    memory: RoutingMemory,
    draw: float,
    now: float,
    options: RoutingOptions = DEFAULTS,
) -> tuple[Placement, RoutingMemory]:
    """Choose, and remember the choice on every branch; `draw` in [0, 1) breaks ties. Memory is changed in place."""
    for worker in workers:
        memory.meet(worker.name, worker.started_at)
    eligible, stale = _eligible(workers, options)
    if not eligible:
        return Placement(None, _nobody(workers)), memory
    matches = memory.matches(request.prefix_hashes, {w.name for w in eligible}, now) if request.prefix_hashes else {}
    each = request.tokens / max(1, len(request.prefix_hashes))
    candidates = []
    for facts in eligible:
        weight = _weight(facts, now, options)
        match = matches.get(facts.name, NO_MATCH)
        credit = each * (match.chunks - match.shared + options.shared_credit * match.shared)
        candidates.append(_Candidate(facts, weight, facts.inflight_tokens / weight, each * match.chunks, credit))
    allowed = _bounded(request, candidates, options)
    scores = {c.facts.name: c.load + (request.tokens - c.credit) / c.facts.capacity_weight for c in candidates}
    limit = min([scores[c.facts.name] for c in allowed]) * (1 + 1e-9)
    tied = sorted((c for c in allowed if scores[c.facts.name] <= limit), key=lambda c: c.facts.name)
    chosen = tied[min(len(tied) - 1, int(draw * len(tied)))]
    memory.remember(request.prefix_hashes, chosen.facts.name, now)
    reason = _reason(request, chosen, candidates, len(allowed), stale)
    return Placement(chosen.facts.name, reason, scores, chosen.matched), memory


def _eligible(workers: Sequence[WorkerFacts], options: RoutingOptions) -> tuple[list[WorkerFacts], bool]:
    """Healthy and not draining; among those the fresh ones, or all of them when none is fresh."""
    able = [w for w in workers if w.healthy and not w.draining and w.capacity_weight > 0]
    fresh = [w for w in able if w.age is None or w.age <= options.stale_after_s]
    return (fresh, False) if fresh else (able, bool(able))


def _weight(facts: WorkerFacts, now: float, options: RoutingOptions) -> float:
    """Capacity, ramped up over the slow start: a cold worker warms its caches without being stampeded."""
    if facts.started_at is None or options.slow_start_s <= 0:
        return facts.capacity_weight
    ramp = (now - facts.started_at) / options.slow_start_s
    return facts.capacity_weight if ramp >= 1.0 else facts.capacity_weight * max(options.slow_start_floor, ramp)


def _bounded(request: RouteRequest, candidates: Sequence[_Candidate], options: RoutingOptions) -> list[_Candidate]:
    """Those no busier than the least busy one by more than the slack."""
    least = min([c.load for c in candidates])
    mean = sum([c.facts.inflight_tokens for c in candidates]) / sum([c.weight for c in candidates])
    slack = max(options.slack * mean, options.slack_requests * request.tokens)
    return [c for c in candidates if c.load <= least + slack]


def _nobody(workers: Sequence[WorkerFacts]) -> str:
    if not workers:
        return "no worker is known"
    draining = sum(1 for w in workers if w.draining)
    down = sum(1 for w in workers if not w.healthy and not w.draining)
    return f"no worker takes requests: {draining} draining, {down} unhealthy of {len(workers)}"


def _reason(
    request: RouteRequest, chosen: _Candidate, candidates: Sequence[_Candidate], allowed: int, stale: bool
) -> str:
    words = f"{number(chosen.facts.inflight_tokens)} tokens in flight"
    if chosen.matched > 0:
        words = f"{percent(chosen.matched / request.tokens)} of the prompt cached, {words}"
    elif request.prefix_hashes:
        words = f"no prefix cached in reach, {words}"
    if allowed < len(candidates):
        words += f", {len(candidates) - allowed} busier workers out of reach"
    return f"{words}; all readings stale, own in-flight counts only" if stale else words
