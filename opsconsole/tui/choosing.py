"""What a user chooses about lists: cursor, order, columns, groups, marks, filter.

It must not draw or ask the agent. The trap: moving the cursor freezes the order for a moment, so whatever changes the
order on purpose ends the freeze.
"""

from __future__ import annotations

from opsconsole.tui.session import Session
from opsconsole.tui.shell import Handler, Shell
from opsconsole.tui.state import GROUPS, SORTS
from opsconsole.tui.viewmodel import lists, rows
from opsconsole.tui.viewmodel.columns import COLUMNS, descending

OWN_ORDER = ("slo", "caches")


def move(by: int | None, pages: int = 0) -> Handler:
    def handler(shell: Shell, argument: str) -> None:
        session = shell.session
        step = by if by is not None else pages * max(1, session.size.height // 2)
        if session.state.page in lists.PLAIN:
            count = lists.length(session.shown, session.state, session.look)
            row = session.state.cursor(session.state.page) + step
            session.state = session.state.with_cursor(session.state.page, max(0, min(row, count - 1)))
            return
        session.change(selected=rows.moved(names_shown(session), session.state.selected, step))
        session.touch()

    return handler


def names_shown(session: Session) -> tuple[str, ...]:
    """Replicas in the order of the screen's list; a screen with an order of its own tells it with its frame."""
    snapshot = session.shown.snapshot
    if snapshot is None:
        return ()
    if session.state.page in OWN_ORDER and session.listed:
        return session.listed
    return rows.names(rows.rows(snapshot, session.state, session.clock.now()))


def neighbour(by: int) -> Handler:
    def handler(shell: Shell, argument: str) -> None:
        session = shell.session
        names = names_shown(session)
        if names:
            here = names.index(session.state.selected) if session.state.selected in names else -by
            session.change(selected=names[(here + by) % len(names)])

    return handler


def sort(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument:
        name, _, way = argument.partition(" ")
        if name not in SORTS:
            session.say(f"cannot sort by {name}: {', '.join(SORTS)}")
            return
        wanted = {"desc": True, "asc": False}.get(way.strip())
        natural = descending(name, False)
        session.change(sort=name, reverse=False if wanted is None else wanted is not natural, frozen_until=0.0)
        return
    position = SORTS.index(session.state.sort) if session.state.sort in SORTS else -1
    session.change(sort=SORTS[(position + 1) % len(SORTS)], reverse=False, frozen_until=0.0)


def reverse(shell: Shell, argument: str) -> None:
    shell.session.change(reverse=not shell.session.state.reverse, frozen_until=0.0)


def columns(shell: Shell, argument: str) -> None:
    session = shell.session
    if not argument:
        shell.ask_line("columns")
        return
    if argument == "default":
        session.change(columns=())
        return
    names = tuple(name.strip() for name in argument.replace(" ", ",").split(",") if name.strip())
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names:
        session.say(f"no column {unknown[0] if unknown else 'is named'}: {', '.join(COLUMNS)}")
        return
    session.change(columns=names)


def group(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument and argument not in GROUPS:
        session.say(f"groups: {', '.join(GROUPS)}")
        return
    following = GROUPS[(GROUPS.index(session.state.group) + 1) % len(GROUPS)]
    session.change(group=argument or following, frozen_until=0.0)


def mark(shell: Shell, argument: str) -> None:
    session = shell.session
    name = argument or session.state.selected
    if argument and argument not in names_shown(session):
        session.say(f"no row is called {argument}")
    elif name:
        session.change(marks=session.state.marks ^ {name})
        move(1)(shell, "")


def set_filter(shell: Shell, argument: str) -> None:
    if argument:
        shell.session.change(filter="" if argument == "-" else argument, frozen_until=0.0)
    else:
        shell.ask_line("filter")
