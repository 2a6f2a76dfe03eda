"""The demo's world as the records every screen reads: states with reasons, pools, SLO, forecasts.

It must not step the world. The trap: a stale replica keeps the values of its last good page here too, as a real fold
would, and a fresh-looking zero would be a lie the tests rely on not being told.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from opsconsole.client.demo_hindsight import Hindsight
from opsconsole.client.demo_world import SLOTS, DemoPool, DemoReplica, DemoWorld, expected_demand, phase_of
from opsconsole.domain.records import (
    Buckets,
    FleetSnapshot,
    ForecastView,
    Interval,
    LatencyView,
    LeadNeed,
    LeadRecord,
    PoolView,
    ReplicaState,
    ReplicaView,
    Sample,
    SloView,
    SourceView,
)

LEVELS = (0.1, 0.5, 0.9)
LEADS = tuple(float(60 * i) for i in range(1, 16))
SERVING = (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED)
EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
PRICE = 2.8  # a pretended GPU, one hour


def snapshot(
    world: DemoWorld, tick: int, before: FleetSnapshot | None, *, fleet: str, mode: str, can_act: bool, interval: float
) -> FleetSnapshot:
    """Everything at this tick; `before` gives the stale ones their last good values."""
    old = {view.replica: view for view in before.replicas} if before else {}
    views: list[ReplicaView] = []
    pools: list[PoolView] = []
    for pool in world.pools:
        mine = [_replica(world, pool, replica, old.get(replica.name)) for replica in pool.replicas]
        views += mine
        pools.append(_pool(world, pool, mine))
    failing = sum(v.error is not None for v in views)
    words = f"{failing} of {len(views)} targets fail" if failing else None
    sources = (SourceView("demo", "generator", failing == 0 or failing < len(views), 0.0, words),)
    return FleetSnapshot(
        tick, world.at, fleet, mode, tuple(views), tuple(pools), sources, can_act, interval,
        ("DEMO: a synthetic fleet; no engine runs and every number is made up",),
    )  # fmt: skip


def _replica(world: DemoWorld, pool: DemoPool, replica: DemoReplica, old: ReplicaView | None) -> ReplicaView:
    base = ReplicaView(
        replica.name, pool.name, ReplicaState.OK, "", url=f"http://10.4.2.{17 + replica.number % 200}:8000",
        engine="vllm", engine_version="0.11.0", model=pool.model, node=replica.node, gpu="H100-80G", gpus=1,
        started_at=replica.started_at, seen_at=replica.seen_at, age=world.at - replica.seen_at,
    )  # fmt: skip
    if replica.broken == "down":
        error = "connection refused: nothing listens on the port"
        return replace(base, state=ReplicaState.DOWN, why="connection refused", error=error)
    if replica.broken == "stale" and world.at - replica.seen_at > 3:
        age = world.at - replica.seen_at
        error = f"scrape timed out, last good {age:.0f}s ago (values shown are stale)"
        kept = old if old is not None and old.waiting is not None else base
        return replace(
            kept, state=ReplicaState.STALE, why=f"no good page for {age:.0f}s", age=age, error=error,
            seen_at=replica.seen_at,
            ttft=LatencyView(), tpot=LatencyView(), attainment=None, preempt_rate=None, hit_rate=None,
            prompt_rate=None, output_rate=None, request_rate=None, goodput=None,
        )  # fmt: skip
    if world.at < replica.ready_at:
        phase = phase_of(replica, world.at)
        why = f"starting: {phase}, ready in about {replica.ready_at - world.at:.0f}s"
        return replace(base, state=ReplicaState.WARMING, why=why, phase=phase, expected_ready_at=replica.ready_at)
    return _serving(world, pool, replica, base)


def _serving(world: DemoWorld, pool: DemoPool, replica: DemoReplica, base: ReplicaView) -> ReplicaView:
    nan = replica.broken == "nan"
    kv = None if nan else world.kv(replica)
    waiting, running = float(round(replica.queue)), float(round(replica.running))
    ttft, tpot = world.ttft95(pool, replica), world.tpot95(replica)
    a, b = world.met(pool, replica)
    state, why = _state(replica, kv, waiting)
    both = Interval(max(0.0, a + b - 1), min(a, b))
    counted = replica.load * 60
    return replace(
        base, state=state, why=why, waiting=waiting, running=running, kv_usage=kv, preempt_rate=replica.preempt,
        request_rate=replica.load, prompt_rate=replica.load * 1500, output_rate=replica.load * 210,
        hit_rate=replica.hit, streams=int(running),
        ttft=LatencyView(ttft * 0.42, ttft, ttft * 1.9, counted),
        tpot=LatencyView(tpot * 0.7, tpot, tpot * 1.25, counted),
        itl=LatencyView(tpot * 0.65, tpot * 1.3, tpot * 2.2, counted),
        e2e=LatencyView(ttft * 0.4 + 210 * tpot * 0.7, ttft + 300 * tpot, ttft + 420 * tpot, counted),
        queue_time=LatencyView(max(0.0, ttft * 0.42 - 0.1), max(0.0, ttft - 0.2), max(0.0, ttft * 1.9 - 0.2), counted),
        attainment=both, ttft_ok=Interval(a, a), tpot_ok=Interval(b, b), goodput=replica.load * both.low,
        flags=("nan:kv_usage",) if nan else (),
        sample=Sample(
            replica.name, world.at, engine="vllm", engine_version="0.11.0", model=pool.model,
            kv_capacity_tokens=131_072.0, max_running=float(SLOTS), waiting=waiting, running=running, kv_usage=kv,
            finished_by_reason={"stop": 910.0, "length": 84.0, "abort": 6.0},
            unknown=(("kv_usage", "the engine exported NaN"),) if nan else (),
        ),
    )  # fmt: skip


def _state(replica: DemoReplica, kv: float | None, waiting: float) -> tuple[ReplicaState, str]:
    if replica.draining:
        return ReplicaState.DRAINING, f"draining: {replica.running:.0f} streams still run"
    if waiting >= 4 and kv is not None and kv > 0.85:
        return ReplicaState.SATURATED, f"waiting {waiting:.0f} > 0 and KV {kv:.0%}"
    if waiting > 0:
        return ReplicaState.HOT, f"waiting {waiting:.0f} > 0"
    if kv is not None and kv > 0.85:
        return ReplicaState.HOT, f"KV {kv:.0%} > 85%"
    return ReplicaState.OK, "nothing waits, KV below 85%"


def _pool(world: DemoWorld, pool: DemoPool, views: list[ReplicaView]) -> PoolView:
    live = [v for v in views if v.state not in (ReplicaState.STALE, ReplicaState.DOWN, ReplicaState.WARMING)]
    counts = {state: sum(v.state is state for v in views) for state in ReplicaState}
    worst = max((v.ttft.p95 or 0.0 for v in live), default=None)
    slowest = max((v.tpot.p95 or 0.0 for v in live), default=None)
    known = [v.kv_usage for v in live if v.kv_usage is not None]
    offered = sum(v.request_rate or 0.0 for v in live)
    return PoolView(
        pool.name, pool.model, pool.want, ready=sum(counts[s] for s in SERVING),
        warming=counts[ReplicaState.WARMING], draining=counts[ReplicaState.DRAINING], down=counts[ReplicaState.DOWN],
        stale=counts[ReplicaState.STALE], minimum=pool.minimum, maximum=pool.maximum,
        waiting=_sum(v.waiting for v in live), running=_sum(v.running for v in live),
        kv_usage=sum(known) / len(known) if known else None, preempt_rate=_sum(v.preempt_rate for v in live),
        request_rate=offered if live else None, prompt_rate=_sum(v.prompt_rate for v in live),
        output_rate=_sum(v.output_rate for v in live), hit_rate=_weighted(live),
        ttft=LatencyView(worst * 0.3, worst * 0.8, worst, offered * 60) if worst else LatencyView(),
        tpot=LatencyView(slowest * 0.7, slowest * 0.9, slowest, offered * 60) if slowest else LatencyView(),
        e2e=LatencyView(6.2, 12.8, 19.0, offered * 60) if live else LatencyView(),
        slos=(_slo(pool, live),), goodput=_sum(v.goodput for v in live), gpus=len(views),
        ttft_buckets=_buckets(live), start_s=dict(pool.start_s), start_since=world.since,
        price_per_hour=PRICE * len(views), covered=counts[ReplicaState.STALE] == 0 and counts[ReplicaState.DOWN] == 0,
    )  # fmt: skip


def _slo(pool: DemoPool, live: list[ReplicaView]) -> SloView:
    offered = sum(v.request_rate or 0.0 for v in live)
    if not offered:
        return SloView("chat", 1.0, 0.05, 0.98)
    ttft = sum((v.request_rate or 0.0) * (v.ttft_ok.low if v.ttft_ok else 0.0) for v in live) / offered
    tpot = sum((v.request_rate or 0.0) * (v.tpot_ok.low if v.tpot_ok else 0.0) for v in live) / offered
    budget = 1 - 0.98
    return SloView(
        "chat", 1.0, 0.05, 0.98, Interval(max(0.0, ttft + tpot - 1), min(ttft, tpot)), Interval(ttft, ttft),
        Interval(tpot, tpot), pool.misses / budget, pool.slow_misses / budget,
        max(0.0, 1 - pool.slow_misses / budget / 6), exact=False,
        attainment_short=_around(pool.misses), attainment_long=_around(pool.slow_misses),
    )  # fmt: skip


def _around(misses: float) -> Interval:
    """A share met as far as marginal histograms can tell it."""
    return Interval(max(0.0, 1 - 1.4 * misses), 1 - misses)


def _buckets(live: list[ReplicaView]) -> Buckets | None:
    """The pool's TTFT of the window, in the edges of vLLM that matter here; a pretended spread around each replica."""
    counts = [0.0] * len(EDGES)
    for view in live:
        middle, tail = view.ttft.p50, view.ttft.p95
        if not middle or not tail or not view.request_rate:
            continue
        width = max(0.05, math.log(tail / middle) / 2.94)  # a logistic curve's 95th percentile
        for i, edge in enumerate(EDGES):
            inside = 1.0 if math.isinf(edge) else 1 / (1 + math.exp(-(math.log(edge / middle)) / width))
            counts[i] += view.request_rate * 60 * inside
    return Buckets(EDGES, tuple(round(count) for count in counts)) if counts[-1] else None


def _sum(values: object) -> float | None:
    seen = [v for v in values if v is not None]  # type: ignore[attr-defined]
    return sum(seen) if seen else None


def _weighted(live: list[ReplicaView]) -> float | None:
    pairs = [(v.hit_rate, v.prompt_rate) for v in live if v.hit_rate is not None and v.prompt_rate]
    whole = sum(weight for _, weight in pairs)
    return sum(rate * weight for rate, weight in pairs) / whole if whole else None


SERIES = (("requests/s", 1.0), ("prompt tokens/s", 1500.0), ("output tokens/s", 210.0))


def forecasts(
    world: DemoWorld, seed: int, hindsight: Hindsight | None = None, at: float | None = None
) -> tuple[ForecastView, ...]:
    """The demo knows its own future and blurs it; `at` is a moment of the past, of which no record is kept."""
    now = world.at if at is None else at
    record = RECORD if at is None else ()
    out = []
    for pool in world.pools:
        for unit, each in SERIES:
            blur = random.Random(seed + int(now // 60))
            quantiles = []
            for lead in LEADS:
                middle = each * expected_demand(pool, now + lead) * (0.97 + 0.06 * blur.random())
                spread = 0.04 + 0.09 * (lead / 900) ** 0.5
                quantiles.append((middle * (1 - spread), middle, middle * (1 + spread)))
            tally = hindsight.tally(pool.name) if hindsight is not None else None
            out.append(ForecastView(
                pool.name, unit, now, LEADS, LEVELS, tuple(quantiles), "demo-seasonal", step=60.0, bought=0.9,
                weights={"seasonal": 0.7, "ets": 0.3}, record=record, regret=tally, needs=NEEDS,
            ))  # fmt: skip
    return tuple(out)


NEEDS = tuple(LeadNeed(15.0 + 22.5 * i, 6.1 + 0.4 * i) for i in range(5))
RECORD = tuple(
    LeadRecord(60.0 * i, 240 - 4 * i, 0.34 - 0.015 * i, (0.1 + i / 400, 0.51, 0.92 - i / 500))
    for i in (1, 2, 5, 10, 15)
)
