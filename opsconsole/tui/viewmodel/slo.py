"""SLO and goodput: objectives with their budgets, goodput against what was offered, where requests miss and in which.

It must not decide what an objective's numbers mean; `objectives`, `misses` and `heat` do. The trap: the list of
replicas is the screen's cursor, so it keeps a row however small the window.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.domain.records import DecisionView, FleetSnapshot, PoolView, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, left, line_width, right, tail, whole
from opsconsole.tui.filters import compile_filter
from opsconsole.tui.layout import Form, Size, form, scrolled, shares
from opsconsole.tui.memo import while_shown
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, heat, misses, objectives, outlook, summary
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World, main_pool

TITLES = ("TTFT ok", "TPOT ok", "BOTH", "GOOD/s", "LOST/s")
NAME = 22


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return waiting(world, state, look, size)
    losers = _losers(snapshot, state.filter)
    order = tuple(r.replica for r in losers)
    head = [bars.header(world, state, look, size.width, "SLO")]
    draw_body = _panels if form(size) is Form.PANELS else _stacked
    body, start, room = draw_body(world, snapshot, losers, state, look, Size(size.width, size.height - 2))
    cursor = order.index(state.selected) if state.selected in order else 0
    top = scrolled(0, cursor, len(losers), room)
    foot = bars.foot(world, state, look, size.width)
    where = {start + 1 + i: name for i, name in enumerate(order[top : top + room])}
    return framed_to([*head, *body], foot, size, targets=where, top=top, order=order, rows=len(order))


@while_shown
def _losers(snapshot: FleetSnapshot, text: str) -> tuple[ReplicaView, ...]:
    """What the filter lets through, whoever misses most first."""
    return tuple(sorted(filter(compile_filter(text), snapshot.replicas), key=misses.lost, reverse=True))


def _stacked(
    world: World, snapshot: FleetSnapshot, losers: Sequence[ReplicaView], state: ViewState, look: Look, size: Size
) -> tuple[list[Line], int, int]:
    """Objectives, goodput, where misses come from, replicas; the chart gives way first."""
    across = size.width
    pool = main_pool(snapshot, state.selected)
    out = objectives.lines(snapshot, state.window, look, across, world.budgets)
    came_from = misses.found(snapshot, look.glyphs, "", state.filter)
    spare = size.height - len(out) - len(came_from) - 4  # two rules, titles, the note
    chart = max(0, min(12, spare - max(2, min(6, len(losers)))))
    if chart >= 3 and pool is not None:
        out.append(draw.rule(f"goodput and offered, req/s, {summary.past_words(world)}   {clean(pool.pool)}", across))
        out += goodput(world, snapshot, pool, look, across, chart - 1)
    out.append(draw.rule("where requests miss", across, f"{len(losers)} of {len(snapshot.replicas)}"))
    out += came_from
    out.append(_titles(across))
    start = len(out)
    room = max(0, size.height - start - 1)
    out += _rows(losers, world, state, look, across, room)
    out += [()] * (size.height - 1 - len(out))
    out.append(whole([[Cell(f" {part}", "dim")] for part in _note(snapshot)], across))
    return out, start, room


def _panels(
    world: World, snapshot: FleetSnapshot, losers: Sequence[ReplicaView], state: ViewState, look: Look, size: Size
) -> tuple[list[Line], int, int]:
    """Framed: objectives, goodput beside misses, heat map beside replicas, notes."""
    across, half, glyphs = size.width, size.width // 2, look.glyphs
    pool = main_pool(snapshot, state.selected)
    said = objectives.lines(snapshot, state.window, look, across - 2, world.budgets)
    notes = [(Cell(f"{text}", "dim"),) for text in _notes(snapshot)]
    rest = size.height - len(said) - 2 - len(notes) - 2
    upper, lower = shares(rest, (1, 1.6), (8, 8))
    out = draw.framed("Objectives", said, across, len(said) + 2, glyphs)
    chart = goodput(world, snapshot, pool, look, half - 2, upper - 2) if pool else []
    missed = misses.found(snapshot, glyphs, "", state.filter)
    span, name = summary.past_words(world), clean(pool.pool) if pool else ""
    out += draw.beside(
        draw.framed(f"Goodput and offered, req/s, {span}   {name}", chart, half, upper, glyphs),
        draw.framed("Where requests miss, now", missed, across - half, upper, glyphs),
    )  # fmt: skip
    start = len(out) + 2
    room = max(0, lower - 3)
    beside = across - half - 2
    listed = [_titles(beside), *_rows(losers, world, state, look, beside, room)]
    out += draw.beside(
        draw.framed(f"TTFT, {span} (rows are histogram buckets)", heat_map(world, snapshot, pool, look, half - 2,
                                                                           lower - 2), half, lower, glyphs),
        draw.framed(f"Per replica   {len(losers)} of {len(snapshot.replicas)}", listed, across - half, lower, glyphs),
    )  # fmt: skip
    out += draw.framed("Notes on these numbers", notes, across, len(notes) + 2, glyphs)
    return out, start, room


def goodput(world: World, snapshot: FleetSnapshot, pool: PoolView, look: Look, cells: int, height: int) -> list[Line]:
    """Offered above, goodput below, on one scale; then what is lost between them."""
    offered: list[float | None] = []
    good: list[float | None] = []
    for old in world.history:
        then = old.pool(pool.pool)
        offered.append(then.request_rate if then else None)
        good.append(then.goodput if then else None)
    offered.append(pool.request_rate)
    good.append(pool.goodput)
    top = draw.bounds([*offered, *good])[1]
    say_lost = height >= 5
    rows_left = height - 1 if say_lost else height
    half = max(1, rows_left // 2)
    out = draw.area(
        offered, cells, rows_left - half, look.glyphs, 0.0, top, f"offered {fmt.rate(pool.request_rate)}", spans=True
    )
    out += draw.area(good, cells, half, look.glyphs, 0.0, top, f"goodput {fmt.rate(pool.goodput)}", "good", spans=True)
    return [*out, _between(pool, outlook.decision_of(world, pool), cells)] if say_lost else out


def _between(pool: PoolView, decision: DecisionView | None, cells: int) -> Line:
    """lost 1.7 req/s: 5.1% of what was offered; and the knee, up to which ready replicas serve inside the objective."""
    knee = Cell(f"   knee: {outlook.capacity_words(decision, pool.ready)}", "capacity")
    offered, good = fmt.known(pool.request_rate), fmt.known(pool.goodput)
    if offered is None or good is None or offered <= 0:
        return whole([[Cell(" lost --", "dim")], [knee]], cells)
    gone = max(0.0, offered - good)
    lost = f" lost {fmt.rate(gone)} req/s: {fmt.percent(gone / offered, 1)}% of what was offered"
    short = Cell(f"   knee {fmt.rate(_knee(decision, pool))}", "capacity")
    parts = [[Cell(lost, "dim")], [knee]]
    return whole(parts, cells) if line_width([Cell(lost), knee]) <= cells else whole([parts[0], [short]], cells)


def _knee(decision: DecisionView | None, pool: PoolView) -> float | None:
    one = outlook.each(decision.capacity if decision is not None else None, "requests/s")
    return None if one is None else pool.ready * one


def heat_map(
    world: World, snapshot: FleetSnapshot, pool: PoolView | None, look: Look, cells: int, height: int
) -> list[Line]:
    """TTFT of the pool over the last hour."""
    if pool is None:
        return [(Cell(" no pool", "dim"),)]
    moments = [(old.at, then.ttft_buckets if (then := old.pool(pool.pool)) else None) for old in world.history]
    moments.append((snapshot.at, pool.ttft_buckets))
    bound = next((slo.ttft for slo in pool.slos if slo.ttft is not None), None)
    drawn = heat.heat(moments, bound, cells, height - 1, look)
    since, until = fmt.clock(moments[0][0], look.zone, False), fmt.clock(snapshot.at, look.zone, False)
    axis = left("", heat.LABEL) + look.glyphs.corners[2] + since
    axis += right(f"{until} now", max(0, cells - len(axis)))
    return [*drawn, (Cell(axis, "dim"),)] if len(drawn) > 1 else drawn


def _titles(cells: int) -> Line:
    trend = "  TREND" if cells < 80 else "  " + left("OF MISSES", 18) + ("  TREND" if cells >= 98 else "")
    titles = "".join(right(title, 9) for title in TITLES[: _numbers(cells)])
    return (Cell("  " + left("REPLICA", NAME) + titles + (trend if _numbers(cells) == len(TITLES) else ""), "dim"),)


def _numbers(cells: int) -> int:
    """How many columns of numbers there is room for."""
    return max(1, min(len(TITLES), (cells - 2 - NAME) // 9))


def _rows(
    losers: Sequence[ReplicaView], world: World, state: ViewState, look: Look, cells: int, room: int
) -> list[Line]:
    names = [r.replica for r in losers]
    cursor = names.index(state.selected) if state.selected in names else 0
    top = scrolled(0, cursor, len(losers), room)
    whole = sum(misses.lost(r) for r in losers)
    return [
        fit(_replica(replica, whole, world, look, cells, replica.replica == state.selected), cells)
        for replica in losers[top : top + room]
    ]


def _replica(replica: ReplicaView, whole: float, world: World, look: Look, cells: int, selected: bool) -> Line:
    missed = misses.lost(replica)
    known = replica.attainment is not None
    numbers = (
        fmt.share(replica.ttft_ok), fmt.share(replica.tpot_ok), fmt.share(replica.attainment),
        fmt.rate(replica.goodput), fmt.rate(missed) if known else fmt.MISSING,
    )  # fmt: skip
    part = missed / whole if whole > 0 and known else None
    spark = draw.spark(world.trends.replica(replica.replica, "met"), 8 if cells >= 80 else 7, look.glyphs, 0.0, 1.0)
    share = (
        Cell("  " + draw.bar(part, 10, look.glyphs), "bar"),
        Cell(left(f" {fmt.percent(part)}%" if part is not None else "", 8), "dim"),
    )
    line = (
        Cell("> " if selected else "  ", "mark"),
        Cell(tail(clean(replica.replica), NAME)),
        Cell("".join(right(text, 9) for text in numbers[: _numbers(cells)])),
        *(share if cells >= 80 else ()),
        Cell(f"  {spark}" if cells < 80 or cells >= 98 else "", "spark"),
    )
    return tuple(Cell(c.text, f"{c.style}|sel") for c in line) if selected else line


def _note(snapshot: FleetSnapshot) -> tuple[str, str]:
    exact = [slo.exact for pool in snapshot.pools for slo in pool.slos]
    if exact and all(exact):
        return "both: exact, counted for each request.", "LOST/s: offered and outside a bound."
    return "both: a range where the engine exports TTFT and TPOT apart.", "LOST/s: what surely missed."


def _notes(snapshot: FleetSnapshot) -> tuple[str, ...]:
    return (
        " ".join(_note(snapshot)),
        "by phase: an estimate; what missed TTFT is divided as its 95th percentile divides between queue and prefill.",
        "Shares are of requests offered. STALE, DOWN and WARM replicas are left out. A bound between histogram edges "
        "is shown as a range.",
    )
