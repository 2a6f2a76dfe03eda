"""The fleet at 140 columns and more: the table, the selected replica, load and forecast, decisions, SLO, events.

It must not repeat how a line is said; those live in `summary`, `journal` and `charts`. The trap: panels share the
height by weight with a floor, so on a short window the charts shrink before the table does.
"""

from __future__ import annotations

from opsconsole.domain.records import AlertView, FleetSnapshot, JournalEntry, ReplicaView, SloView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, line_width, wrap
from opsconsole.tui.layout import Form, Size, shares
from opsconsole.tui.memo import kept_by
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, charts, journal, misses, objectives, rows, summary, table
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.world import Look, World, main_pool

SIDE = 34


def view(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    found = rows.rows(snapshot, state, look.now)
    order = rows.names(found)
    pool = main_pool(snapshot, state.selected)
    top_line = _top(world, snapshot, look, size.width)
    lines: list[Line] = [bars.header(world, state, look, size.width, "FLEET"), top_line, ()]
    start = len(lines)
    table_rows, chart_rows, slo_rows = shares(size.height - start - 2, (3, 2, 1), (min(len(found), 10) + 5, 9, 7))
    width = size.width - SIDE
    columns = table.wanted_columns(Form.WIDE, width - 2, state, snapshot)
    tail = 2 if len(order) > 1 else 0
    room = max(0, table_rows - 3 - tail)
    body, targets, top = table.body(found, columns, world, state, look, room, width - 2)
    inside = [table.titles(columns, state, look), *body, *([()] * (room - len(body)))]
    if tail:
        inside += table.totals(snapshot, columns, [r.replica for r in found if r.replica])
    title = f"Fleet  {_sorted(state)}   {_counted(snapshot, state, len(order))}"
    side = beside(world, snapshot.replica(state.selected or ""), look, SIDE - 2)
    lines += draw.beside(
        draw.framed(title, inside, width, table_rows, look.glyphs),
        draw.framed(_side_title(snapshot, state), side, SIDE, table_rows, look.glyphs),
    )
    half = (size.width + 1) // 2
    rest, glyphs = size.width - half, look.glyphs
    chart = charts.demand(world, snapshot, pool, look, half - 2, chart_rows - 2)
    newest = decided(world, snapshot, state, look, rest - 2, chart_rows - 2)
    lines += draw.beside(
        draw.framed(f"Demand: past and forecast  {clean(pool.pool) if pool else ''}", chart, half, chart_rows, glyphs),
        draw.framed("Decisions  (y explains the newest)", newest, rest, chart_rows, glyphs),
    )
    met = slo(world, snapshot, state, look, half - 2, slo_rows - 2)
    happened = events(world, snapshot, state, look, rest - 2, slo_rows - 2)
    lines += draw.beside(
        draw.framed("SLO  (budget, burn short / long)", met, half, slo_rows, glyphs),
        draw.framed(events_title(world), happened, rest, slo_rows, glyphs),
    )
    foot = bars.foot(world, state, look, size.width)
    where = {y + start + 2: name for y, name in targets.items()}
    return framed_to(lines, foot, size, targets=where, top=top, order=order, rows=len(order))


def _top(world: World, snapshot: FleetSnapshot, look: Look, cells: int) -> Line:
    counted = (*summary.counts(snapshot, look, cells), Cell("   "))
    return (*counted, *summary.load_line(world, look, cells - line_width(counted)))


def _sorted(state: ViewState) -> str:
    grouped = f"   group {state.group}" if state.group != "none" else ""
    return f"sort {state.sort.upper()}{' reversed' if state.reverse else ''}{grouped}"


def _counted(snapshot: FleetSnapshot, state: ViewState, shown: int) -> str:
    marks = f"   {len(state.marks)} marked" if state.marks else ""
    return f"{shown} of {len(snapshot.replicas)}   filter: {clean(state.filter) or 'none'}{marks}"


def _side_title(snapshot: FleetSnapshot, state: ViewState) -> str:
    replica = snapshot.replica(state.selected or "")
    return f"{clean(replica.replica)}  {replica.state.value}" if replica else "nothing selected"


def beside(world: World, replica: ReplicaView | None, look: Look, cells: int) -> list[Line]:
    """What the selected row does not have room for."""
    if replica is None:
        return [(Cell(" Up and Down select a row", "dim"),)]
    lines: list[Line] = [(Cell(text, "text"),) for text in wrap(f"why  {clean(replica.why)}", cells)[:3]]
    place = "  ".join(clean(p) for p in (replica.node, replica.gpu, replica.engine, replica.engine_version) if p)
    lines += [(Cell(place or clean(replica.url or ""), "dim"),), ()]
    width = max(4, cells - 14)
    for title, field, top, said in (
        ("queue ", "waiting", None, fmt.count(replica.waiting)),
        ("KV    ", "kv", 1.0, f"{fmt.percent(replica.kv_usage)}%"),
        ("ttft95", "ttft95", None, fmt.latency(replica.ttft.p95)),
    ):
        spark = draw.spark(world.trends.replica(replica.replica, field), width, look.glyphs, 0.0, top)
        lines.append((Cell(f"{title} ", "dim"), Cell(spark, "spark"), Cell(f" {said}")))
    lines += [
        (),
        (Cell("slo     ", "dim"), Cell(fmt.share(replica.attainment))),
        (Cell("preempt ", "dim"), Cell(f"{fmt.per_minute(replica.preempt_rate)}/m")),
        (Cell("hit     ", "dim"), Cell(f"{fmt.percent(replica.hit_rate)}%")),
        (Cell("streams ", "dim"), Cell(fmt.count(replica.streams))),
    ]
    if replica.error:
        lines += [(Cell(text, "bad"),) for text in wrap(clean(replica.error), cells)[:3]]
    return lines


def decided(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    """Decisions newest first, and what the mode does with them."""
    return list(_decided(world.journal, snapshot.mode, len(snapshot.pools) > 1, look.lasting, rows))


@kept_by(lambda *given: given)
def _decided(said: tuple[JournalEntry, ...], mode: str, several: bool, look: Look, rows: int) -> list[Line]:
    entries = journal.decisions(said, regrets=False)[: max(1, rows - 2)]
    lines = [journal.line(entry, look, mode, several) for entry in entries]
    if not lines:
        lines = [(Cell(" nothing decided yet", "dim"),)]
    lines += [()] * (rows - 1 - len(lines))
    lines.append((Cell(f" mode {mode.upper()}: {mode_words(mode)}", "dim"),))
    return lines


def mode_words(mode: str) -> str:
    """What the mode means for the reader."""
    return {
        "off": "nothing is decided",
        "advise": "nothing changes until somebody applies it",
        "act": "decisions are carried out",
    }.get(mode, "")


def slo(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    """Every class of the selected pool, goodput, and where requests miss."""
    pool = main_pool(snapshot, state.selected)
    lines = [_class(slo) for slo in pool.slos] if pool is not None else []
    if not lines or pool is None:
        return [(Cell(" no objective is set", "dim"),)]
    lines.append((Cell(f" goodput {fmt.rate(pool.goodput)} of {fmt.rate(pool.request_rate)} req/s offered", "text"),))
    return [*lines, *misses.found(snapshot, look.glyphs, pool.pool)]


def _class(slo: SloView) -> Line:
    """default ttft<1s tpot<50ms  >=96.8% of 98.0  left 41%  burn 2.9x / 1.5x  out 8m29s."""
    bounds = " ".join(f"{n}<{fmt.bound(b)}" for n, b in (("ttft", slo.ttft), ("tpot", slo.tpot)) if b is not None)
    left_over = slo.budget_left
    return (
        Cell(left(f" {clean(slo.name)} {bounds}", 26), "text"),
        Cell(left(f" {fmt.share(slo.attainment)}", 9), summary.met_style(slo.attainment, slo.target)),
        Cell(f" of {fmt.percent(slo.target, 1)}  left ", "dim"),
        Cell(f"{fmt.percent(max(0.0, left_over) if left_over is not None else None)}% ", "text"),
        Cell(f" burn {fmt.burn(slo.burn_short)} / {fmt.burn(slo.burn_long)}", "text"),
        Cell(f"  out {objectives.runs_out(slo)}", "dim"),
    )


def events(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    """What fires, then what happened, newest first."""
    return list(_happened(world.alerts, world.journal, look.lasting, rows))


@kept_by(lambda *given: given)
def _happened(alerts: tuple[AlertView, ...], said: tuple[JournalEntry, ...], look: Look, rows: int) -> list[Line]:
    firing = [alert for alert in alerts if alert.state == "firing"]
    lines = [journal.alert_line(alert, look) for alert in firing[: max(0, rows)]]
    others = [e for e in reversed(said) if not journal.is_decision(e)]
    lines += [journal.line(entry, look) for entry in others[: max(0, rows - len(lines))]]
    return lines or [(Cell(" nothing happened yet", "dim"),)]


def events_title(world: World) -> str:
    """Events and alerts  (2 active, 1 silenced)."""
    count = {state: sum(a.state == state for a in world.alerts) for state in ("firing", "silenced")}
    return f"Events and alerts  ({count['firing']} active, {count['silenced']} silenced)"
