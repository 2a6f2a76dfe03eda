"""Caches: KV occupancy and prefix hits by replica, hit rate over time, shared prefixes, and what the linter found.

It must not show prompts; prefixes come as ids. The trap: engines that export totals only leave the per-prefix part
empty, and an empty part has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opsconsole.domain.records import FleetSnapshot, PoolView, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, left, right, tail, whole, wrap
from opsconsole.tui.layout import Form, Size, form, scrolled, shares
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, rows, summary
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World, main_pool

NAME = 22
HIT_SIDE = 46


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return waiting(world, state, look, size)
    found = fullest(snapshot, state)
    order = tuple(r.replica for r in found)
    lines: list[Line] = [bars.header(world, state, look, size.width, "CACHES"), _totals(snapshot, size.width)]
    arrange = _panels if form(size) is Form.PANELS else _stacked
    body, start, room = arrange(world, snapshot, found, state, look, Size(size.width, size.height - 3))
    cursor = order.index(state.selected) if state.selected in order else 0
    top = scrolled(0, cursor, len(found), room)
    where = {len(lines) + start + i: name for i, name in enumerate(order[top : top + room])}
    foot = bars.foot(world, state, look, size.width)
    return framed_to([*lines, *body], foot, size, targets=where, top=top, order=order, rows=len(order))


def fullest(snapshot: FleetSnapshot, state: ViewState) -> list[ReplicaView]:
    """What the filter lets through, fullest KV first."""
    return sorted(rows.matching(snapshot, state), key=lambda r: -(r.kv_usage if r.kv_usage is not None else -1.0))


def _stacked(
    world: World, snapshot: FleetSnapshot, found: Sequence[ReplicaView], state: ViewState, look: Look, size: Size
) -> tuple[list[Line], int, int]:
    """Hit rate, replicas, prefixes, advice; the chart gives way first, the list never."""
    across = size.width
    pool = main_pool(snapshot, state.selected)
    out: list[Line] = []
    if pool is not None and size.height >= 17:
        out.append(draw.rule(f"prefix hit rate, {summary.past_words(world)}   {clean(pool.pool)}", across))
        out += hits(world, pool, look, across, 3 if size.height < 33 else 6)
    shared = prefixes(world, snapshot, across, 5 if size.height < 33 else 9) if size.height >= 14 else []
    said = advice(world, snapshot, across, 4 if size.height < 33 else 8)
    out.append(draw.rule("KV occupancy by replica", across, f"{len(found)} of {len(snapshot.replicas)}"))
    start = len(out)
    room = max(1, size.height - start - len(said) - 1 - (len(shared) + 1 if shared else 0))
    listed = occupancy(found, state, look, across, room)
    out += [*listed, *([()] * (min(room, max(len(found), 1)) - len(listed)))]
    if shared:
        out += [draw.rule("shared prefixes (ids only, no prompt text)", across), *shared]
    return [*out, draw.rule("advice", across), *said], start, room


def _panels(
    world: World, snapshot: FleetSnapshot, found: Sequence[ReplicaView], state: ViewState, look: Look, size: Size
) -> tuple[list[Line], int, int]:
    """Framed: occupancy beside hit rate, prefixes, advice."""
    across, glyphs = size.width, look.glyphs
    pool = main_pool(snapshot, state.selected)
    wide = across - HIT_SIDE
    upper, middle_rows, lower = shares(size.height, (2, 1, 1), (min(len(found), 10) + 3, 8, 7))
    room = max(1, upper - 2)
    counted = f"{len(found)} of {len(snapshot.replicas)}"
    out = draw.beside(
        draw.framed(f"KV occupancy by replica   {counted}", occupancy(found, state, look, wide - 2, room), wide, upper,
                    glyphs),
        draw.framed(f"Prefix hit rate, {summary.past_words(world)}   {clean(pool.pool) if pool else ''}",
                    hits(world, pool, look, HIT_SIDE - 2, upper - 2), HIT_SIDE, upper, glyphs),
    )  # fmt: skip
    shared = prefixes(world, snapshot, across - 2, middle_rows - 2)
    said = advice(world, snapshot, across - 2, lower - 2)
    out += draw.framed("Shared prefixes (ids only, no prompt text)", shared, across, middle_rows, glyphs)
    out += draw.framed("Advice", said, across, lower, glyphs)
    return out, 1, room


def hits(world: World, pool: PoolView | None, look: Look, cells: int, height: int) -> list[Line]:
    """The pool's hit rate over the last hour."""
    if pool is None:
        return [(Cell(" no pool yet", "dim"),)]
    past = [(then.hit_rate if (then := old.pool(pool.pool)) else None) for old in world.history]
    label = f"{fmt.percent(pool.hit_rate)}%"
    return draw.area([*past, pool.hit_rate], cells, height, look.glyphs, 0.0, 1.0, label, percent=True, spans=True)


def occupancy(found: Sequence[ReplicaView], state: ViewState, look: Look, cells: int, room: int) -> list[Line]:
    """One bar for each replica in view."""
    names = [r.replica for r in found]
    cursor = names.index(state.selected) if state.selected in names else 0
    top = scrolled(0, cursor, len(found), room)
    return [
        fit(_replica(replica, look, cells, replica.replica == state.selected), cells)
        for replica in found[top : top + max(0, room)]
    ]


def _totals(snapshot: FleetSnapshot, cells: int) -> Line:
    """Hit rate weighted by prompt tokens, what it saves, how full, how often thrown out."""
    parts: list[list[Cell]] = []
    for pool in snapshot.pools:
        saved = saved_rate(pool)
        name = f"{clean(pool.pool)}: " if len(snapshot.pools) > 1 else ""
        parts += [
            [Cell(f" {name}hit {fmt.percent(pool.hit_rate)}%", "title")],
            [Cell(f"  saves {fmt.tokens_per_second(saved)} tok/s of prefill", "text")],
            [Cell(f"  KV {fmt.percent(pool.kv_usage)}%", "text")],
            [Cell(f"  preempt {fmt.per_minute(pool.preempt_rate)}/m ", "text")],
        ]
    return whole(parts, cells) or (Cell(" no pool yet", "dim"),)


def saved_rate(pool: PoolView) -> float | None:
    """Prompt tokens a second that need no prefill."""
    if pool.prompt_rate is None or pool.hit_rate is None:
        return None
    return pool.prompt_rate * pool.hit_rate


def _replica(replica: ReplicaView, look: Look, cells: int, selected: bool) -> Line:
    stale = replica.state.value == "STALE"
    capacity = replica.sample.kv_capacity_tokens if replica.sample else None
    used = capacity * replica.kv_usage if capacity is not None and replica.kv_usage is not None else None
    words = (
        right(fmt.percent(replica.kv_usage) + ("?" if stale else ""), 5),
        right(f"{fmt.count(used)}/{fmt.count(capacity)}" if capacity is not None else fmt.MISSING, 12),
        f"  hit {right(fmt.percent(replica.hit_rate), 3)}",
        f"  preempt {right(fmt.per_minute(replica.preempt_rate), 5)}/m" if cells >= 76 else "",
    )
    room = max(4, cells - 26 - sum(map(len, words)))
    full = replica.kv_usage is not None and replica.kv_usage >= 0.95
    line = (
        Cell("> " if selected else "  ", "mark"), Cell(tail(clean(replica.replica), NAME) + " "),
        Cell(draw.bar(replica.kv_usage, room, look.glyphs), "STALE" if stale else "bad" if full else "bar"),
        Cell("".join(words), "STALE" if stale else "text"),
    )  # fmt: skip
    return tuple(Cell(c.text, f"{c.style}|sel") for c in line) if selected else line


def prefixes(world: World, snapshot: FleetSnapshot, cells: int, room: int) -> list[Line]:
    """The prefixes that many requests share, most saved first; why there are none where nobody tells them."""
    if not world.prefixes:
        words = "nobody tells prefixes: the router of `opsconsole up` does; vLLM and others export totals only"
        told: list[Line] = [(Cell(f" {piece}", "dim"),) for piece in wrap(words, cells - 2)]
        return told[: max(1, room)]
    known = {r.replica: r.replica.rsplit("-", 1)[-1] for r in snapshot.replicas}
    head = left(" PREFIX ID", 15) + right("TOKENS", 7) + right("REQUESTS", 10) + right("FORKS", 7) + right("LAST", 8)
    out: list[Line] = [(Cell(head + "  ON", "dim"),)]
    for prefix in world.prefixes[: max(0, room - 1)]:
        on = " ".join(known.get(name, clean(name)) for name in prefix.holders)
        out.append((
            Cell(left(f" {clean(prefix.prefix)}", 15)), Cell(right(fmt.count(prefix.tokens), 7)),
            Cell(right(fmt.count(prefix.requests), 10)), Cell(right(fmt.count(prefix.forks), 7)),
            Cell(right(fmt.span(max(0.0, snapshot.at - prefix.last_at)), 8), "dim"),
            Cell(f"  {len(prefix.holders)}/{len(snapshot.replicas)} {on}", "text"),
        ))  # fmt: skip
    return out


def advice(world: World, snapshot: FleetSnapshot, cells: int, room: int) -> list[Line]:
    """What the linter found, in its own words, then what the numbers say of a change of size."""
    out: list[Line] = []
    for finding in world.findings:
        out += _finding(finding, cells, room - len(out))
        if len(out) >= room:
            break
    if not world.findings:
        words = "no findings: `up --capture` lets the linter look at traffic, `opsconsole lint` at sources and logs"
        out += [(Cell(f" {piece}", "dim"),) for piece in wrap(words, cells - 2)]
    for pool in snapshot.pools:
        if len(out) >= room or not pool.hit_rate or pool.ready < 1:
            break
        cold = pool.hit_rate * pool.ready / (pool.ready + 1)
        change = f"{fmt.percent(pool.hit_rate)}% -> {fmt.percent(cold)}%"
        words = f"{clean(pool.pool)}: one more replica starts cold; expect hits of {change} until it is warm"
        out += [(Cell(f"   {piece}", "dim"),) for piece in wrap(words, cells - 4)]
    return out[: max(1, room)]


def _finding(finding: Mapping[str, Any], cells: int, room: int) -> list[Line]:
    """Rule and message; below it, with room, what it costs and what to do."""
    rule = clean(str(finding.get("rule", finding.get("id", ""))))
    text = clean(str(finding.get("message", finding.get("text", ""))))
    first, *rest = wrap(text, max(10, cells - 4 - len(rule)))
    out = [fit((Cell(f" ! {rule} ", "warn"), Cell(first)), cells)]
    out += [(Cell(" " * (4 + len(rule))), Cell(more)) for more in rest[: max(0, room - 1)]]
    before, after = _number(finding, "reuse_before"), _number(finding, "reuse_after")
    facts = []
    if before is not None and after is not None:
        facts.append(f"reuse {fmt.percent(before)}% -> {fmt.percent(after)}% after the edit")
    if (touched := _number(finding, "requests_touched")) is not None:
        facts.append(f"{fmt.count(touched)} of {fmt.count(_number(finding, 'requests_total'))} requests")
    if facts and len(out) < room:
        out.append((Cell(f"     {', '.join(facts)}", "dim"),))
    return out[: max(1, room)]


def _number(finding: Mapping[str, Any], key: str) -> float | None:
    value = finding.get(key)
    return float(value) if isinstance(value, int | float) else None
