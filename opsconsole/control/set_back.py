"""A wall clock that is set back: what was remembered of times that have yet to come is forgotten.

Pure values. Without it nothing newer would be seen and nothing decided until the old time comes again, which after a
wrong clock of a day is a day. The trap: clocks are corrected by fractions of a second all day long, and that must cost
nothing, so a small step is waited out.
"""

from __future__ import annotations

from dataclasses import replace

from opsconsole.control.alerts import REST_S, AlertBook
from opsconsole.control.mode import span
from opsconsole.domain.fleet import FleetState
from opsconsole.domain.records import JournalEntry
from policies.memory import Memory

FAR_S = 60.0  # further back than this is not waited out


def is_set_back(before: float | None, now: float) -> bool:
    """Whether the clock went back too far to wait; `before` is the last tick's time, if there was one."""
    return before is not None and now < before - FAR_S


def fleet_at(state: FleetState, now: float) -> FleetState:
    """Who is in the fleet stays known; what was measured is measured anew, since rates are of times between pages."""
    return FleetState(seen={key: (min(at, now), seen) for key, (at, seen) in state.seen.items()})


def memory_at(memory: Memory, now: float) -> Memory:
    """Rows of times to come are dropped; what holds since then holds since now."""
    rows = {name: tuple(row for row in series if row[0] <= now) for name, series in memory.rows.items()}
    since = {name: min(at, now) for name, at in memory.since.items()}
    return Memory({name: series for name, series in rows.items() if series}, since)


def alerts_at(book: AlertBook, now: float) -> AlertBook:
    """Alerts go on, since now at the latest."""
    items = {key: replace(alert, since=min(alert.since, now)) for key, alert in book.items.items()}
    return replace(book, items=items, resting={name: min(until, now + REST_S) for name, until in book.resting.items()})


def told(before: float, now: float) -> JournalEntry:
    """The line for the journal."""
    text = f"the clock was set back by {span(before - now)}: rates, windows and forecasts begin anew"
    return JournalEntry(0, now, "error", "", text)
