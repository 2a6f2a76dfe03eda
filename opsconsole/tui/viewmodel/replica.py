"""One replica: why it is in its state, queue, KV, latency against the fleet's median, the engine, what happened to it.

It must not judge; the state's reason and the journal are printed as they were written. The trap: "x8.7 slower than
the fleet" compares with the median of live replicas, this one included, so in a fleet of one it is always x1.0.
"""

from __future__ import annotations

from opsconsole.domain.records import FleetSnapshot, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, wrap
from opsconsole.tui.layout import Form, Size, form, shares
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import about, advice, bars
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World

CHART_ROWS = 3
LATENCY_TITLE = "Latency in the window, against the pool's median"
PLOTS = (("queue", "waiting", None), ("running", "running", None), ("KV", "kv", 1.0), ("tok/s out", "tokens_out", None))


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    replica = snapshot.replica(state.selected or "") if snapshot else None
    if snapshot is None:
        return waiting(world, state, look, size)
    head = bars.header(world, state, look, size.width, "REPLICA")
    foot = bars.foot(world, state, look, size.width)
    if replica is None:
        gone = state.selected or "nothing"
        return framed_to([head, (Cell(f" {clean(gone)} is not in the fleet (any more)", "warn"),)], foot, size)
    lines: list[Line] = [head, _identity(replica, snapshot, look), *_why(replica, size.width)]
    arrange = _wide if form(size) is Form.PANELS else _narrow
    lines += arrange(world, snapshot, replica, look, size, size.height - len(lines) - 1)
    return framed_to(lines, foot, size, rows=1)


def _identity(replica: ReplicaView, snapshot: FleetSnapshot, look: Look) -> Line:
    """Name, state, where it runs, what it is."""
    engine = " ".join(p for p in (replica.engine, replica.engine_version) if p)
    up = fmt.age(snapshot.at - replica.started_at) if replica.started_at is not None else fmt.MISSING
    facts = [clean(p) for p in (replica.role, replica.url, replica.node, replica.gpu, engine) if p]
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
    """One column of sections; the charts side by side on top, and what there is room for below."""
    out: list[Line] = []
    if rest >= 12:
        third = size.width // 3
        widths = (third, third, size.width - 2 * third)
        for place, cells in enumerate(widths):
            title = draw.rule(_said(replica, PLOTS[place][1], PLOTS[place][0]), cells)
            block = [title, *plot(world, replica, look, PLOTS[place], cells, CHART_ROWS)]
            out = draw.beside(out, block) if out else block
    out.append(draw.rule("latency in the window", size.width, "against the pool's median"))
    out += about.latency_table(replica, snapshot)
    if rest - len(out) >= 5:
        out.append(draw.rule("engine", size.width))
        out += about.engine(replica)
    if rest - len(out) >= 3:
        said = advice.lines(replica, snapshot, world, size.width)[: rest - len(out) - 1]
        out += [draw.rule("advice", size.width), *said]
    left_over = rest - len(out) - 1
    if left_over >= 1:
        out.append(draw.rule("events of this replica", size.width))
        out += about.events(world, replica, look, left_over)
    return out


def plot(
    world: World, replica: ReplicaView, look: Look, what: tuple[str, str, float | None], cells: int, rows: int
) -> list[Line]:
    """One fact of it over the last minute or so; under KV, an x for every moment it preempted."""
    _, field, top = what
    values = world.trends.replica(replica.replica, field)
    marks = field == "kv" and rows >= 5
    chart = draw.area(values, cells, rows - int(marks), look.glyphs, 0.0, top, percent=field == "kv")
    if not marks:
        return chart
    preempted = draw.resample(world.trends.replica(replica.replica, "preempt"), max(1, cells - 5))
    row = "".join("x" if value else " " for value in preempted)
    return [*chart, (Cell("pre ".rjust(4) + look.glyphs.upright, "dim"), Cell(row, "bad"))]


def _said(replica: ReplicaView, field: str, title: str) -> str:
    """The chart's title with the value of now."""
    value = {
        "waiting": fmt.count(replica.waiting), "running": fmt.count(replica.running),
        "kv": f"{fmt.percent(replica.kv_usage)}%", "tokens_out": fmt.tokens_per_second(replica.output_rate),
    }[field]  # fmt: skip
    return f"{title} {value}"


def _wide(world: World, snapshot: FleetSnapshot, replica: ReplicaView, look: Look, size: Size, rest: int) -> list[Line]:
    """Framed panels: charts, latency and engine, advice, events."""
    said = advice.lines(replica, snapshot, world, size.width - 2)
    latencies = about.latency_table(replica, snapshot, phases=True)
    charts, middle_rows, below = shares(rest - len(said) - 2, (0.5, 0, 1), (10, len(latencies) + 3, 5))
    quarter, glyphs = size.width // len(PLOTS), look.glyphs
    panels = []
    for place, what in enumerate(PLOTS):
        cells = quarter if place < len(PLOTS) - 1 else size.width - quarter * (len(PLOTS) - 1)
        chart = plot(world, replica, look, what, cells - 2, charts - 2)
        panels.append(draw.framed(_said(replica, what[1], what[0]), chart, cells, charts, glyphs))
    half = size.width // 2
    tables = [
        draw.framed(LATENCY_TITLE, latencies, half, middle_rows, glyphs),
        draw.framed("Engine", about.engine(replica), size.width - half, middle_rows, glyphs),
    ]
    happened = about.events(world, replica, look, below - 2)
    return [
        *draw.beside(*panels), *draw.beside(*tables),
        *draw.framed("Advice  (y shows the numbers behind it)", said, size.width, len(said) + 2, glyphs),
        *draw.framed("Events of this replica", happened, size.width, below, glyphs),
    ]  # fmt: skip
