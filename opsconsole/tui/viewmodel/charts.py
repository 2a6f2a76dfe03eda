"""Demand over time with its forecast, capacity and decisions: the one chart every screen that talks of load draws.

It must not guess: without history, forecast or capacity it says what is missing. The trap: history has its own step,
so the time axis is computed from times and never from the number of points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opsconsole.domain.records import DecisionView, FleetSnapshot, ForecastView, JournalEntry, PoolView
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, whole
from opsconsole.tui.draw import Plot
from opsconsole.tui.memo import kept_by
from opsconsole.tui.viewmodel import outlook
from opsconsole.tui.viewmodel.summary import at_level, unit
from opsconsole.tui.world import Look, World

Pairs = list[tuple[float, float | None]]
LEAST_CELLS, LEAST_ROWS = 30, 4
REDRAWN_S = 5.0  # a column of the chart is at least half a minute, or 8 s of the shortest horizon
SEEN = 0.08  # by what share a value has to grow to be drawn higher


@dataclass(frozen=True, slots=True)
class Curves:
    """Everything the chart shows, on one axis: Unix seconds, and the series' unit."""

    past: Pairs
    ahead: list[tuple[float, float | None, float | None, float | None]]  # time, p10, p50, p90
    supply: list[tuple[float, float]]  # step function: from a time on, what ready replicas surely serve
    marks: list[float]  # when a target was changed
    now: float

    @property
    def top(self) -> float:
        """The highest value drawn."""
        seen = [v for _, v in self.past if v is not None] + [v for _, v in self.supply]
        return max([*seen, *(v for _, *three in self.ahead for v in three if v is not None)], default=1.0)


def demand(
    world: World, snapshot: FleetSnapshot, pool: PoolView | None, look: Look, cells: int, rows: int,
    series: str = "", horizon: float = 0.0,
) -> list[Line]:  # fmt: skip
    """Past demand, `:` now, the forecast's median and band, capacity with what starts, `D` where a target moved."""
    if pool is None or rows < LEAST_ROWS or cells < LEAST_CELLS:
        return [(Cell(" no pool to draw", "dim"),)] if pool is None else []
    return list(_demand(world, snapshot, pool, look.lasting, cells, rows, series, horizon))


def _drawn_from(
    world: World, snapshot: FleetSnapshot, pool: PoolView, look: Look, cells: int, rows: int, series: str,
    horizon: float,
) -> tuple[object, ...]:  # fmt: skip
    """All that the chart shows: what comes seldom as it is, the tick's own as finely as it can be seen."""
    forecast = outlook.forecast_of(world, pool, series)
    value = getattr(pool, outlook.FIELDS.get(forecast.unit if forecast is not None else "", "request_rate"))
    height = math.log(value) // SEEN if value is not None and value > 0 else value
    newest = (snapshot.at // REDRAWN_S, pool.pool, pool.ready, height)
    seldom = (world.history, world.forecasts, world.decisions, world.journal)
    return (*seldom, *newest, look, cells, rows, series, horizon)


@kept_by(_drawn_from)
def _demand(
    world: World, snapshot: FleetSnapshot, pool: PoolView, look: Look, cells: int, rows: int, series: str,
    horizon: float,
) -> list[Line]:  # fmt: skip
    forecast = outlook.forecast_of(world, pool, series)
    decision = outlook.decision_of(world, pool)
    found = curves(world, snapshot, pool, forecast, decision, horizon)
    if sum(value is not None for _, value in found.past) < 2:
        return [(Cell(" demand appears after two ticks of history", "dim"),)]
    start, top = found.past[0][0], found.top * 1.15
    end = max([found.now, *(at for at, *_ in found.ahead)])
    plot = Plot(cells - 6, rows - 2, start, max(end, start + 1), 0.0, max(top, 1e-6))
    _draw(plot, found, look)
    lines = [_scaled(line, index, plot.rows, top, look) for index, line in enumerate(plot.lines())]
    lines.append(_axis(plot, start, end, found, look))
    lines.append(_legend(forecast, decision, pool, cells))
    return [fit(line, cells) for line in lines]


def curves(
    world: World, snapshot: FleetSnapshot, pool: PoolView, forecast: ForecastView | None,
    decision: DecisionView | None, horizon: float = 0.0,
) -> Curves:  # fmt: skip
    """The curves within `horizon` seconds before and after now; all there is for 0."""
    series = forecast.unit if forecast is not None else "requests/s"
    since = snapshot.at - horizon if horizon else float("-inf")
    until = snapshot.at + horizon if horizon else float("inf")
    past = [pair for pair in past_demand(world, snapshot, pool, series) if pair[0] >= since]
    ahead = [point for point in _quantiles(forecast) if point[0] <= until]
    one = outlook.each(decision.capacity if decision is not None else None, series)
    supply = [] if one is None else _supply(world, snapshot, pool, decision, one, since)
    return Curves(past, ahead, supply, [at for at in moved(world.journal, pool.pool) if at >= past[0][0]], snapshot.at)


def past_demand(world: World, snapshot: FleetSnapshot, pool: PoolView, series: str) -> Pairs:
    """The demand series in the forecast's unit: history first, this tick last."""
    field = outlook.FIELDS.get(series, "request_rate")
    pairs: Pairs = []
    for old in world.history:
        view = old.pool(pool.pool)
        if old.at < snapshot.at:
            pairs.append((old.at, getattr(view, field) if view else None))
    pairs.append((snapshot.at, getattr(pool, field)))
    return pairs


def moved(journal: Sequence[JournalEntry], pool: str) -> list[float]:
    """When a decision asked for another number than there was."""
    return [
        e.at for e in journal
        if e.kind == "decision" and e.decision is not None and e.decision.pool == pool
        and e.decision.current != e.decision.target
    ]  # fmt: skip


def _quantiles(forecast: ForecastView | None) -> list[tuple[float, float | None, float | None, float | None]]:
    if forecast is None:
        return []
    out = []
    for lead, values in zip(forecast.leads, forecast.quantiles, strict=False):
        low, half, high = (at_level(forecast.levels, values, level) for level in (0.1, 0.5, 0.9))
        out.append((forecast.made_at + lead, low, half, high))
    return out


def _supply(
    world: World, snapshot: FleetSnapshot, pool: PoolView, decision: DecisionView | None, one: float, since: float
) -> list[tuple[float, float]]:
    """Ready replicas of the past, then those expected, times what one surely serves."""
    points = [
        (old.at, view.ready * one) for old in world.history
        if since <= old.at < snapshot.at and (view := old.pool(pool.pool)) is not None
    ]  # fmt: skip
    points.append((snapshot.at, pool.ready * one))
    points += [(p.at, p.replicas * one) for p in (decision.supply if decision else ()) if p.at > snapshot.at]
    return points


def _draw(plot: Plot, found: Curves, look: Look) -> None:
    ascii_only = look.glyphs.name == "ascii"
    if found.ahead:
        plot.upright(found.now, ":", "dim")
        plot.points([(at, low) for at, low, _, _ in found.ahead], ".", "band")
        plot.points([(at, high) for at, _, _, high in found.ahead], ".", "band")
    _steps(plot, found.supply, "-" if ascii_only else "╌")
    if found.ahead:
        plot.points([(at, half) for at, _, half, _ in found.ahead], "*", "accent")
    plot.points(found.past, "oo" if ascii_only else "▀▄", "spark")


def _steps(plot: Plot, supply: Sequence[tuple[float, float]], char: str) -> None:
    """A step function: each value holds until the next, the last one to the end."""
    held: int | None = None
    values = {plot.column(at): value for at, value in supply}
    for column in range(plot.cells):
        if column in values:
            held = plot.row(values[column])
        if held is not None:
            plot.put(column, held, char, "capacity")


def _scaled(line: Line, row: int, rows: int, top: float, look: Look) -> Line:
    mark = row in (0, rows // 2)
    value = top * (1 - row / rows)
    scale = fmt.rate(value) if mark else ""
    return (Cell(scale.rjust(5) + (look.glyphs.axis if mark else look.glyphs.upright), "dim"), *line)


def _axis(plot: Plot, start: float, end: float, found: Curves, look: Look) -> Line:
    text = list(look.glyphs.flat * plot.cells)
    for at in found.marks:
        if (column := plot.column(at)) is not None:
            text[column] = "D"
    for at, words in (
        (start, fmt.clock(start, look.zone, False)),
        (found.now, "now"),
        (end, fmt.clock(end, look.zone, False)),
    ):
        column = plot.column(at)
        if column is None or (words == "now" and end <= found.now):
            continue
        column = max(0, min(column, plot.cells - len(words)))
        text[column : column + len(words)] = list(words)
    return (Cell("     " + look.glyphs.corners[2], "dim"), Cell("".join(text)[: plot.cells], "dim"))


def _legend(forecast: ForecastView | None, decision: DecisionView | None, pool: PoolView, cells: int) -> Line:
    series = forecast.unit if forecast is not None else "requests/s"
    known = decision is not None and outlook.each(decision.capacity, series) is not None
    capacity = f"   - {outlook.capacity_words(decision, pool.ready, series)}" if known else ""
    if forecast is None:
        words = f" offered {fmt.rate(pool.request_rate)} req/s; no forecast yet"
        return whole([[Cell(words, "dim")], [Cell(capacity, "capacity")]], cells)
    values = forecast.quantiles[-1] if forecast.quantiles else ()
    half, high = at_level(forecast.levels, values, 0.5), at_level(forecast.levels, values, 0.9)
    lead = fmt.brief(forecast.leads[-1])
    words = f" {clean(forecast.model)}: +{lead} p50 {fmt.rate(half)}, p90 {fmt.rate(high)} {unit(forecast.unit)}"
    warn = f"  ! {clean(forecast.warnings[0])}" if forecast.warnings else ""
    return whole([[Cell(words, "dim")], [Cell(capacity, "capacity")], [Cell(warn, "warn")]], cells)
