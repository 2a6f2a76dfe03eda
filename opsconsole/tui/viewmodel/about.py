"""Facts about one replica as lines: latencies against its pool, its engine, and what the journal says of it.

It must not judge. The trap: "x8.7 the median" compares with the median of live replicas, this one included, so in a
fleet of one it is always x1.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from opsconsole.domain.histogram import latency
from opsconsole.domain.records import FleetSnapshot, LatencyView, ReplicaView
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, right
from opsconsole.tui.viewmodel import journal, misses, summary
from opsconsole.tui.world import Look, World


def latency_table(replica: ReplicaView, snapshot: FleetSnapshot, phases: bool = False) -> list[Line]:
    """Quantiles, the objective, the share inside it, and how it compares; with room, prefill and decode apart."""
    titles = ("p50", "p95", "p99", "slo", "met")
    out: list[Line] = [(Cell(" " * 8 + "".join(right(title, 9) for title in titles), "dim"),)]
    pool = snapshot.pool(replica.pool)
    slo = pool.slos[0] if pool and pool.slos else None
    peers = [r for r in snapshot.replicas if r.pool == replica.pool and r.state.value not in ("STALE", "DOWN")]
    for name, field, bound, met in (
        ("ttft", "ttft", slo.ttft if slo else None, replica.ttft_ok),
        ("tpot", "tpot", slo.tpot if slo else None, replica.tpot_ok),
        ("itl", "itl", None, None),
        ("e2e", "e2e", None, None),
        ("queue", "queue_time", None, None),
    ):
        latencies: LatencyView = getattr(replica, field)
        said = "".join(right(text, 9) for text in _quantiles(latencies))
        share = fmt.share(met, 1)
        style = summary.met_style(met, slo.target) if slo and met else "text"
        times = fmt.ratio(latencies.p95, _median(peers, field))
        compare = f"   {times} the median" if times != fmt.MISSING else ""
        if name == "queue" and (part := misses.queue_share(replica)) is not None:
            compare = f"   {part * 100:.0f}% of ttft"
        out.append((
            Cell(left(f" {name}", 8), "text"), Cell(said), Cell(right(fmt.bound(bound), 9), "dim"),
            Cell(right(share, 9), style), Cell(compare, "dim"),
        ))  # fmt: skip
    return [*out, *_phases(replica)] if phases else out


def _phases(replica: ReplicaView) -> list[Line]:
    """The two halves of a request inside the engine, from the newest page alone: all requests since it started."""
    sample = replica.sample
    out: list[Line] = []
    for name, buckets in (("prefill", sample.prefill_time), ("decode", sample.decode_time)) if sample else ():
        view = latency(buckets)
        if view.count:
            said = "".join(right(text, 9) for text in _quantiles(view))
            out.append((Cell(left(f" {name}", 8), "text"), Cell(said), Cell("   since its start", "dim")))
    return out


def _median(peers: Sequence[ReplicaView], field: str) -> float | None:
    """The middle 95th percentile of a pool."""
    seen = [value for peer in peers if (value := fmt.known(getattr(peer, field).p95)) is not None]
    return median(seen) if seen else None


def _quantiles(latencies: LatencyView) -> list[str]:
    return [
        fmt.latency(latencies.p50),
        fmt.latency(latencies.p95, latencies.lower_bound),
        fmt.latency(latencies.p99, latencies.lower_bound),
    ]


def engine(replica: ReplicaView) -> list[Line]:
    """Rates, cache, batch, how requests finish; what the page does not hold is `--`."""
    sample = replica.sample
    room = fmt.count(sample.kv_capacity_tokens if sample else None)
    used, hit = fmt.percent(replica.kv_usage), fmt.percent(replica.hit_rate)
    came, went = fmt.tokens_per_second(replica.prompt_rate), fmt.tokens_per_second(replica.output_rate)
    batch = fmt.count(sample.max_running) if sample else fmt.MISSING
    out: list[Line] = [
        (Cell(f" tok/s in {came}  out {went}"),
         Cell(f"   requests {fmt.rate(replica.request_rate)}/s  good {fmt.rate(replica.goodput)}/s")),
        (Cell(f" KV {used}% of {room} tokens   hit {hit}%"),
         Cell(f"   preempt {fmt.per_minute(replica.preempt_rate)}/m   streams {fmt.count(replica.streams)}")),
    ]  # fmt: skip
    reasons = sample.finished_by_reason if sample else None
    if reasons and sum(reasons.values()) > 0:
        whole = sum(reasons.values())
        words = "  ".join(f"{clean(name)} {fmt.percent(number / whole)}%" for name, number in sorted(reasons.items()))
    else:
        words = fmt.MISSING
    out.append((Cell(f" batch {fmt.count(replica.running)} of {batch}   finish: {words}"),))
    if sample and sample.preemptions is not None:
        lived = f"   up {fmt.age(sample.at - replica.started_at)}" if replica.started_at is not None else ""
        out.append((Cell(f" preempted {fmt.count(sample.preemptions)} times since its start{lived}"),))
    if sample and sample.spec_draft_tokens:
        accepted = (sample.spec_accepted_tokens or 0.0) / sample.spec_draft_tokens
        out.append((Cell(f" speculation accepts {fmt.percent(accepted)}% of drafted tokens"),))
    for name, reason in sample.unknown if sample else ():
        out.append((Cell(f" {clean(name)} {fmt.MISSING}: {clean(reason)}", "warn"),))
    if replica.flags:
        out.append((Cell(f" flags: {clean(', '.join(replica.flags))}", "warn"),))
    return out


def events(world: World, replica: ReplicaView, look: Look, room: int) -> list[Line]:
    """Alerts and journal entries that name it, newest first."""
    named_by = (replica.replica, f"{replica.pool}/{replica.replica}")
    lines = [journal.alert_line(a, look) for a in world.alerts if a.subject in named_by]
    named = re.compile(rf"(?<![\w-]){re.escape(replica.replica)}(?![\w-])")
    for entry in reversed(world.journal):
        planned = entry.plan is not None and replica.replica in entry.plan.replicas
        if planned or named.search(entry.text):
            lines.append(journal.line(entry, look))
        if len(lines) >= room:
            break
    return lines[:room] or [(Cell(" nothing in the journal names it", "dim"),)]
