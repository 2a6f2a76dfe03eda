"""The lines above the fleet's table: how many, how well, how much; totals come from pools, never from adding rows here.

It must not average anything. The trap: with several pools there is no fleet-wide latency (their buckets differ and
their objectives too), so the SLO line is the selected pool's and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsconsole.domain.records import FleetSnapshot, ForecastView, Interval, PoolView, ReplicaState, SloView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, line_width, whole
from opsconsole.tui.world import Look, Trends, World

TREND_S, MOVED = 300.0, 0.002
HOUR_S = 3300.0  # near enough to call it one


def total(pools: Sequence[PoolView], read: Callable[[PoolView], float | None]) -> float | None:
    """A sum over pools; None when no pool knows."""
    seen = [value for value in map(read, pools) if value is not None]
    return sum(seen) if seen else None


def counts(snapshot: FleetSnapshot, look: Look, cells: int) -> Line:
    """READY 6  WARM 1  DRAIN 1  DOWN 0   want 9 (+1 in 00:42)   GPU 9   22.4 $/h; as much as fits."""
    pools = snapshot.pools
    numbers = {word: sum(getattr(p, word) for p in pools) for word in ("ready", "warming", "draining", "stale", "down")}
    words = {"ready": "OK", "warming": "WARM", "draining": "DRAIN", "stale": "STALE", "down": "DOWN"}
    titles = {"ready": "READY", "warming": "WARM", "draining": "DRAIN", "stale": "STALE", "down": "DOWN"}
    gap = "" if numbers["stale"] else " "
    parts: list[list[Cell]] = []
    for word, number in numbers.items():
        if word == "stale" and not number:
            continue
        parts.append([Cell(f" {titles[word]} ", "dim"), Cell(f"{number}{gap}", words[word] if number else "dim")])
    wants = [p.want for p in pools if p.want is not None]
    if wants:
        parts.append([Cell(f"  want {sum(wants)}", "text"), Cell(coming(snapshot), "WARM")])
    gpus = total(pools, lambda p: p.gpus)
    if gpus is not None:
        parts.append([Cell(f"  GPU {gpus:.0f}", "text")])
    price = total(pools, lambda p: p.price_per_hour)
    if price is not None:
        parts.append([Cell(f"  {fmt.money(price)} $/h", "text")])
    return whole(parts, cells)


def coming(snapshot: FleetSnapshot) -> str:
    """Replicas on their way and when the first is expected."""
    warming = [r for r in snapshot.replicas if r.state is ReplicaState.WARMING]
    if not warming:
        return ""
    due = [r.expected_ready_at for r in warming if r.expected_ready_at is not None]
    if not due:
        return f" (+{len(warming)} warming)"
    left = min(due) - snapshot.at
    return f" (+{len(warming)} in {fmt.age(left)})" if left > 0 else f" (+{len(warming)} late by {fmt.span(-left)})"


def past_words(world: World) -> str:
    """How far back the charts reach: last hour, or less while the agent is young."""
    if world.snapshot is None or not world.history:
        return "no history yet"
    seconds = world.snapshot.at - world.history[0].at
    return "last hour" if seconds >= HOUR_S else f"last {max(1, round(seconds / 60))} min"


def earlier(world: World, pool: PoolView | None) -> PoolView | None:
    """The pool as it was about five minutes ago; None where history does not hold it."""
    if pool is None or world.snapshot is None:
        return None
    for old in reversed(world.history):
        gone = world.snapshot.at - old.at
        if gone >= TREND_S:
            return old.pool(pool.pool) if gone < 2 * TREND_S else None
    return None


def trend(now: Interval | None, then: Interval | None, look: Look) -> Cell:
    """A mark for better or worse than five minutes ago; nothing for what moved less than shows."""
    if now is None or then is None or abs(now.low - then.low) < MOVED:
        return Cell("")
    return Cell(look.glyphs.up, "good") if now.low > then.low else Cell(look.glyphs.down, "bad")


def slo_line(pool: PoolView | None, several: bool, then: PoolView | None, look: Look, cells: int) -> Line:
    """SLO ttft<1s 97.2%v  tpot<50ms 99.6%  both >=96.8% of 98.0  budget 41%  burn 2.9x; as much as fits."""
    if pool is None or not pool.slos:
        return (Cell(" SLO none set: name one in the configuration, or `up --slo ttft=1s,tpot=80ms`", "dim"),)
    slo = worst_slo(pool.slos)
    before = next((old for old in then.slos if old.name == slo.name), None) if then is not None else None
    named = [Cell(" SLO", "dim")]
    if several:
        named.append(Cell(f" {clean(pool.pool)}", "title"))
    if slo.name != "default" or len(pool.slos) > 1:
        named.append(Cell(f" {clean(slo.name)}", "title"))
    alone: list[list[Cell]] = []
    for name, bound, met, old in (
        ("ttft", slo.ttft, slo.ttft_ok, before.ttft_ok if before is not None else None),
        ("tpot", slo.tpot, slo.tpot_ok, before.tpot_ok if before is not None else None),
    ):
        if bound is not None:
            share = Cell(fmt.share(met), met_style(met, slo.target))
            alone.append([Cell(f" {name}<{fmt.bound(bound)} ", "dim"), share, trend(met, old, look), Cell(" ")])
    both = [Cell(" both ", "dim"), Cell(fmt.share(slo.attainment), met_style(slo.attainment, slo.target))]
    both.append(trend(slo.attainment, before.attainment if before is not None else None, look))
    both.append(Cell(f" of {fmt.percent(slo.target, 1)}", "dim"))
    spent: list[list[Cell]] = []
    if slo.budget_left is not None:
        left = Cell(f"{fmt.percent(max(0.0, slo.budget_left))}%", budget_style(slo.budget_left))
        spent.append([Cell("  budget ", "dim"), left])
    if slo.burn_short is not None:
        fast = "bad" if slo.burn_short > 1 else "text"
        spent.append([Cell("  burn ", "dim"), Cell(fmt.burn(slo.burn_short), fast)])
    while alone and sum(map(line_width, (named, *alone, both))) > cells:
        alone.pop()  # the two together say more than either
    return whole([named, *alone, both, *spent], cells)


def worst_slo(slos: Sequence[SloView]) -> SloView:
    """The class that is furthest below its target."""
    return min(slos, key=lambda s: (s.attainment.low - s.target) if s.attainment else 0.0)


def met_style(met: object, target: float) -> str:
    """Good when surely met, bad when surely missed, a warning when the range holds the target."""
    low, high = getattr(met, "low", None), getattr(met, "high", None)
    if low is None or high is None:
        return "dim"
    return "good" if low >= target else "bad" if high < target else "warn"


def budget_style(left: float) -> str:
    return "good" if left > 0.5 else "warn" if left > 0.1 else "bad"


def load_line(world: World, look: Look, cells: int, forecast: str = "") -> Line:
    """QUEUE 27 ▂▂▃▅▆█  RUN 184  KV 71% ▄▅▅▆▆▇  PREEMPT 3/m   FCST +5m 243 (p90 271); as much as fits."""
    snapshot = world.snapshot
    if snapshot is None:
        return ()
    pools, trends = snapshot.pools, world.trends
    queue = total(pools, lambda p: p.waiting)
    parts = [
        [Cell(" QUEUE ", "dim"), Cell(fmt.count(queue), "warn" if queue else "text"),
         Cell(" " + draw.spark(trends.total("waiting"), 6, look.glyphs), "spark")],
        [Cell("  RUN ", "dim"), Cell(fmt.count(total(pools, lambda p: p.running)))],
        [Cell("  KV ", "dim"), Cell(_kv_text(pools)),
         Cell(" " + draw.spark(_kv_trend(trends, pools), 6, look.glyphs, 0.0, 1.0), "spark")],
        [Cell("  PREEMPT ", "dim"), Cell(f"{fmt.per_minute(total(pools, lambda p: p.preempt_rate))}/m")],
        [Cell(f"   {forecast}" if forecast else "", "accent")],
    ]  # fmt: skip
    return whole(parts, cells)


def _kv_text(pools: Sequence[PoolView]) -> str:
    known = [p.kv_usage for p in pools if p.kv_usage is not None]
    return f"{fmt.percent(max(known))}%" if known else fmt.MISSING


def _kv_trend(trends: Trends, pools: Sequence[PoolView]) -> list[float | None]:
    fullest = max(pools, key=lambda p: p.kv_usage if p.kv_usage is not None else -1.0, default=None)
    return trends.pool(fullest.pool, "kv") if fullest else []


def forecast_words(forecasts: Sequence[ForecastView], pool: PoolView | None, lead: float = 300.0) -> str:
    """FCST +5m 24.3 (p90 27.1) req/s; empty while nothing is forecast."""
    for view in forecasts:
        if (pool is not None and view.pool != pool.pool) or not view.leads or not view.quantiles:
            continue
        index = min(range(len(view.leads)), key=lambda i: abs(view.leads[i] - lead))
        levels = view.quantiles[index]
        half, high = at_level(view.levels, levels, 0.5), at_level(view.levels, levels, 0.9)
        if half is None:
            continue
        p90 = f" (p90 {fmt.rate(high)})" if high is not None else ""
        return f"FCST +{fmt.span(view.leads[index]).replace('m00s', 'm')} {fmt.rate(half)}{p90} {unit(view.unit)}"
    return ""


def at_level(levels: Sequence[float], values: Sequence[float], wanted: float) -> float | None:
    """The value at a quantile level that was really computed."""
    for level, value in zip(levels, values, strict=False):
        if abs(level - wanted) < 1e-6:
            return value
    return None


def unit(text: str) -> str:
    """The series' unit, short."""
    return {"requests/s": "req/s", "prompt tokens/s": "tok/s in", "output tokens/s": "tok/s out"}.get(text, clean(text))
