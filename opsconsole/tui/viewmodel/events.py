"""The events screen: what fires now, then the journal, newest first, with a filter over its words.

It must not hide silenced alerts; they stay with an x. The trap: the list is alerts plus entries, and the cursor counts
both, as `lists.entries` does.
"""

from __future__ import annotations

from opsconsole.domain.records import AlertView, FleetSnapshot
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, wrap
from opsconsole.tui.layout import Size, scrolled
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars, journal, lists
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The whole screen."""
    snapshot = world.snapshot
    if snapshot is None:
        return waiting(world, state, look, size)
    listed = lists.entries(world, state)
    firing = sum(isinstance(e, AlertView) and e.state == "firing" for e in listed)
    silenced = sum(isinstance(e, AlertView) and e.state == "silenced" for e in listed)
    lines: list[Line] = [
        bars.header(world, state, look, size.width, "EVENTS"),
        _holds(world, snapshot, look),
        draw.rule(
            _alerts(state, firing, silenced),
            size.width,
            f"{len(listed)} shown, filter: {clean(state.filter) or '-'}",
        ),
    ]
    start = len(lines)
    detail_rows = 4 if size.height >= 20 else 0
    room = max(0, size.height - start - 1 - (detail_rows + 1 if detail_rows else 0))
    cursor = min(state.cursor("events"), max(0, len(listed) - 1))
    top = scrolled(0, cursor, len(listed), room)
    for index, entry in enumerate(listed[top : top + room], start=top):
        line = _line(entry, look, snapshot)
        if index == cursor:
            line = tuple(Cell(cell.text, f"{cell.style}|sel") for cell in fit(line, size.width))
        lines.append(line)
    if not listed:
        lines.append((Cell("  nothing happened yet" if not state.filter else "  nothing fits the filter", "dim"),))
    lines += [()] * (start + room - len(lines))
    if detail_rows:
        lines.append(draw.rule("selected", size.width))
        lines += _detail(listed[cursor] if listed else None, look, size.width)[:detail_rows]
    return framed_to(lines, bars.foot(world, state, look, size.width), size, top=top, rows=len(listed))


def _alerts(state: ViewState, firing: int, silenced: int) -> str:
    """How many alerts there are; of a past moment only the journal knows."""
    if state.at is not None:
        return "PAST: the journal says which alerts fired and ended"
    return f"{firing} firing, {silenced} silenced"


def _line(entry: object, look: Look, snapshot: FleetSnapshot) -> Line:
    if isinstance(entry, AlertView):
        return journal.alert_line(entry, look)
    return journal.line(entry, look, snapshot.mode, len(snapshot.pools) > 1)  # type: ignore[arg-type]


def _holds(world: World, snapshot: FleetSnapshot, look: Look) -> Line:
    """Standing orders: who paused or pinned what, until when."""
    if not world.holds:
        return (Cell(" no pause and no pinned minimum in force", "dim"),)
    line: list[Cell] = []
    for hold in world.holds:
        what = f"minimum {hold.minimum}" if hold.kind == "pin" else "automatic scaling paused"
        until = f" until {fmt.clock(hold.until, look.zone)}" if hold.until is not None else ""
        line.append(Cell(f" {clean(hold.pool) or 'every pool'}: {what} by {clean(hold.by)}{until} ", "warn"))
    return tuple(line)


def _detail(entry: object, look: Look, cells: int) -> list[Line]:
    if isinstance(entry, AlertView):
        words = f"{entry.rule}: {entry.subject} {entry.text}. {entry.state} since {fmt.clock(entry.since, look.zone)}"
        return [(Cell(f" {text}"),) for text in wrap(clean(words), cells - 2)]
    if entry is None:
        return [()]
    words = f"{entry.kind} {entry.pool} by {entry.who}: {entry.text}"  # type: ignore[attr-defined]
    return [(Cell(f" {text}"),) for text in wrap(clean(words), cells - 2)]
