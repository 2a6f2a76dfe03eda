"""What each action does: ids of the ACTIONS table to functions over a session; keys, palette and `:` all come here.

It must not know widgets; what needs a terminal is asked of the shell. The trap: the guard for actions that mutate is
in `perform` and nowhere else, so nothing may call a handler around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opsconsole.tui import actions, answers, choosing, showing
from opsconsole.tui.session import Session
from opsconsole.tui.shell import Handler, Shell
from opsconsole.tui.theme import GLYPHS, THEMES
from opsconsole.tui.viewmodel import lists
from opsconsole.tui.world import LinkState


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
    """A line typed after `:`; it is answered at once, and what was said before it is no answer."""
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
    before = shell.session.state
    shell.session.change(message="")
    perform(shell, action.id, argument)
    if not shell.session.state.message:
        shell.session.say(answers.answer(action, argument.strip(), before, shell.session.state))


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
            session.say("there is nothing to open")
    else:
        shell.open_panel("why")


def _back(shell: Shell, argument: str) -> None:
    session = shell.session
    if session.state.maximised:
        session.change(maximised="")
    elif session.state.filter:
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
        session.hold(replace(session.live, trends=session.live.trends.as_now()))
        session.change(paused=True)


def _theme(shell: Shell, argument: str) -> None:
    if argument and argument not in THEMES:
        shell.session.say(f"themes: {', '.join(THEMES)}")
        return
    shell.set_theme(argument)


def _glyphs(shell: Shell, argument: str) -> None:
    session = shell.session
    name = argument or ("ascii" if session.look.glyphs.name == "block" else "block")
    if name not in GLYPHS:
        session.say(f"glyphs: {', '.join(GLYPHS)}")
        return
    session.look = replace(session.look, glyphs=GLYPHS[name])
    session.say(f"glyphs: {name}")


def copy_text(shell: Shell, text: str) -> None:
    """Put it on the clipboard of whoever sits at the terminal."""
    shell.copy_to_clipboard(text)
    shell.session.say("copied through the terminal (OSC 52)")


def _copy(shell: Shell, argument: str) -> None:
    text = lists.copied(shell.session)
    if text:
        copy_text(shell, text)
    else:
        shell.session.say("there is nothing to copy")


def _panel(name: str) -> Handler:
    return lambda shell, argument: shell.open_panel(name)


def _logs(shell: Shell, argument: str) -> None:
    if argument:
        _open(shell, argument)
    if shell.session.selected() is None:
        shell.session.say("select a replica first")
        return
    shell.open_panel("logs")


def _plan(kind: str) -> Handler:
    return lambda shell, argument: shell.plan(kind, argument)


def _travel(how: str) -> Handler:
    return lambda shell, argument: shell.travel(how, argument)


HANDLERS: Mapping[str, Handler] = {
    "open": _open,
    "filter": choosing.set_filter,
    "sort": choosing.sort,
    "reverse": choosing.reverse,
    "wide": lambda shell, argument: shell.session.change(wide=not shell.session.state.wide),
    "columns": choosing.columns,
    "group": choosing.group,
    "mark": choosing.mark,
    "unmark": lambda shell, argument: shell.session.change(marks=frozenset()),
    "next": choosing.neighbour(1),
    "previous": choosing.neighbour(-1),
    **{action.id: _plan(action.id) for action in actions.ACTIONS if action.mutates},
    "up": choosing.move(-1),
    "down": choosing.move(1),
    "page_up": choosing.move(None, -1),
    "page_down": choosing.move(None, 1),
    "first": choosing.move(-1_000_000),
    "last": choosing.move(1_000_000),
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
    "window": showing.window,
    "series": showing.series,
    "horizon": showing.horizon,
    "maximise": showing.maximise,
    "bare": showing.bare,
    "metrics": _panel("metrics"),
    "logs": _logs,
    "record": lambda shell, argument: shell.session.say(shell.recording.toggle(argument)),
    "help": _panel("help"),
    "back": _back,
    "last_page": lambda shell, argument: setattr(shell.session, "state", shell.session.state.back()),
    "quit": lambda shell, argument: shell.exit(0),
}
