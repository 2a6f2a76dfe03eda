"""Demand over time with its forecast, capacity and decisions: the one chart every screen that talks of load draws.

It must not guess: without history or forecast it says what is missing. The trap: history has its own step, so the time
axis is computed from times and never from the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.domain.records import FleetSnapshot, ForecastView, JournalEntry, PoolView
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, fit
from opsconsole.tui.draw import Plot
from opsconsole.tui.viewmodel.summary import at_level, unit
from opsconsole.tui.world import Look, World

_READ = {"requests/s": "request_rate", "prompt tokens/s": "prompt_rate", "output tokens/s": "output_rate"}


def demand(
    world: World, snapshot: FleetSnapshot, pool: PoolView | None, look: Look, cells: int, rows: int
) -> list[Line]:
    """Past demand, `|` now, the forecast's median and band, and `D` where the target changed."""
    if pool is None or rows < 4 or cells < 30:
        return [(Cell(" no pool to draw", "dim"),)] if pool is None else []
    forecast = next((f for f in world.forecasts if f.pool == pool.pool and f.leads), None)
    past = past_demand(world, snapshot, pool, forecast)
    seen = [value for _, value in past if value is not None]
    if len(seen) < 2:
        return [(Cell(" demand appears after two ticks of history", "dim"),)]
    now = snapshot.at
    start = past[0][0]
    end = now + (max(forecast.leads) if forecast else 0.0)
    ahead = _quantiles(forecast)
    top = max([*seen, *(value for _, low, half, high in ahead for value in (low, half, high) if value is not None)])
    plot = Plot(cells - 6, rows - 2, start, max(end, start + 1), 0.0, max(top * 1.15, 1e-6))
    _draw(plot, past, ahead, now, look, bool(forecast))
    lines = [_scaled(line, index, plot.rows, top * 1.15, look) for index, line in enumerate(plot.lines())]
    lines.append(_axis(plot, start, now, end, look, cells))
    lines.append(_legend(forecast, world.journal, pool))
    return [fit(line, cells) for line in lines]


def past_demand(
    world: World, snapshot: FleetSnapshot, pool: PoolView, forecast: ForecastView | None
) -> list[tuple[float, float | None]]:
    """The demand series in the forecast's unit: history first, this tick last."""
    field = _READ.get(forecast.unit, "request_rate") if forecast else "request_rate"
    pairs: list[tuple[float, float | None]] = []
    for old in world.history:
        view = old.pool(pool.pool)
        if old.at < snapshot.at:
            pairs.append((old.at, getattr(view, field) if view else None))
    pairs.append((snapshot.at, getattr(pool, field)))
    return pairs


def _quantiles(forecast: ForecastView | None) -> list[tuple[float, float | None, float | None, float | None]]:
    if forecast is None:
        return []
    out = []
    for lead, values in zip(forecast.leads, forecast.quantiles, strict=False):
        at = forecast.made_at + lead
        low, half, high = (at_level(forecast.levels, values, level) for level in (0.1, 0.5, 0.9))
        out.append((at, low, half, high))
    return out


def _draw(
    plot: Plot,
    past: Sequence[tuple[float, float | None]],
    ahead: Sequence[tuple[float, float | None, float | None, float | None]],
    now: float,
    look: Look,
    forecast: bool,
) -> None:
    ascii_only = look.glyphs.name == "ascii"
    if forecast:
        plot.upright(now, ":", "dim")
        plot.points([(at, low) for at, low, _, _ in ahead], ".", "band")
        plot.points([(at, high) for at, _, _, high in ahead], ".", "band")
        plot.points([(at, half) for at, _, half, _ in ahead], "*", "accent")
    plot.points(past, "#" if ascii_only else "▀▄", "spark")


def _scaled(line: Line, row: int, rows: int, top: float, look: Look) -> Line:
    mark = row in (0, rows // 2)
    value = top * (1 - row / rows)
    scale = fmt.rate(value) if mark else ""
    return (Cell(scale.rjust(5) + (look.glyphs.axis if mark else look.glyphs.upright), "dim"), *line)


def _axis(plot: Plot, start: float, now: float, end: float, look: Look, cells: int) -> Line:
    text = list(look.glyphs.flat * plot.cells)
    for at, words in (
        (start, fmt.clock(start, look.zone, False)),
        (now, "now"),
        (end, fmt.clock(end, look.zone, False)),
    ):
        column = plot.column(at)
        if column is None or (words == "now" and end <= now):
            continue
        column = max(0, min(column, plot.cells - len(words)))
        text[column : column + len(words)] = list(words)
    return (Cell("     " + look.glyphs.corners[2], "dim"), Cell("".join(text)[: plot.cells], "dim"))


def _legend(forecast: ForecastView | None, journal: Sequence[JournalEntry], pool: PoolView) -> Line:
    if forecast is None:
        return (Cell(f" offered {fmt.rate(pool.request_rate)} req/s; no forecast yet", "dim"),)
    values = forecast.quantiles[-1] if forecast.quantiles else ()
    half, high = at_level(forecast.levels, values, 0.5), at_level(forecast.levels, values, 0.9)
    lead = fmt.span(forecast.leads[-1])
    words = f" {forecast.model}: +{lead} p50 {fmt.rate(half)}, p90 {fmt.rate(high)} {unit(forecast.unit)}"
    warn = f"  ! {forecast.warnings[0]}" if forecast.warnings else ""
    return (Cell(words, "dim"), Cell(warn, "warn"))
