"""What the command palette offers: actions that would work now, then every replica to open.

It must not offer what would be refused. The trap: names of replicas are data; Textual's palette takes plain strings
for titles but renders help as content, so names are cleaned first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from opsconsole.tui import actions
from opsconsole.tui.cells import clean

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp

MOVING = {"up", "down", "page_up", "page_down", "first", "last", "palette", "command"}


def commands(app: ConsoleApp) -> Iterator[SystemCommand]:
    """Everything that can be done from here."""
    session = app.session
    for action in actions.ACTIONS:
        if action.id in MOVING or not actions.allowed(action, session.state.page, session.can_change):
            continue
        keys = actions.in_force(action, session.look.keys)
        key = f"  ({actions.key_name(keys[0])})" if keys else ""
        yield SystemCommand(action.label.capitalize() + key, action.help, partial(app.perform, action.id))
    snapshot = session.shown.snapshot
    for replica in snapshot.replicas[:2000] if snapshot else ():
        name = clean(replica.replica)
        open_it = partial(app.perform, "open", replica.replica)
        yield SystemCommand(f"Open {escape(name)}", f"{replica.state.value}: {escape(clean(replica.why))}", open_it)


def escape(text: str) -> str:
    """Square brackets would be read as markup by the palette's lines."""
    return text.replace("[", "(").replace("]", ")")
