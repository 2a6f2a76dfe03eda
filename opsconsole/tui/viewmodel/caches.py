"""Caches: KV occupancy and prefix hits by replica, hit rate over time, and what the prompt linter found in the traffic.

It must not show prompts; prefixes come as ids. The trap: engines that export totals only leave the per-prefix part
empty, and an empty part has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.domain.records import FleetSnapshot, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, right, tail
from opsconsole.tui.layout import Size, scrolled
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, fleet, rows
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.world import Look, World, main_pool


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return fleet.waiting(world, state, look, size, "CACHES")
    pool = main_pool(snapshot, state.selected)
    lines: list[Line] = [bars.header(world, state, look, size.width, "CACHES"), _totals(snapshot)]
    if pool is not None and size.height >= 20:
        lines.append(draw.rule(f"prefix hit rate, last hour   {clean(pool.pool)}", size.width))
        hits = [(then.hit_rate if (then := old.pool(pool.pool)) else None) for old in world.history]
        chart_rows = 3 if size.height < 36 else 6
        label = f"{fmt.percent(pool.hit_rate)}%"
        lines += draw.area([*hits, pool.hit_rate], size.width, chart_rows, look.glyphs, 0.0, 1.0, label, percent=True)
    found = sorted(rows.matching(snapshot, state), key=lambda r: -(r.kv_usage if r.kv_usage is not None else -1.0))
    order = tuple(r.replica for r in found)
    advice = _findings(world.findings, size.width)
    lines.append(draw.rule("KV occupancy by replica", size.width, f"{len(found)} of {len(snapshot.replicas)}"))
    start = len(lines)
    room = max(1, size.height - start - 2 - min(len(advice), 6))
    cursor = order.index(state.selected) if state.selected in order else 0
    top = scrolled(0, cursor, len(found), room)
    for replica in found[top : top + room]:
        lines.append(fit(_replica(replica, look, size.width, replica.replica == state.selected), size.width))
    lines += [()] * (start + min(room, max(len(found), 1)) - len(lines))
    lines.append(draw.rule("advice", size.width))
    lines += advice
    where = {start + i: name for i, name in enumerate(order[top : top + room])}
    foot = bars.foot(world, state, look, size.width)
    return framed_to(lines, foot, size, targets=where, top=top, order=order, rows=len(order))


def _totals(snapshot: FleetSnapshot) -> Line:
    """Hit rate weighted by prompt tokens, what it saves, how full, how often thrown out."""
    line: list[Cell] = []
    for pool in snapshot.pools:
        saved = pool.prompt_rate * pool.hit_rate if pool.prompt_rate is not None and pool.hit_rate is not None else None
        name = f"{clean(pool.pool)}: " if len(snapshot.pools) > 1 else ""
        line.append(Cell(f" {name}hit {fmt.percent(pool.hit_rate)}%", "title"))
        line.append(Cell(f"  saves {fmt.tokens_per_second(saved)} tok/s of prefill", "text"))
        line.append(
            Cell(f"  KV {fmt.percent(pool.kv_usage)}%  preempt {fmt.per_minute(pool.preempt_rate)}/m  ", "text")
        )
    return tuple(line) or (Cell(" no pool yet", "dim"),)


def _replica(replica: ReplicaView, look: Look, cells: int, selected: bool) -> Line:
    stale = replica.state.value == "STALE"
    capacity = replica.sample.kv_capacity_tokens if replica.sample else None
    used = capacity * replica.kv_usage if capacity is not None and replica.kv_usage is not None else None
    words = (
        right(fmt.percent(replica.kv_usage) + ("?" if stale else ""), 5),
        right(f"{fmt.count(used)}/{fmt.count(capacity)}" if capacity is not None else fmt.MISSING, 12),
        f"  hit {right(fmt.percent(replica.hit_rate), 3)}  preempt {right(fmt.per_minute(replica.preempt_rate), 5)}/m",
    )
    room = max(4, cells - 26 - sum(map(len, words)))
    full = replica.kv_usage is not None and replica.kv_usage >= 0.95
    line = (
        Cell("> " if selected else "  ", "mark"), Cell(tail(clean(replica.replica), 22) + " "),
        Cell(draw.bar(replica.kv_usage, room, look.glyphs), "STALE" if stale else "bad" if full else "bar"),
        Cell("".join(words), "STALE" if stale else "text"),
    )  # fmt: skip
    return tuple(Cell(c.text, f"{c.style}|sel") for c in line) if selected else line


def _findings(findings: tuple[Mapping[str, Any], ...], cells: int) -> list[Line]:
    """What the linter found, in its own words."""
    if not findings:
        return [(Cell(" no findings: `opsconsole lint` looks for prompt edits that give back cache", "dim"),)]
    out: list[Line] = []
    for finding in findings[:5]:
        rule = clean(str(finding.get("rule", finding.get("id", ""))))
        text = clean(str(finding.get("message", finding.get("text", ""))))
        out.append(fit((Cell(f" ! {rule} ", "warn"), Cell(text)), cells))
    return out
