"""What each action does: ids of the ACTIONS table to functions over a session; keys, palette and `:` all come here.

It must not know widgets; what needs a terminal is asked of the shell. The trap: the guard for actions that mutate is
in `perform` and nowhere else, so nothing may call a handler around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from opsconsole.tui import actions
from opsconsole.tui.session import Session
from opsconsole.tui.state import GROUPS, SORTS
from opsconsole.tui.theme import GLYPHS, THEMES
from opsconsole.tui.viewmodel import columns, lists, rows
from opsconsole.tui.world import LinkState


class Shell(Protocol):
    """What only a terminal application can do."""

    session: Session

    def ask_line(self, kind: str) -> None:
        """Open the input line: `filter` or `command`."""
        ...

    def open_panel(self, name: str) -> None:
        """Help, why or the palette over the screen."""
        ...

    def plan(self, kind: str, argument: str) -> None:
        """The dialog for a change of the fleet."""
        ...

    def travel(self, how: str, argument: str) -> None:
        """Another moment: back, forward, earlier, later, live, at."""
        ...

    def set_theme(self, name: str) -> None: ...

    def copy(self, text: str) -> None: ...

    def export(self, path: str) -> None: ...

    def exit(self, result: int | None = None) -> None: ...


Handler = Callable[[Shell, str], None]


def perform(shell: Shell, action_id: str, argument: str = "") -> None:
    """Carry out an action if it means something here and is allowed; else say why not."""
    session = shell.session
    action = actions.BY_ID[action_id]
    if action.mutates and not session.can_change:
        session.say(refusal(session))
        return
    if not actions.works_on(action, session.state.page) and not argument:
        session.say(f"{action.label} works on the {', '.join(sorted(action.pages))} screen")
        return
    HANDLERS[action_id](shell, argument.strip())


def refusal(session: Session) -> str:
    """Why nothing may be changed now."""
    if session.look.read_only:
        return "this console is read-only"
    if session.shown is not session.live:
        return "this is not live: L goes back to live, then it can be changed"
    if session.live.link.state is not LinkState.LIVE:
        return "no agent answers, so nothing can be changed"
    return "read-only: the agent lets no intents through (start it with --allow-intents)"


def run_command(shell: Shell, text: str) -> None:
    """A line typed after `:`."""
    verb, _, argument = text.strip().partition(" ")
    if not verb:
        return
    action = actions.BY_COMMAND.get(verb)
    if action is None:
        near = [name for name in actions.BY_COMMAND if name.startswith(verb)]
        if len(near) != 1:
            shell.session.say(
                f":{verb} is no command" + (f"; did you mean {', '.join(near)}?" if near else "; ? lists them")
            )
            return
        action = actions.BY_COMMAND[near[0]]
    perform(shell, action.id, argument)


def _go(page: str) -> Handler:
    def handler(shell: Shell, argument: str) -> None:
        if page == "replica" and argument:
            shell.session.change(selected=argument)
        shell.session.state = shell.session.state.go(page)

    return handler


def _open(shell: Shell, argument: str) -> None:
    session = shell.session
    snapshot = session.shown.snapshot
    if argument:
        found = [r.replica for r in snapshot.replicas if argument in r.replica] if snapshot else []
        if not found:
            session.say(f"no replica is called {argument}")
            return
        session.change(selected=argument if argument in found else found[0])
        session.state = session.state.go("replica")
        return
    if session.state.page in ("fleet", "slo", "caches"):
        if session.selected() is not None:
            session.state = session.state.go("replica")
    else:
        shell.open_panel("why")


def _move(by: int | None, pages: int = 0) -> Handler:
    def handler(shell: Shell, argument: str) -> None:
        session = shell.session
        step = by if by is not None else pages * max(1, session.size.height // 2)
        if session.state.page in lists.PLAIN:
            count = lists.length(session.shown, session.state, session.look)
            row = session.state.cursor(session.state.page) + step
            session.state = session.state.with_cursor(session.state.page, max(0, min(row, count - 1)))
            return
        session.change(selected=rows.moved(_order(session), session.state.selected, step))
        session.touch()

    return handler


def _order(session: Session) -> tuple[str, ...]:
    snapshot = session.shown.snapshot
    if snapshot is None:
        return ()
    return rows.names(rows.rows(snapshot, session.state, session.clock.now()))


def _neighbour(by: int) -> Handler:
    def handler(shell: Shell, argument: str) -> None:
        session = shell.session
        order = _order(session)
        if order:
            here = order.index(session.state.selected) if session.state.selected in order else -by
            session.change(selected=order[(here + by) % len(order)])

    return handler


def _sort(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument:
        name, _, way = argument.partition(" ")
        if name not in SORTS:
            session.say(f"cannot sort by {name}: {', '.join(SORTS)}")
            return
        wanted = {"desc": True, "asc": False}.get(way.strip())
        natural = columns.descending(name, False)
        session.change(sort=name, reverse=False if wanted is None else wanted is not natural, frozen_until=0.0)
        return
    position = SORTS.index(session.state.sort) if session.state.sort in SORTS else -1
    session.change(sort=SORTS[(position + 1) % len(SORTS)], reverse=False, frozen_until=0.0)


def _reverse(shell: Shell, argument: str) -> None:
    shell.session.change(reverse=not shell.session.state.reverse, frozen_until=0.0)


def _columns(shell: Shell, argument: str) -> None:
    session = shell.session
    if not argument:
        shell.ask_line("columns")
        return
    if argument == "default":
        session.change(columns=())
        return
    names = tuple(name.strip() for name in argument.replace(" ", ",").split(",") if name.strip())
    unknown = [name for name in names if name not in columns.COLUMNS]
    if unknown:
        session.say(f"no column {unknown[0]}: {', '.join(columns.COLUMNS)}")
        return
    session.change(columns=names)


def _group(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument and argument not in GROUPS:
        session.say(f"groups: {', '.join(GROUPS)}")
        return
    following = GROUPS[(GROUPS.index(session.state.group) + 1) % len(GROUPS)]
    session.change(group=argument or following, frozen_until=0.0)


def _mark(shell: Shell, argument: str) -> None:
    session = shell.session
    name = argument or session.state.selected
    if name:
        session.change(marks=session.state.marks ^ {name})
        _move(1)(shell, "")


def _filter(shell: Shell, argument: str) -> None:
    if argument:
        shell.session.change(filter="" if argument == "-" else argument, frozen_until=0.0)
    else:
        shell.ask_line("filter")


def _back(shell: Shell, argument: str) -> None:
    session = shell.session
    if session.state.filter:
        session.change(filter="", frozen_until=0.0)
    elif session.state.marks and session.state.page == "fleet":
        session.change(marks=frozenset())
    elif session.shown is not session.live:
        shell.travel("live", "")
    elif session.state.page != "fleet":
        session.state = session.state.back()


def _pause(shell: Shell, argument: str) -> None:
    session = shell.session
    if session.state.paused:
        session.hold(None)
        session.change(paused=False)
    elif session.state.at is None:
        session.hold(session.live)
        session.change(paused=True)


def _theme(shell: Shell, argument: str) -> None:
    if argument and argument not in THEMES:
        shell.session.say(f"themes: {', '.join(THEMES)}")
        return
    shell.set_theme(argument)


def _glyphs(shell: Shell, argument: str) -> None:
    from dataclasses import replace

    session = shell.session
    name = argument or ("ascii" if session.look.glyphs.name == "block" else "block")
    if name not in GLYPHS:
        session.say(f"glyphs: {', '.join(GLYPHS)}")
        return
    session.look = replace(session.look, glyphs=GLYPHS[name])


def _copy(shell: Shell, argument: str) -> None:
    text = lists.copied(shell.session)
    if text:
        shell.copy(text)


def _panel(name: str) -> Handler:
    return lambda shell, argument: shell.open_panel(name)


def _plan(kind: str) -> Handler:
    return lambda shell, argument: shell.plan(kind, argument)


def _travel(how: str) -> Handler:
    return lambda shell, argument: shell.travel(how, argument)


HANDLERS: Mapping[str, Handler] = {
    "open": _open,
    "filter": _filter,
    "sort": _sort,
    "reverse": _reverse,
    "wide": lambda shell, argument: shell.session.change(wide=not shell.session.state.wide),
    "columns": _columns,
    "group": _group,
    "mark": _mark,
    "unmark": lambda shell, argument: shell.session.change(marks=frozenset()),
    "next": _neighbour(1),
    "previous": _neighbour(-1),
    **{kind: _plan(kind) for kind in ("silence", "apply", "scale", "drain", "undrain", "pause_scaling", "pin")},
    "up": _move(-1),
    "down": _move(1),
    "page_up": _move(None, -1),
    "page_down": _move(None, 1),
    "first": _move(-1_000_000),
    "last": _move(1_000_000),
    **{f"page_{name}": _go(name) for name in actions.PAGES},
    "events": _go("events"),
    "command": lambda shell, argument: shell.ask_line("command"),
    "palette": _panel("palette"),
    "why": _panel("why"),
    "pause": _pause,
    "step_back": _travel("back"),
    "step_forward": _travel("forward"),
    "earlier_decision": _travel("earlier"),
    "later_decision": _travel("later"),
    "live": _travel("live"),
    "at": _travel("at"),
    "copy": _copy,
    "export": lambda shell, argument: shell.export(argument),
    "theme": _theme,
    "glyphs": _glyphs,
    "help": _panel("help"),
    "back": _back,
    "last_page": lambda shell, argument: setattr(shell.session, "state", shell.session.state.back()),
    "quit": lambda shell, argument: shell.exit(0),
}
