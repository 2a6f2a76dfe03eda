"""What the numbers of one replica suggest, each sentence with the numbers it stands on; nothing here is carried out.

It must not repeat the decision; that is the pool's. The trap: advice from a stale page would be about a replica that
no longer is, so there is none.
"""

from __future__ import annotations

from statistics import median

from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, wrap
from opsconsole.tui.viewmodel import outlook
from opsconsole.tui.world import World

FULL_KV, SLOW, COLD_HITS = 0.9, 2.5, 0.5
LIVE = (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED)


def lines(replica: ReplicaView, snapshot: FleetSnapshot, world: World, cells: int) -> list[Line]:
    """Sentences for a panel of this width."""
    said = sentences(replica, snapshot, world)
    if not said:
        return [(Cell(" nothing stands out", "dim"),)]
    return [
        (Cell(" ! " if index == 0 else "   ", "warn"), Cell(piece))
        for text in said
        for index, piece in enumerate(wrap(text, cells - 5))
    ]


def sentences(replica: ReplicaView, snapshot: FleetSnapshot, world: World) -> list[str]:
    """What stands out, most useful first."""
    if replica.state not in LIVE:
        return []
    peers = [r for r in snapshot.replicas if r.pool == replica.pool and r.state in LIVE]
    found = [_bound_by(replica), _against(replica, peers), _hits(replica, peers), _drained(replica, snapshot, world)]
    return [text for text in found if text]


def _bound_by(replica: ReplicaView) -> str:
    """What its queue waits for: a place in the batch, or KV."""
    most = fmt.known(replica.sample.max_running) if replica.sample is not None else None
    facts = (fmt.known(value) or 0.0 for value in (replica.waiting, replica.running, replica.kv_usage))
    waiting, running, used = facts
    full = f"KV is {fmt.percent(replica.kv_usage)}% full"
    if waiting <= 0:
        return ""
    if most and 0 < most <= running:
        more = f"raising max-num-seqs would not help, {full}" if used >= FULL_KV else f"or raise max-num-seqs: {full}"
        return f"batch-bound: {running:.0f} of {most:.0f} run and {waiting:.0f} wait; another replica helps; {more}."
    if used >= FULL_KV:
        rate = fmt.per_minute(replica.preempt_rate)
        return f"KV-bound: {full}, {waiting:.0f} wait and {rate} a minute are preempted; another replica helps."
    return ""


def _against(replica: ReplicaView, peers: list[ReplicaView]) -> str:
    """Slower than the rest of its pool, which more replicas would not cure."""
    for name in ("ttft", "tpot"):
        mine = fmt.known(getattr(replica, name).p95)
        others = [v for r in peers if r is not replica and (v := fmt.known(getattr(r, name).p95)) is not None]
        if mine is None or len(others) < 2:
            continue
        middle = median(others)
        if middle > 0 and mine >= SLOW * middle:
            times = fmt.ratio(mine, middle)
            return f"{name} p95 is {times} the others' median ({fmt.latency(middle)}): look at its node and its load."
    return ""


def _hits(replica: ReplicaView, peers: list[ReplicaView]) -> str:
    seen = [r.hit_rate for r in peers if r is not replica and r.hit_rate is not None]
    if replica.hit_rate is None or len(seen) < 2 or median(seen) < 0.1:
        return ""
    if replica.hit_rate < COLD_HITS * median(seen):
        here, there = fmt.percent(replica.hit_rate), fmt.percent(median(seen))
        return f"its cache hits {here}% of prompt tokens where the others hit {there}%: cold, or routed badly."
    return ""


def _drained(replica: ReplicaView, snapshot: FleetSnapshot, world: World) -> str:
    """Whether the rest could carry the pool without it."""
    pool = snapshot.pool(replica.pool)
    decision = outlook.decision_of(world, pool)
    one = outlook.each(decision.capacity, "requests/s") if decision is not None else None
    if pool is None or one is None or pool.request_rate is None:
        return ""
    left_over = (pool.ready - 1) * one
    if left_over >= pool.request_rate:
        return ""
    return f"a drain is not advised now: {fmt.rate(left_over)} req/s would be left for {fmt.rate(pool.request_rate)}."
