"""Forecast and decisions: demand with its band, the newest or selected decision rule by rule, and the history.

It must not reconstruct a decision; the trace was written by the rules. The trap: when time was travelled, forecast
and decision are those of then, and what happened afterwards is not known yet.
"""

from __future__ import annotations

from opsconsole.domain.records import DecisionView, FleetSnapshot, JournalEntry, PoolView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, whole
from opsconsole.tui.layout import Form, Size, form, scrolled, shares
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, charts, journal, lists, outlook, panels, why
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World, main_pool


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return waiting(world, state, look, size)
    listed = [entry for entry in lists.entries(world, state) if isinstance(entry, JournalEntry)]
    pool = main_pool(snapshot, state.selected)
    decision = chosen(listed, state, world, pool)
    lines = [bars.header(world, state, look, size.width, "DECISIONS"), _model(world, snapshot, pool, state, size.width)]
    arrange = _panels if form(size) is Form.PANELS else _stacked
    body = arrange(world, snapshot, pool, decision, listed, state, look, size, size.height - len(lines) - 1)
    return framed_to([*lines, *body], bars.foot(world, state, look, size.width), size, rows=len(listed))


def chosen(listed: list[JournalEntry], state: ViewState, world: World, pool: PoolView | None) -> DecisionView | None:
    """The decision under the cursor, or the one an entry came from; at the top of the list the pool's newest."""
    cursor = min(state.cursor("decisions"), max(0, len(listed) - 1))
    if cursor == 0 or not listed:
        newest = next((d for d in world.decisions if pool is None or d.pool == pool.pool), None)
        if newest is not None:
            return newest
    for entry in listed[cursor:]:
        if entry.decision is not None:
            return entry.decision
    return None


def _model(world: World, snapshot: FleetSnapshot, pool: PoolView | None, state: ViewState, cells: int) -> Line:
    """What forecasts, how long a start takes, and standing orders."""
    forecast, decision = outlook.forecast_of(world, pool, state.series), outlook.decision_of(world, pool)
    parts = [[Cell(f" {outlook.lead_words(decision)}", "text")]]
    if forecast is not None:
        old = fmt.span(max(0.0, snapshot.at - forecast.made_at))
        parts.append([Cell(f"   {clean(forecast.model)}, {old} old", "warn" if forecast.demoted else "text")])
    for hold in world.holds:
        what = f"minimum pinned at {hold.minimum}" if hold.kind == "pin" else "PAUSED"
        parts.append([Cell(f"   {what} by {clean(hold.by)}", "warn")])
    parts.append([Cell(f"   {snapshot.mode.upper()}: {panels.mode_words(snapshot.mode)}", "dim")])
    return whole(parts, cells)


def _learned(world: World, pool: PoolView | None, state: ViewState, cells: int) -> Line:
    """Whether the forecast has earned its place, and whether the decisions were right."""
    forecast, decision = outlook.forecast_of(world, pool, state.series), outlook.decision_of(world, pool)
    lead = decision.lead if decision is not None else None
    tally = forecast.regret if forecast is not None else None
    style = "warn" if forecast is not None and forecast.demoted else "text"
    skill = Cell(f" {outlook.skill_words(forecast, lead)}   ", style)
    return whole([[skill], [Cell(outlook.regret_words(tally), "dim")]], cells)


def _stacked(
    world: World, snapshot: FleetSnapshot, pool: PoolView | None, of: DecisionView | None,
    listed: list[JournalEntry], state: ViewState, look: Look, size: Size, rest: int,
) -> list[Line]:  # fmt: skip
    """The 80x24 layout: chart, what was learned, rules, history."""
    reasons = why.of_decision(of, look, size.width - 2) if of else []
    need = len(reasons) + 1 if reasons else 2
    chart_rows, why_rows, list_rows = shares(
        rest, (2, 0.5, 1), (0 if rest < 16 else 8, min(need, max(3, rest // 2)), 3)
    )
    out: list[Line] = []
    if chart_rows >= 7:
        out.append(draw.rule(f"demand: past | forecast   {clean(pool.pool) if pool else ''}", size.width))
        chart = charts.demand(world, snapshot, pool, look, size.width, chart_rows - 2, state.series, state.horizon)
        out += [*_padded(chart, chart_rows - 2), _learned(world, pool, state, size.width)]
    elif chart_rows:
        why_rows += chart_rows
    out.append(draw.rule("why", size.width))
    shown = [(Cell(" "), *line) for line in reasons] or [(Cell(" nothing decided yet", "dim"),)]
    out += _padded(shown, why_rows - 1)
    out.append(draw.rule("history", size.width, f"{len(listed)}"))
    out += history(listed, state, snapshot, look, list_rows - 1, size.width)
    return out


def _panels(
    world: World, snapshot: FleetSnapshot, pool: PoolView | None, of: DecisionView | None,
    listed: list[JournalEntry], state: ViewState, look: Look, size: Size, rest: int,
) -> list[Line]:  # fmt: skip
    """Chart; why, counterfactual and skill; history and what starts cost."""
    chart_rows, why_rows, list_rows = shares(rest, (3, 1, 2), (12, 14, 8))
    width, glyphs = size.width, look.glyphs
    title = f"Demand: past | forecast, p10 to p90   {clean(pool.pool) if pool else ''}"
    chart = charts.demand(world, snapshot, pool, look, width - 2, chart_rows - 3, state.series, state.horizon)
    chart = [*_padded(chart, chart_rows - 3), _learned(world, pool, state, width - 2)]
    narrow = 42
    reasons = (
        why.of_decision(of, look, width - 2 * narrow - 4, others=False)
        if of
        else [(Cell("nothing decided yet", "dim"),)]
    )
    forecast, decision = outlook.forecast_of(world, pool, state.series), outlook.decision_of(world, pool)
    table = outlook.skill_table(forecast, decision.lead if decision else None, narrow - 2, why_rows - 2)
    rows = history(listed, state, snapshot, look, list_rows - 2, width - narrow - 2)
    costs = outlook.start_cost(snapshot, pool, look, narrow - 2, forecast.needs if forecast else ())
    return [
        *draw.framed(title, chart, width, chart_rows, glyphs),
        *draw.beside(
            draw.framed("Why", [(Cell(" "), *line) for line in reasons], width - 2 * narrow, why_rows, glyphs),
            draw.framed("Had it been decided otherwise", counterfactual(of), narrow, why_rows, glyphs),
            draw.framed("Forecast against what came, by lead", table, narrow, why_rows, glyphs),
        ),
        *draw.beside(
            draw.framed(f"History   {len(listed)} entries", rows, width - narrow, list_rows, glyphs),
            draw.framed("What starts cost", costs, narrow, list_rows, glyphs),
        ),
    ]  # fmt: skip


def counterfactual(of: DecisionView | None) -> list[Line]:
    """What other laws would have wanted from the same inputs, as journalled with the decision."""
    if of is None or not of.counterfactual:
        return [(Cell(" no other law was asked", "dim"),)]
    out: list[Line] = [(Cell(f" decided {of.target}", "title"),)]
    for words, count in of.counterfactual.items():
        differs = "text" if count == of.target else "warn"
        out.append((Cell(f" {count:>4} ", differs), Cell(clean(words), "dim")))
    return out


def history(
    listed: list[JournalEntry], state: ViewState, snapshot: FleetSnapshot, look: Look, room: int, cells: int
) -> list[Line]:
    if not listed:
        return [(Cell(" nothing decided yet", "dim"),)]
    cursor = min(state.cursor("decisions"), len(listed) - 1)
    top = scrolled(0, cursor, len(listed), room)
    out: list[Line] = []
    for index, entry in enumerate(listed[top : top + max(0, room)], start=top):
        line = fit(journal.line(entry, look, snapshot.mode, len(snapshot.pools) > 1), cells)
        out.append(tuple(Cell(c.text, f"{c.style}|sel") for c in line) if index == cursor else line)
    return out


def _padded(lines: list[Line], rows: int) -> list[Line]:
    return [*lines[:rows], *([()] * max(0, rows - len(lines)))]
