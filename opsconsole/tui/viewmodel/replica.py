"""One replica: why it is in its state, queue, KV, latency against the fleet's median, the engine, what happened to it.

It must not judge; the state's reason and the journal are printed as they were written. The trap: "x8.7 slower than
the fleet" compares with the median of live replicas, this one included, so in a fleet of one it is always x1.0.
"""

from __future__ import annotations

import re

from opsconsole.domain.records import FleetSnapshot, LatencyView, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, right, wrap
from opsconsole.tui.layout import Form, Size, form, shares
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, fleet, journal, summary
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.rows import middle
from opsconsole.tui.world import Look, World

CHART_ROWS = 3
LATENCY_TITLE = "Latency in the window, against the fleet's median"


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    replica = snapshot.replica(state.selected or "") if snapshot else None
    if snapshot is None:
        return fleet.waiting(world, state, look, size, "REPLICA")
    head = bars.header(world, state, look, size.width, "REPLICA")
    foot = bars.foot(world, state, look, size.width)
    if replica is None:
        gone = state.selected or "nothing"
        return framed_to([head, (Cell(f" {clean(gone)} is not in the fleet (any more)", "warn"),)], foot, size)
    lines: list[Line] = [head, _identity(replica, snapshot, look), *_why(replica, size.width)]
    panels = form(size) is Form.PANELS
    rest = size.height - len(lines) - 1
    lines += (
        _wide(world, snapshot, replica, look, size, rest)
        if panels
        else _narrow(world, snapshot, replica, look, size, rest)
    )
    return framed_to(lines, foot, size, rows=1)


def _identity(replica: ReplicaView, snapshot: FleetSnapshot, look: Look) -> Line:
    """Name, state, where it runs, what it is."""
    engine = " ".join(clean(p) for p in (replica.engine, replica.engine_version) if p)
    up = fmt.age(snapshot.at - replica.started_at) if replica.started_at is not None else fmt.MISSING
    facts = [clean(p) for p in (replica.url, replica.node, replica.gpu) if p] + ([engine] if engine else [])
    return (
        Cell(f" {clean(replica.replica)} ", "title"),
        Cell(f" {replica.state.value} ", replica.state.value),
        Cell(f" up {up}  ", "text"),
        Cell("  ".join(facts), "dim"),
    )


def _why(replica: ReplicaView, cells: int) -> list[Line]:
    style = "text" if replica.state.value in ("OK", "WARM", "DRAIN") else replica.state.value
    out: list[Line] = [(Cell(f" {piece}", style),) for piece in wrap(f"why: {clean(replica.why)}", cells - 2)[:2]]
    if replica.error and replica.error != replica.why:
        out += [(Cell(f" {piece}", "bad"),) for piece in wrap(clean(replica.error), cells - 2)[:2]]
    return out


def _narrow(
    world: World, snapshot: FleetSnapshot, replica: ReplicaView, look: Look, size: Size, rest: int
) -> list[Line]:
    """One column of sections; the charts side by side on top."""
    out: list[Line] = []
    half = size.width // 2
    if rest >= 12:
        out += draw.beside([draw.rule("queue and running", half)], [draw.rule("KV occupancy", size.width - half)])
        out += draw.beside(*_charts(world, replica, look, half, size.width - half))
    out.append(draw.rule("latency in the window", size.width, "against the fleet's median"))
    out += latency_table(replica, snapshot)
    if rest - len(out) >= 5:
        out.append(draw.rule("engine", size.width))
        out += engine(replica)
    left_over = rest - len(out) - 1
    if left_over >= 1:
        out.append(draw.rule("events of this replica", size.width))
        out += events(world, replica, look, left_over)
    return out


def _charts(world: World, replica: ReplicaView, look: Look, left_cells: int, right_cells: int) -> list[list[Line]]:
    trends, name = world.trends, replica.replica
    said, full = f"run {fmt.count(replica.running)}", f"{fmt.percent(replica.kv_usage)}%"
    running, used = trends.replica(name, "running"), trends.replica(name, "kv")
    busy = draw.area(running, left_cells - 1, CHART_ROWS, look.glyphs, 0.0, None, said)
    kv = draw.area(used, right_cells - 1, CHART_ROWS, look.glyphs, 0.0, 1.0, full, percent=True)
    return [[(*line, Cell(" ")) for line in busy], [(*line, Cell(" ")) for line in kv]]


def _wide(world: World, snapshot: FleetSnapshot, replica: ReplicaView, look: Look, size: Size, rest: int) -> list[Line]:
    """Framed panels: charts, latency and engine, events."""
    charts, middle_rows, below = shares(rest, (0.5, 0, 1), (10, 8, 5))
    third = size.width // 3
    widths = (third, third, size.width - 2 * third)
    trends, name, glyphs = world.trends, replica.replica, look.glyphs
    panels = []
    for (title, field, top, said), cells in zip(
        (
            ("Queue", "waiting", None, f"{fmt.count(replica.waiting)} waiting"),
            ("Running", "running", None, f"{fmt.count(replica.running)} running"),
            ("KV occupancy", "kv", 1.0, f"{fmt.percent(replica.kv_usage)}%"),
        ),
        widths, strict=True,
    ):  # fmt: skip
        chart = draw.area(
            trends.replica(name, field), cells - 2, charts - 2, glyphs, 0.0, top, said, percent=field == "kv"
        )
        panels.append(draw.framed(f"{title}, newest at the right", chart, cells, charts, glyphs))
    half = size.width // 2
    tables = [
        draw.framed(LATENCY_TITLE, latency_table(replica, snapshot), half, middle_rows, glyphs),
        draw.framed("Engine", engine(replica), size.width - half, middle_rows, glyphs),
    ]  # fmt: skip
    happened = draw.framed("Events of this replica", events(world, replica, look, below - 2), size.width, below, glyphs)
    return [*draw.beside(*panels), *draw.beside(*tables), *happened]


def latency_table(replica: ReplicaView, snapshot: FleetSnapshot) -> list[Line]:
    """Quantiles, the objective, the share inside it, and how it compares."""
    titles = ("p50", "p95", "p99", "slo", "met")
    out: list[Line] = [(Cell(" " * 8 + "".join(right(title, 9) for title in titles), "dim"),)]
    pool = snapshot.pool(replica.pool)
    slo = pool.slos[0] if pool and pool.slos else None
    peers = [r for r in snapshot.replicas if r.pool == replica.pool and r.state.value not in ("STALE", "DOWN")]
    for name, latencies, bound, met in (
        ("ttft", replica.ttft, slo.ttft if slo else None, replica.ttft_ok),
        ("tpot", replica.tpot, slo.tpot if slo else None, replica.tpot_ok),
        ("itl", replica.itl, None, None),
        ("e2e", replica.e2e, None, None),
        ("queue", replica.queue_time, None, None),
    ):
        said = "".join(right(text, 9) for text in _quantiles(latencies))
        share = fmt.share(met, 1)
        style = summary.met_style(met, slo.target) if slo and met else "text"
        compare = ""
        if name in ("ttft", "tpot"):
            times = fmt.ratio(latencies.p95, middle(peers, name))
            compare = f"   {times} the median" if times != fmt.MISSING else ""
        out.append((
            Cell(left(f" {name}", 8), "text"), Cell(said), Cell(right(fmt.bound(bound), 9), "dim"),
            Cell(right(share, 9), style), Cell(compare, "dim"),
        ))  # fmt: skip
    return out


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
    lines = [journal.alert_line(a, look) for a in world.alerts if a.subject == replica.replica]
    named = re.compile(rf"(?<![\w-]){re.escape(replica.replica)}(?![\w-])")
    for entry in reversed(world.journal):
        planned = entry.plan is not None and replica.replica in entry.plan.replicas
        if planned or named.search(entry.text):
            lines.append(journal.line(entry, look))
        if len(lines) >= room:
            break
    return lines[:room] or [(Cell(" nothing in the journal names it", "dim"),)]
