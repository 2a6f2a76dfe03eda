"""The plain lists of the screens that are not about replicas: how long each is, and what its cursor is on.

It must not draw. The trap: a cursor is a row number here, so a list that grows at its head moves under it; newest
entries therefore count from the top and a reader who moved stays on row, not on entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opsconsole.domain.records import AlertView, JournalEntry
from opsconsole.tui.filters import compile_text_filter
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import journal
from opsconsole.tui.world import Look, World

if TYPE_CHECKING:
    from opsconsole.tui.session import Session

PLAIN = ("decisions", "events")


def entries(world: World, state: ViewState) -> Sequence[JournalEntry | AlertView]:
    """What the screen lists, first row first."""
    if state.page == "decisions":
        return journal.decisions(_until(world, state))
    if state.page == "events":
        holds = compile_text_filter(state.filter)
        alerts = [a for a in world.alerts if holds(f"{a.rule} {a.subject} {a.state} {a.text}")]
        return [*alerts, *(e for e in reversed(_until(world, state)) if holds(f"{e.kind} {e.pool} {e.who} {e.text}"))]
    return ()


def _until(world: World, state: ViewState) -> Sequence[JournalEntry]:
    """The journal as far as the moment shown; what came later was not known then."""
    if state.at is None:
        return world.journal
    at = state.at
    return [entry for entry in world.journal if entry.at <= at + 1e-6]


def length(world: World, state: ViewState, look: Look) -> int:
    return len(entries(world, state))


def under_cursor(world: World, state: ViewState) -> JournalEntry | AlertView | None:
    """The entry the cursor is on."""
    listed = entries(world, state)
    return listed[min(state.cursor(state.page), len(listed) - 1)] if listed else None


def copied(session: Session) -> str:
    """The text `c` puts on the clipboard: the row, with its facts named."""
    from opsconsole.tui.viewmodel import why

    return why.as_text(session.shown, session.state, session.look)
