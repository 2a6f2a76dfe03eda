"""SLO and goodput: objectives with budget and burn, goodput against what was offered, and which replica misses.

It must not turn a bound into a number: where TTFT and TPOT are exported apart, "both" is a range and says so. The
trap: a class without requests in the window has no attainment, which is not 100 %.
"""

from __future__ import annotations

from opsconsole.domain.records import FleetSnapshot, PoolView, ReplicaView, SloView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, left, right, tail
from opsconsole.tui.layout import Size, scrolled
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, fleet, rows, summary
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.world import Look, World, main_pool


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return fleet.waiting(world, state, look, size, "SLO")
    lines: list[Line] = [bars.header(world, state, look, size.width, "SLO")]
    lines += objectives(snapshot, look, size.width)
    pool = main_pool(snapshot, state.selected)
    chart_rows = max(0, min(14, (size.height - len(lines) - 8) // 2))
    if chart_rows >= 3 and pool is not None:
        lines.append(draw.rule(f"goodput and offered, req/s, last hour   {clean(pool.pool)}", size.width))
        lines += _goodput(world, pool, look, size.width, chart_rows)
    losers = sorted(rows.matching(snapshot, state), key=_lost, reverse=True)
    lines.append(draw.rule("where requests miss, by replica", size.width, f"{len(losers)} of {len(snapshot.replicas)}"))
    lines.append(
        (Cell("  " + left("REPLICA", 22) + "".join(right(t, 9) for t in TITLES) + "  share of misses", "dim"),)
    )
    start = len(lines)
    room = max(0, size.height - start - 2)
    order = tuple(r.replica for r in losers)
    cursor = order.index(state.selected) if state.selected in order else 0
    top = scrolled(0, cursor, len(losers), room)
    whole = sum(_lost(r) for r in losers)
    for replica in losers[top : top + room]:
        line = _replica(replica, whole, look, replica.replica == state.selected)
        lines.append(fit(line, size.width))
    note = _note(snapshot)
    lines += [()] * (size.height - 2 - len(lines))
    lines.append((Cell(f" {note}", "dim"),))
    where = {start + i: name for i, name in enumerate(order[top : top + room])}
    foot = bars.foot(world, state, look, size.width)
    return framed_to(lines, foot, size, targets=where, top=top, order=order, rows=len(order))


TITLES = ("TTFT ok", "TPOT ok", "BOTH", "GOOD/s", "LOST/s")


def objectives(snapshot: FleetSnapshot, look: Look, cells: int) -> list[Line]:
    """One line for each class of each pool."""
    wide = cells >= 100
    head = (
        left(" OBJECTIVE", 30 if wide else 24) + right("MET", 9) + right("TARGET", 8) + "  " + left("BUDGET LEFT", 17)
    )
    out: list[Line] = [(Cell(head + right("BURN", 7) + right("LONG", 7) + "  RUNS OUT", "dim"),)]
    for pool in snapshot.pools:
        for slo in pool.slos:
            out.append(_objective(pool, slo, look, 30 if wide else 24, len(snapshot.pools) > 1))
    if len(out) == 1:
        out.append((Cell(" no objective is set", "dim"),))
    return out


def _objective(pool: PoolView, slo: SloView, look: Look, name_cells: int, several: bool) -> Line:
    bounds = " ".join(f"{n}<{fmt.bound(b)}" for n, b in (("ttft", slo.ttft), ("tpot", slo.tpot)) if b is not None)
    name = f"{clean(pool.pool)}/{clean(slo.name)}" if several else clean(slo.name)
    budget = slo.budget_left
    burning = slo.burn_short is not None and slo.burn_short > 1
    return (
        Cell(left(f" {name} {bounds}", name_cells)),
        Cell(right(fmt.share(slo.attainment), 9), summary.met_style(slo.attainment, slo.target)),
        Cell(right(f"{fmt.percent(slo.target, 1)}%", 8), "dim"),
        Cell("  " + right(fmt.percent(max(0.0, budget) if budget is not None else None), 4) + " "),
        Cell(draw.bar(budget, 12, look.glyphs), summary.budget_style(budget) if budget is not None else "dim"),
        Cell(right(fmt.burn(slo.burn_short), 7), "bad" if burning else "text"),
        Cell(right(fmt.burn(slo.burn_long), 7)),
        Cell(f"  {_state(slo)}", "bad" if burning and _state(slo) != "holds" else "dim"),
    )


def _state(slo: SloView) -> str:
    """In words: holds, burning, spent."""
    if slo.attainment is None:
        return "no requests yet"
    if slo.budget_left is not None and slo.budget_left <= 0:
        return "budget spent"
    if slo.burn_short is None:
        return fmt.MISSING
    if slo.burn_short >= 6:
        return "FAST BURN"
    return "burning" if slo.burn_short > 1 else "holds"


def _goodput(world: World, pool: PoolView, look: Look, cells: int, height: int) -> list[Line]:
    offered: list[float | None] = []
    good: list[float | None] = []
    for old in world.history:
        then = old.pool(pool.pool)
        offered.append(then.request_rate if then else None)
        good.append(then.goodput if then else None)
    offered.append(pool.request_rate)
    good.append(pool.goodput)
    top = draw.bounds([*offered, *good])[1]
    half = max(1, height // 2)
    out = draw.area(offered, cells, height - half, look.glyphs, 0.0, top, f"offered {fmt.rate(pool.request_rate)}")
    out += draw.area(good, cells, half, look.glyphs, 0.0, top, f"goodput {fmt.rate(pool.goodput)}", "good")
    return out


def _lost(replica: ReplicaView) -> float:
    """Requests a second that missed, the sure part of them."""
    if replica.request_rate is None or replica.attainment is None:
        return 0.0
    return replica.request_rate * (1 - replica.attainment.high)


def _replica(replica: ReplicaView, whole: float, look: Look, selected: bool) -> Line:
    lost = _lost(replica)
    known = replica.attainment is not None
    cells = (
        fmt.share(replica.ttft_ok), fmt.share(replica.tpot_ok), fmt.share(replica.attainment),
        fmt.rate(replica.goodput), fmt.rate(lost) if known else fmt.MISSING,
    )  # fmt: skip
    part = lost / whole if whole > 0 and known else None
    line = (
        Cell("> " if selected else "  ", "mark"),
        Cell(tail(clean(replica.replica), 22)),
        Cell("".join(right(text, 9) for text in cells)),
        Cell("  " + draw.bar(part, 10, look.glyphs), "bar"),
        Cell(f" {fmt.percent(part)}%" if part is not None else "", "dim"),
    )
    return tuple(Cell(c.text, f"{c.style}|sel") for c in line) if selected else line


def _note(snapshot: FleetSnapshot) -> str:
    exact = [slo.exact for pool in snapshot.pools for slo in pool.slos]
    if exact and all(exact):
        return "both: exact, counted for each request. LOST/s: offered and outside a bound."
    return "both: a range where the engine exports TTFT and TPOT apart. LOST/s: the sure part of what missed."
