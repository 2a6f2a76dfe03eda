"""The fleet screen: who is there, how each one is, worst first, and what was decided about it.

It must not ask the agent for anything. The trap: the list is the screen; at 80x24 everything else gives way first.
"""

from __future__ import annotations

from opsconsole.domain.records import FleetSnapshot, ReplicaState
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean
from opsconsole.tui.layout import Form, Size, form
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, journal, panels, rows, summary, table
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World, main_pool


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    shape = form(size)
    snapshot = world.snapshot
    if snapshot is None:
        return waiting(world, state, look, size)
    if shape is Form.TINY:
        return _tiny(world, snapshot, state, look, size)
    if shape is Form.PANELS and not state.bare:
        return panels.view(world, snapshot, state, look, size)
    return _list(world, snapshot, state, look, size, shape)


def _tiny(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, size: Size) -> Frame:
    """Below 60x15: what can be trusted, totals, and the three that need somebody most."""
    found = rows.rows(snapshot, state.having(group="none"), look.now)
    pool = main_pool(snapshot, state.selected)
    lines: list[Line] = [
        (*bars.moment(world, state, look), *(c for label in bars.labels(snapshot, look) for c in (Cell(" "), label))),
        summary.counts(snapshot, look, size.width),
        (Cell(" Q "), Cell(fmt.count(summary.total(snapshot.pools, lambda p: p.waiting))),
         Cell(" RUN "), Cell(fmt.count(summary.total(snapshot.pools, lambda p: p.running))),
         Cell(" KV "), Cell(fmt.percent(pool.kv_usage if pool else None))),
    ]  # fmt: skip
    columns = table.wanted_columns(Form.TINY, size.width, state, snapshot)
    start = len(lines)
    room = max(0, min(3, size.height - start - 1))
    body, targets, _ = table.body(found[:3], columns, world, state.having(top=0), look, room, size.width)
    lines += body
    hidden = len(found) - len(body)
    if hidden > 0:
        lines.append((Cell(f" {hidden} more; 60x15 shows the list", "dim"),))
    foot = bars.foot(world, state, look, size.width)
    order = rows.names(found)
    return framed_to(
        lines, foot, size, targets={y + start: n for y, n in targets.items()}, order=order, rows=len(order)
    )


def _list(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, size: Size, shape: Form) -> Frame:
    """The 80x24 layout and everything between it and the panels."""
    found = rows.rows(snapshot, state, look.now)
    order = rows.names(found)
    pool = main_pool(snapshot, state.selected)
    said = max(1, min(4 if size.height < 34 else 8, (size.height - 14) // 2))
    columns = table.wanted_columns(shape, size.width, state, snapshot)
    lines: list[Line] = [
        bars.header(world, state, look, size.width),
        summary.counts(snapshot, look, size.width),
        summary.slo_line(pool, len(snapshot.pools) > 1, summary.earlier(world, pool), look, size.width),
        summary.load_line(world, look, size.width, summary.forecast_words(world.forecasts, pool)),
        draw.rule(sort_title(state), size.width, count_title(snapshot, state, len(order))),
        table.titles(columns, state, look),
    ]
    start = len(lines)
    room = max(0, size.height - start - said - 2)
    with_totals = 2 if len(order) > 1 and (size.height >= 22 + min(len(order), 3) or len(found) + 2 <= room) else 0
    room = max(0, room - with_totals)
    body, targets, top = table.body(found, columns, world, state, look, room, size.width)
    lines += body
    lines += [()] * (room - len(body)) if not body else []
    if not order:
        lines[start:] = [_nobody(snapshot, state), *([()] * max(0, room - 1))]
    lines += table.totals(snapshot, columns, [r.replica for r in found if r.replica])[:with_totals] if order else []
    lines += [()] * max(0, start + room + with_totals - len(lines))
    lines.append(draw.rule("decisions and events", size.width))
    lines += talk(world, snapshot, look, said)
    foot = bars.foot(world, state, look, size.width)
    where = {y + start: name for y, name in targets.items()}
    return framed_to(lines, foot, size, targets=where, top=top, order=order, rows=len(order))


def _nobody(snapshot: FleetSnapshot, state: ViewState) -> Line:
    if state.filter and snapshot.replicas:
        return (Cell(f"  none of {len(snapshot.replicas)} replicas fits the filter; Esc clears it", "dim"),)
    failing = [source for source in snapshot.sources if not source.ok]
    if failing:
        return (Cell(f"  no replicas: {clean(failing[0].name)}: {clean(failing[0].error or 'no answer')}", "warn"),)
    return (Cell("  no replicas yet", "dim"),)


def sort_title(state: ViewState) -> str:
    """sort: RISK, and the group when there is one."""
    grouped = f"  group: {state.group}" if state.group != "none" else ""
    return f"sort: {state.sort.upper()}{' reversed' if state.reverse else ''}{grouped}"


def count_title(snapshot: FleetSnapshot, state: ViewState, shown: int) -> str:
    """8 of 8, filter: -."""
    marks = f"{len(state.marks)} marked, " if state.marks else ""
    return f"{marks}{shown} of {len(snapshot.replicas)}, filter: {clean(state.filter) or '-'}"


def talk(world: World, snapshot: FleetSnapshot, look: Look, room: int) -> list[Line]:
    """Decisions newest first; the last lines go to what fires and who is stale, if anything."""
    firing = [alert for alert in world.alerts if alert.state == "firing"]
    trouble = [journal.alert_line(alert, look) for alert in firing[: max(0, room)]]
    stale = [r for r in snapshot.replicas if r.state in (ReplicaState.STALE, ReplicaState.DOWN)]
    if not trouble:
        trouble = [
            (
                Cell(f" {clean(r.replica)}: ", "title"),
                Cell(clean(r.error or r.why), r.state.value if r.state else "bad"),
            )
            for r in stale
        ]
    keep = min(len(trouble), max(1, room // 2)) if room > 1 else 0
    several = len(snapshot.pools) > 1
    said = [
        journal.line(e, look, snapshot.mode, several)
        for e in journal.decisions(world.journal, regrets=False)[: room - keep]
    ]
    if not said:
        said = [(Cell(" nothing decided yet", "dim"),)]
    return [*said[: max(1, room - keep)], *trouble[:keep]]
