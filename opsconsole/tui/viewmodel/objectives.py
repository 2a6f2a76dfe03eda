"""Objectives as rows: what was met over which window, what is left of the budget, how fast it goes, when it is spent.

It must not turn a bound into a number. The trap: a class without requests in a window has no attainment there, which is
not 100 %; and a budget that burns slower than evenly never runs out, which is `-` and not a long time.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.domain.budget import DAY_S, MONTH_S
from opsconsole.domain.records import BudgetView, FleetSnapshot, Interval, PoolView, SloView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, right, whole
from opsconsole.tui.state import WINDOWS
from opsconsole.tui.viewmodel import summary
from opsconsole.tui.world import Look

ALL_CELLS = 80  # below, how fast the budget goes is left to wider windows
FAST = 6.0  # times even spending: the short window's alarm


def window_word(slo: SloView | None, window: str) -> str:
    """How long a window is, as the agent has it set: 5m, 1h; `now` is the agent's own window."""
    if window == "now" or slo is None:
        return "now"
    return fmt.brief(slo.short_s if window == "short" else slo.long_s)


def attained(slo: SloView, window: str) -> Interval | None:
    """The share that met every bound over one of WINDOWS."""
    return {"now": slo.attainment, "short": slo.attainment_short, "long": slo.attainment_long}[window]


def runs_out(slo: SloView) -> str:
    """When the budget is spent at the present speed: 24m10s; `-` when it is never, `--` when unknown."""
    left_over, speed = fmt.known(slo.budget_left), fmt.known(slo.burn_short)
    if left_over is None or speed is None:
        return fmt.MISSING
    if left_over <= 0:
        return "spent"
    return fmt.span(left_over * slo.long_s / speed) if speed > 1 else "-"


def state_word(slo: SloView) -> str:
    """In words: holds, burning, spent."""
    if slo.attainment is None:
        return "no requests yet" if slo.attainment_long is None else "no requests now"
    if slo.budget_left is not None and slo.budget_left <= 0:
        return "budget spent"
    if slo.burn_short is None:
        return fmt.MISSING
    if slo.burn_short >= FAST:
        return "FAST BURN"
    return "burning" if slo.burn_short > 1 else "holds"


def lines(
    snapshot: FleetSnapshot, window: str, look: Look, cells: int, budgets: Sequence[BudgetView] = ()
) -> list[Line]:
    """One line for each class of each pool and one for its weeks; with room, all windows and a line for each bound."""
    slos = [(pool, slo) for pool in snapshot.pools for slo in pool.slos]
    if not slos:
        return [(Cell(" no objective is set", "dim"),)]
    wide = cells >= 120
    shown = WINDOWS if wide else (window,)
    name_cells = 34 if wide else 24
    first = slos[0][1]
    head = left(" OBJECTIVE", name_cells)
    head += "".join(right(f"MET {window_word(first, w)}", 11 if wide else 9) for w in shown)
    head += right("TARGET", 8) + "  " + left("BUDGET LEFT", 16 if wide else 12)
    if cells >= ALL_CELLS:
        head += right(f"BURN {fmt.brief(first.short_s)}", 9) + right(fmt.brief(first.long_s), 6) + right("RUNS OUT", 10)
    out: list[Line] = [(Cell(head, "dim"), Cell("  STATE" if wide or cells >= 90 else "", "dim"))]
    for pool, slo in slos:
        line = _joint(pool, slo, shown, look, name_cells, wide, len(snapshot.pools) > 1)
        out.append(line if cells >= ALL_CELLS else line[: 4 + len(shown)])
        if wide:
            out += _single(slo, name_cells)
        kept = next((b for b in budgets if (b.pool, b.slo) == (pool.pool, slo.name)), None)
        out += _weeks(kept, slo, cells)
    return out


def _weeks(kept: BudgetView | None, slo: SloView, cells: int) -> list[Line]:
    """over 30d: 98.61% of 41.2M requests met, 31% of that budget left; nothing while all of it is about today."""
    if kept is None or kept.until - kept.since < 2 * slo.long_s:
        return []
    span = kept.until - kept.since
    over = "30d" if span >= MONTH_S - DAY_S else fmt.span(span)
    met = (
        Cell(f"   over {over}: "), Cell(fmt.share(kept.met, 2), summary.met_style(kept.met, kept.target)),
        Cell(f" of {fmt.count(kept.offered)} requests met", "dim"),
    )  # fmt: skip
    if kept.left is None:
        return [whole([met], cells)]
    floor, most = max(0.0, kept.left.low), max(0.0, kept.left.high)
    left_over = Cell(fmt.share(Interval(floor, most), 0), summary.budget_style(floor))
    return [whole([met, [Cell(", "), left_over, Cell(" of that budget left", "dim")]], cells)]


def _joint(
    pool: PoolView, slo: SloView, shown: tuple[str, ...], look: Look, name_cells: int, wide: bool, several: bool
) -> Line:
    name = f"{clean(pool.pool)}/{clean(slo.name)}" if several else clean(slo.name)
    bounds = " ".join(f"{n}<{fmt.bound(b)}" for n, b in (("ttft", slo.ttft), ("tpot", slo.tpot)) if b is not None)
    budget, word = slo.budget_left, state_word(slo)
    burning = slo.burn_short is not None and slo.burn_short > 1
    met = [(attained(slo, window), 11 if wide else 9) for window in shown]
    return (
        Cell(left(f" {name} {bounds}", name_cells)),
        *(Cell(right(fmt.share(share), size), summary.met_style(share, slo.target)) for share, size in met),
        Cell(right(f"{fmt.percent(slo.target, 1)}%", 8), "dim"),
        Cell("  " + right(fmt.percent(max(0.0, budget) if budget is not None else None), 4) + " "),
        Cell(draw.bar(budget, 11 if wide else 7, look.glyphs), summary.budget_style(budget or 0.0)),
        Cell(right(_speed(slo), 9), "bad" if burning else "text"),
        Cell(right(fmt.burn(slo.burn_long), 6)),
        Cell(right(runs_out(slo), 10), "bad" if burning else "dim"),
        Cell(f"  {word}", "bad" if burning and word != "holds" else "dim"),
    )


def _speed(slo: SloView) -> str:
    """The short window's burn, with a mark from where it is an alarm."""
    fast = slo.burn_short is not None and slo.burn_short >= FAST
    return f"{fmt.burn(slo.burn_short)}!" if fast else fmt.burn(slo.burn_short)


def _single(slo: SloView, name_cells: int) -> list[Line]:
    """The bounds one by one; only the newest window has them apart."""
    out: list[Line] = []
    for name, bound, met in (("ttft", slo.ttft, slo.ttft_ok), ("tpot", slo.tpot, slo.tpot_ok)):
        if bound is not None:
            out.append((
                Cell(left(f"   {name} alone < {fmt.bound(bound)}", name_cells), "dim"),
                Cell(right(fmt.share(met), 11), summary.met_style(met, slo.target)),
            ))  # fmt: skip
    return out
