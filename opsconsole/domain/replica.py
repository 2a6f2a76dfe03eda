"""One replica: who it is, what was read of it in this tick, and the view made of that and of its recent past.

It must not know how the page was fetched or parsed. The trap: `ready` and `draining` are three-valued; a source that
cannot tell leaves them None, which is neither ready nor not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opsconsole.domain import slo
from opsconsole.domain.health import Facts, HealthLimits, judge
from opsconsole.domain.histogram import latency, share_under
from opsconsole.domain.ledger import observed, tally
from opsconsole.domain.records import Buckets, Interval, ReplicaState, ReplicaView, Sample
from opsconsole.domain.track import HISTOGRAMS, Track
from opsconsole.errors import SourceError


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    """Who a replica is. `name` is stable and unique in its pool."""

    name: str
    pool: str
    url: str | None = None
    node: str | None = None
    gpu: str | None = None  # kind of accelerator
    gpus: int | None = None  # how many
    started_at: float | None = None  # Unix seconds, creation
    role: str | None = None  # prefill, decode


@dataclass(frozen=True, slots=True)
class Observation:
    """What one source says of one replica in one tick. No sample and an error means: asked, and no good answer."""

    replica: ReplicaRef
    sample: Sample | None = None
    error: SourceError | None = None
    ready: bool | None = None
    draining: bool | None = None
    phase: str | None = None  # start-up phase: pending, pull, load, compile, warm
    expected_ready_at: float | None = None
    waits_for: str | None = None  # what keeps it from starting: the scheduler's sentence, a container's reason


@dataclass(frozen=True, slots=True)
class SloSpec:
    """A named SLO class: bounds in seconds and the share of requests that should meet them all."""

    name: str
    ttft: float | None = None
    tpot: float | None = None
    target: float = 0.95


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """Windows and limits of the fold, seconds."""

    window_s: float = 60.0  # rates, latencies, attainment
    short_s: float = 300.0  # burn, short window
    long_s: float = 3600.0  # burn, long window, and the budget
    stale_after_s: float = 15.0
    forget_after_s: float = 300.0  # a replica that a failing source cannot list is kept this long
    health: HealthLimits = field(default_factory=HealthLimits)


def replica_view(
    observation: Observation, track: Track, at: float, options: FoldOptions, slos: Sequence[SloSpec],
    role: str | None = None,
) -> ReplicaView:  # fmt: skip
    """Facts, rates and state. Rates and latencies are unknown once the newest page is stale; `role` is the pool's."""
    ref, sample = observation.replica, track.sample
    since = at - options.window_s
    age = None if sample is None else max(0.0, at - sample.at)
    fresh = age is not None and age <= options.stale_after_s
    state, why = _state(observation, track, at, options, since)
    warming = state is ReplicaState.WARMING
    now = sample if fresh else None
    told = sample or _NOTHING
    rates = _rates(track, since, slos) if fresh and track.conflict is None else {}
    return ReplicaView(
        replica=ref.name,
        pool=ref.pool,
        state=state,
        why=why,
        url=ref.url,
        engine=told.engine,
        engine_version=told.engine_version,
        model=told.model,
        node=ref.node,
        gpu=ref.gpu,
        gpus=ref.gpus,
        started_at=ref.started_at,
        seen_at=None if sample is None else sample.at,
        age=age,
        phase=(observation.phase or "starting") if warming else None,
        expected_ready_at=observation.expected_ready_at if warming else None,
        waiting=None if now is None else now.waiting,
        running=None if now is None else now.running,
        kv_usage=None if now is None else now.kv_usage,
        streams=_streams(now),
        error=None if observation.error is None else f"{observation.error.kind}: {observation.error.detail}",
        flags=told.flags,
        sample=sample,
        role=ref.role or role,
        **rates,
    )


_NOTHING = Sample("", 0.0)


def _rates(track: Track, since: float, slos: Sequence[SloSpec]) -> dict[str, Any]:
    """What the window says, by the view's names for it."""
    windows = {name: track.window(name, since) for name in HISTOGRAMS}
    served = _attained(track, slos, since)
    return {
        "preempt_rate": track.rate("preemptions", since),
        "request_rate": track.arrivals(since),
        "prompt_rate": track.rate("prompt_tokens", since),
        "output_rate": track.rate("output_tokens", since),
        "hit_rate": hit_rate([track], since),
        "attainment": None if served is None else served[0].attainment,
        "ttft_ok": _share(windows["ttft"], slos[0].ttft if slos else None),
        "tpot_ok": _share(windows["tpot"], slos[0].tpot if slos else None),
        "goodput": None if served is None else slo.goodput(*served),
        **{name: latency(window) for name, window in windows.items()},
    }


def hit_rate(tracks: Sequence[Track], since: float) -> float | None:
    """Prompt tokens found in cache over prompt tokens asked for; the engines' own gauge only where nothing counts."""
    for part, whole in (("prefix_hits", "prefix_queries"), ("prompt_tokens_computed", "prompt_tokens")):
        parts = [(t.amount(part, since), t.amount(whole, since)) for t in tracks]
        known = [(a[0], b[0]) for a, b in parts if a is not None and b is not None]
        asked = sum(b for _, b in known)
        if asked > 0:
            share = min(1.0, max(0.0, sum(a for a, _ in known) / asked))
            return share if part == "prefix_hits" else 1.0 - share
    gauges = [t.sample.prefix_hit_rate for t in tracks if t.sample is not None and t.sample.prefix_hit_rate is not None]
    return gauges[0] if len(gauges) == 1 else None


def _state(
    observation: Observation, track: Track, at: float, options: FoldOptions, since: float
) -> tuple[ReplicaState, str]:
    sample = track.sample
    facts = Facts(
        at=at,
        sample=sample,
        error=observation.error,
        ready=observation.ready,
        draining=observation.draining,
        phase=observation.phase,
        expected_ready_at=observation.expected_ready_at,
        waits_for=observation.waits_for,
        started_at=observation.replica.started_at,
        preempt_rate=track.rate("preemptions", since),
        still_since=track.still_since,
        still_pages=track.still_pages,
        streams=_streams(sample),
        conflict=track.conflict,
        ranks=track.ranks,
    )
    return judge(facts, options.health)


def _attained(track: Track, slos: Sequence[SloSpec], since: float) -> tuple[slo.Tally, float] | None:
    """All classes of one replica together, and the seconds the marks span."""
    spanned = track.spanned(since)
    if not spanned or not slos:
        return None
    seen = observed([(track, since)])
    if seen.told:
        tallies = [tally(seen, s.name, s.ttft, s.tpot) for s in slos]
    else:
        tallies = [tally(seen, slos[0].name, slos[0].ttft, slos[0].tpot)]
    together = slo.total(tallies)
    return None if together is None else (together, spanned)


def _share(buckets: Buckets | None, bound: float | None) -> Interval | None:
    return None if buckets is None or bound is None else share_under(buckets, bound)


def _streams(sample: Sample | None) -> int | None:
    return None if sample is None or sample.running is None else round(sample.running)
