"""What stands behind a forecast and a decision, in words: capacity, lead, supply on its way, skill, coverage, regret.

It must not recompute any of it; the agent tells each, and what it has not told is `--`. The trap: skill is against
last value (above 0 earns its place) and coverage is compared with the level it belongs to, so 91 % at p90 is good and
99 % is a band too wide.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from opsconsole.domain.records import (
    CapacityView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    LeadNeed,
    LeadRecord,
    PoolView,
    RegretTally,
)
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, right
from opsconsole.tui.viewmodel.summary import unit
from opsconsole.tui.world import Look, World

FIELDS = {"requests/s": "request_rate", "prompt tokens/s": "prompt_rate", "output tokens/s": "output_rate"}
BOUGHT = 0.9
FEWEST_SAVING_S = 900.0  # of starts counted, before a day of them is reckoned
PHASES = ("schedule", "pending", "pull", "load", "compile", "warm", "starting")  # as a start goes through them


def forecast_of(world: World, pool: PoolView | None, series: str = "") -> ForecastView | None:
    """The pool's forecast in the unit asked for, else its first."""
    found = [f for f in world.forecasts if f.leads and (pool is None or f.pool == pool.pool)]
    return next((f for f in found if f.unit == series), found[0] if found else None)


def decision_of(world: World, pool: PoolView | None) -> DecisionView | None:
    """The newest decision about a pool."""
    return next((d for d in world.decisions if pool is None or d.pool == pool.pool), None)


def each(capacity: CapacityView | None, series: str) -> float | None:
    """What one replica surely serves, in the unit of a series."""
    value = fmt.known(getattr(capacity, FIELDS.get(series, "request_rate"))) if capacity is not None else None
    return None if value is None or capacity is None else value * capacity.low


def capacity_words(decision: DecisionView | None, ready: int, series: str = "requests/s") -> str:
    """capacity 8 x 3.6 = 28.8 req/s (learned)."""
    capacity = decision.capacity if decision is not None else None
    one = each(capacity, series)
    if one is None or capacity is None:
        return "capacity of a replica not known yet"
    return f"capacity {ready} x {fmt.rate(one)} = {fmt.rate(ready * one)} {unit(series)} ({capacity.source})"


def lead_words(decision: DecisionView | None) -> str:
    """lead 1m45s, or that it is assumed."""
    if decision is None or decision.lead is None:
        return "lead --"
    return f"lead {fmt.span(decision.lead)}{' (assumed: no start seen)' if decision.lead_assumed else ''}"


def supply_words(decision: DecisionView | None, look: Look) -> str:
    """supply 8, 9 from 12:06:05; empty while nothing starts."""
    points = decision.supply if decision is not None else ()
    if len(points) < 2:
        return ""
    coming = ", ".join(f"{p.replicas} from {fmt.clock(p.at, look.zone)}" for p in points[1:4])
    return f"supply {points[0].replicas}, {coming}"


def record_at(record: Sequence[LeadRecord], lead: float | None) -> LeadRecord | None:
    """The record of the lead nearest to the one that decides."""
    scored = [r for r in record if r.scored > 0]
    return min(scored, key=lambda r: abs(r.lead - (lead or 300.0)), default=None)


def covered(forecast: ForecastView, record: LeadRecord) -> float | None:
    """How often what came lay at or under the level that is bought."""
    told = fmt.known(forecast.bought)
    wanted = BOUGHT if told is None else told
    for level, share in zip(forecast.levels, record.coverage, strict=False):
        if abs(level - wanted) < 1e-6:
            return share
    return None


def skill_words(forecast: ForecastView | None, lead: float | None = None) -> str:
    """skill +29% at +5m, p90 covered 91%; why there is none where there is none."""
    if forecast is None:
        return "no forecast yet"
    record = record_at(forecast.record, lead)
    if record is None:
        return "skill -- (no target has come yet)"
    level = level_word(fmt.known(forecast.bought))
    words = f"skill {percent_signed(record.skill)} at +{fmt.brief(record.lead)}"
    words += f", {level} covered {fmt.percent(covered(forecast, record))}%"
    return words + ("  DEMOTED to last value" if forecast.demoted else "")


def level_word(level: float | None) -> str:
    """p90; the level that is bought unless another is told."""
    return f"p{fmt.percent(BOUGHT if level is None else level)}"


def percent_signed(share: float | None) -> str:
    """+29%, -4%."""
    share = fmt.known(share)
    if share is None:
        return fmt.MISSING
    return f"{share * 100:+.0f}%" if abs(share) >= 0.005 else "0%"


def regret_words(tally: RegretTally | None) -> str:
    """regret: right 93% of 42, 0.1 too few, 0.4 too many."""
    if tally is None or not tally.decisions:
        return "regret -- (no decision has come due)"
    return (
        f"regret: right {fmt.percent(tally.right)}% of {tally.decisions}, "
        f"{_mean(tally.short)} too few, {_mean(tally.idle)} too many"
    )


def _mean(replicas: float) -> str:
    value = fmt.known(replicas)
    return fmt.MISSING if value is None else f"{value:.1f}"


def skill_table(forecast: ForecastView | None, lead: float | None, cells: int, rows: int) -> list[Line]:
    """One row for each lead: skill against last value, and how often the band held what came."""
    if forecast is None:
        return [(Cell(" no forecast yet", "dim"),)]
    scored = [r for r in forecast.record if r.scored > 0]
    if not scored:
        return [(Cell(" no forecast has met its target yet", "dim"),)]
    deciding = record_at(scored, lead)
    levels = [i for i, level in enumerate(forecast.levels) if level in (0.1, 0.5, 0.9)] or [len(forecast.levels) - 1]
    head = left("   LEAD", 10) + right("SKILL", 6) + "".join(right(level_word(forecast.levels[i]), 6) for i in levels)
    out: list[Line] = [(Cell(head + right("OF", 6), "dim"),)]
    for record in _thinned(scored, max(1, rows - 2)):
        good = record.skill is not None and record.skill > 0
        shares = "".join(
            right(fmt.percent(record.coverage[i] if i < len(record.coverage) else None), 6) for i in levels
        )
        out.append((
            Cell(" > " if record is deciding else "   ", "mark"), Cell(left(f"+{fmt.brief(record.lead)}", 7)),
            Cell(right(percent_signed(record.skill), 6), "good" if good else "warn"),
            Cell(shares + right(fmt.count(record.scored), 6)),
        ))  # fmt: skip
    weights = sorted(forecast.weights.items(), key=lambda pair: -pair[1])
    if weights and len(out) < rows:
        mix = "  ".join(f"{clean(name)} {fmt.percent(share)}%" for name, share in weights[:4])
        out.append((Cell(f" mix {mix}", "dim"),))
    return out


def _thinned(records: Sequence[LeadRecord], most: int) -> list[LeadRecord]:
    if len(records) <= most:
        return list(records)
    return [records[i * (len(records) - 1) // max(1, most - 1)] for i in range(most)]


def start_cost(
    snapshot: FleetSnapshot, pool: PoolView | None, look: Look, cells: int, needs: Sequence[LeadNeed] = ()
) -> list[Line]:
    """What cold starts cost by phase, over at most a day, and what a day without the phase would save.

    In GPU-hours; in replica-hours where GPUs are not told. Saved are the phase's own hours and, where the agent tells
    what the forecast `needs` by lead, the supply that is held only because starts take so long.
    """
    if pool is None or pool.start_since is None:
        return [(Cell(" starts are not counted yet", "dim"),)]
    spent = {phase: value for phase, seconds in pool.start_s.items() if (value := fmt.known(seconds)) and value > 0}
    whole = sum(spent.values())
    over = fmt.span(max(0.0, snapshot.at - pool.start_since))
    if whole <= 0:
        return [(Cell(f" no replica started in {over}", "dim"),)]
    gpus, word = _gpus_each(snapshot, pool)
    scale, days = gpus / 3600.0, (snapshot.at - pool.start_since) / 86400.0
    saves = len(needs) > 1 and days * 86400.0 >= FEWEST_SAVING_S
    width = max(4, min(20, cells - (34 if saves else 26)))
    title = f" {hours(whole * scale)} {word} in {over}"
    head = Cell(left(title, 24 + width) if saves else title, "title")
    out: list[Line] = [(head, Cell("saved/day", "dim")) if saves else (head,)]
    order = {name: place for place, name in enumerate(PHASES)}
    for phase, seconds in sorted(spent.items(), key=lambda pair: order.get(pair[0], len(order))):
        share = seconds / whole
        line: Line = (
            Cell(left(f"   {clean(phase)}", 13)), Cell(right(hours(seconds * scale), 6)),
            Cell(right(f"{share * 100:.0f}%", 5) + " ", "dim"),
            Cell(left(draw.bar(share, width, look.glyphs), width), "bar"),
        )  # fmt: skip
        if saves:
            saved = seconds * scale / days + 24.0 * gpus * held_for(needs, share)
            line = (*line, Cell(right(hours(saved), 8)))
        out.append(line)
    return out


def held_for(needs: Sequence[LeadNeed], share: float) -> float:
    """Replicas that are held because of this share of a start; `needs` ascend from no start at all to the whole one."""
    shortest, whole = needs[0].lead, needs[-1].lead
    lead = whole - share * (whole - shortest)
    for before, after in itertools.pairwise(needs):
        if lead <= after.lead:
            part = (lead - before.lead) / (after.lead - before.lead) if after.lead > before.lead else 0.0
            return needs[-1].replicas - before.replicas - part * (after.replicas - before.replicas)
    return 0.0


def hours(value: float) -> str:
    """0.15, 12.3, 340."""
    return f"{value:.2f}" if value < 10 else fmt.rate(value)


def _gpus_each(snapshot: FleetSnapshot, pool: PoolView) -> tuple[float, str]:
    """GPUs a replica holds, and the unit of what is counted with them."""
    members = sum(r.pool == pool.pool for r in snapshot.replicas)
    if pool.gpus is None or not members:
        return 1.0, "replica-h"
    return pool.gpus / members, "GPU-h"
