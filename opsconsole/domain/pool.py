"""One pool in one tick: sums over its live replicas, latencies from merged buckets, its SLO classes and their budgets.

It must not average what replicas averaged. The trap: a sum over replicas of which one is silent is not the pool's
value; it is shown, but `covered` says that nobody may shrink on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opsconsole.domain import slo
from opsconsole.domain.histogram import latency, merge, share_under
from opsconsole.domain.ledger import Bin, Ledger, observed, tally
from opsconsole.domain.records import Buckets, Interval, LatencyView, PoolView, ReplicaState, ReplicaView, SloView
from opsconsole.domain.replica import FoldOptions, SloSpec, hit_rate
from opsconsole.domain.track import Track

LIVE = (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED)
SERVING = (*LIVE, ReplicaState.DRAINING)


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What the configuration says of a pool."""

    name: str
    model: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    slos: tuple[SloSpec, ...] = ()
    price_per_hour: float | None = None  # one GPU, one hour
    gpus_per_replica: int | None = None
    role: str | None = None  # prefill, decode


@dataclass(frozen=True, slots=True)
class Member:
    """One replica of the pool: its view, its past, and whether it answered in this very tick."""

    view: ReplicaView
    track: Track
    answered: bool


def pool_view(
    spec: PoolSpec,
    members: Sequence[Member],
    at: float,
    options: FoldOptions,
    ledger: Ledger,
    want: int | None,
    sources_ok: bool,
) -> PoolView:
    """Totals, states and promises of one pool. Draining replicas still carry load, so they count in sums."""
    serving = [m for m in members if m.view.state in SERVING]
    since = at - options.window_s
    fresh = [m.track for m in serving if m.answered or (m.view.age or 0.0) <= options.stale_after_s]
    merged = {n: merge(t.window(n, since) for t in fresh) for n in ("ttft", "tpot", "e2e", "queue_time")}
    count = _counter(members)
    gpus = _gpus(spec, members)
    seen = _seen(fresh, at, options, ledger) if spec.slos else None
    views: dict[str, LatencyView] = {name: latency(buckets) for name, buckets in merged.items()}
    return PoolView(
        pool=spec.name,
        model=spec.model or next((m.view.model for m in members if m.view.model), None),
        want=want,
        ready=sum(count(s) for s in LIVE),
        warming=count(ReplicaState.WARMING),
        draining=count(ReplicaState.DRAINING),
        down=count(ReplicaState.DOWN),
        stale=count(ReplicaState.STALE),
        minimum=spec.minimum,
        maximum=spec.maximum,
        waiting=_sum(m.view.waiting for m in serving),
        running=_sum(m.view.running for m in serving),
        kv_usage=_kv(serving),
        preempt_rate=_sum(m.view.preempt_rate for m in serving),
        request_rate=_sum(m.view.request_rate for m in serving),
        prompt_rate=_sum(m.view.prompt_rate for m in serving),
        output_rate=_sum(m.view.output_rate for m in serving),
        hit_rate=hit_rate(fresh, since),
        ttft=views["ttft"],
        tpot=views["tpot"],
        e2e=views["e2e"],
        queue_time=views["queue_time"],
        slos=tuple(_slo(s, seen, merged, options) for s in spec.slos) if seen is not None else (),
        goodput=_sum(m.view.goodput for m in serving),
        gpus=gpus,
        price_per_hour=None if gpus is None or spec.price_per_hour is None else gpus * spec.price_per_hour,
        covered=sources_ok and _covered(members),
        ttft_buckets=merged["ttft"],
        role=spec.role,
    )


def _covered(members: Sequence[Member]) -> bool:
    """Every replica that may serve answered now. Warming ones carry no load; down ones are not live."""
    return all(m.answered and m.view.state is not ReplicaState.STALE for m in members if _may_serve(m.view))


def _may_serve(view: ReplicaView) -> bool:
    return view.state in SERVING or view.state is ReplicaState.STALE


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the pool's requests did in the window and in both burn windows: counted once, judged by every class."""

    window: Bin
    short: Bin
    long: Bin


def _seen(tracks: Sequence[Track], at: float, options: FoldOptions, ledger: Ledger) -> _Seen:
    since = at - options.window_s
    window = observed([(track, since) for track in tracks])
    return _Seen(window, ledger.over(at, options.short_s), ledger.over(at, options.long_s))


def _slo(of: SloSpec, seen: _Seen, merged: dict[str, Buckets | None], options: FoldOptions) -> SloView:
    now, short, long = (tally(bin_, of.name, of.ttft, of.tpot) for bin_ in (seen.window, seen.short, seen.long))
    return SloView(
        name=of.name,
        ttft=of.ttft,
        tpot=of.tpot,
        target=of.target,
        attainment=None if now is None else now.attainment,
        ttft_ok=_within(merged["ttft"], of.ttft),
        tpot_ok=_within(merged["tpot"], of.tpot),
        burn_short=None if short is None else slo.burn_rate(short, of.target),
        burn_long=None if long is None else slo.burn_rate(long, of.target),
        budget_left=None if long is None else slo.budget_left(long, of.target),
        exact=seen.window.told,
        attainment_short=None if short is None else short.attainment,
        attainment_long=None if long is None else long.attainment,
        short_s=options.short_s,
        long_s=options.long_s,
    )


def _within(buckets: Buckets | None, bound: float | None) -> Interval | None:
    return None if buckets is None or bound is None else share_under(buckets, bound)


def _counter(members: Sequence[Member]) -> Callable[[ReplicaState], int]:
    return lambda state: sum(1 for m in members if m.view.state is state)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(sum(known)) if known else None


def _kv(serving: Sequence[Member]) -> float | None:
    """Occupancy of all KV together: weighted by tokens where every replica tells its size, else the plain mean."""
    known = [(m.view.kv_usage, m.track.sample.kv_capacity_tokens) for m in serving if m.track.sample is not None]
    used = [(u, c) for u, c in known if u is not None]
    if not used:
        return None
    if all(c for _, c in used):
        return sum(u * (c or 0.0) for u, c in used) / sum(c or 0.0 for _, c in used)
    return sum(u for u, _ in used) / len(used)


def _gpus(spec: PoolSpec, members: Sequence[Member]) -> int | None:
    """GPUs held, starting and draining ones included; unknown if one replica's is unknown."""
    total = 0
    for member in members:
        held = member.view.gpus if member.view.gpus is not None else spec.gpus_per_replica
        if held is None:
            return None
        total += held
    return total if members else None
