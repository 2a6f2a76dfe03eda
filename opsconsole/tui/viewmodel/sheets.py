"""A screen's list as rows for a spreadsheet: raw numbers in base units, empty where unknown.

It must not format for people. The trap: a cell that begins with `=`, `+`, `-` or `@` is a formula to a spreadsheet, so
text from outside that does is given a quote in front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opsconsole.domain.records import AlertView, JournalEntry
from opsconsole.tui.cells import clean
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import columns, journal, lists, rows

Row = list[str]


def sheet(session: Session) -> list[Row]:
    """Titles, then one row for each line of the screen's list."""
    if session.state.page in lists.PLAIN:
        return _entries(lists.entries(session.shown, session.state), session)
    snapshot = session.shown.snapshot
    picked = [column for column in columns.COLUMNS.values() if column.key is not None and column.name != "st"]
    out = [["at", "state", *(column.name for column in picked)]]
    for replica in rows.matching(snapshot, session.state) if snapshot is not None else ():
        values = [column.key(replica) if column.key is not None else None for column in picked]
        out.append([number(snapshot.at if snapshot else None), replica.state.value, *map(cell, values)])
    return out


def _entries(listed: Sequence[JournalEntry | AlertView], session: Session) -> list[Row]:
    mode = session.shown.snapshot.mode if session.shown.snapshot is not None else ""
    out = [["at", "kind", "about", "change", "who", "text"]]
    for entry in listed:
        if isinstance(entry, AlertView):
            out.append([number(entry.since), f"alert {entry.state}", entry.subject, "", "", entry.text])
        else:
            what = journal.word(entry, mode)
            out.append([number(entry.at), what, entry.pool, journal.change(entry), entry.who, entry.text])
    return [out[0], *([cell(value) for value in row] for row in out[1:])]


def cell(value: object) -> str:
    """A number in full, text made harmless, nothing for what is unknown."""
    if value is None or isinstance(value, int | float):
        return number(value)
    text = clean(str(value))
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    return text


def number(value: float | None) -> str:
    """Nine digits are enough for a time of day and too many for a rate."""
    return "" if value is None or not math.isfinite(value) else f"{value:.13g}"
