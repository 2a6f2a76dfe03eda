"""The one table of everything a user can do: bindings, footer, help, palette and `:` commands are made from it.

It must not know how an action is carried out; `dispatch` maps ids to functions and a test holds the two equal. The
trap: an action that changes the fleet must say `mutates=True`, which is what read-only mode, the web mode and the
palette look at; there is no second list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opsconsole.tui.memo import kept_by

PAGES = ("fleet", "replica", "decisions", "slo", "caches", "events")
ROWS = frozenset({"fleet", "decisions", "slo", "caches", "events"})  # screens with a list and a cursor


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a user can do. Keys are Textual's names; the first one is shown."""

    id: str
    keys: tuple[str, ...]
    label: str  # one word, for the footer
    help: str  # a sentence's worth, for help and palette
    pages: frozenset[str] = frozenset()  # where it works; empty is everywhere
    command: str = ""  # the verb after `:`
    arguments: str = ""  # what may follow the verb
    mutates: bool = False
    footer: int = 0  # > 0: shown in the footer, most important first


def _on(*pages: str) -> frozenset[str]:
    return frozenset(pages)


_LISTS = ROWS
ACTIONS: tuple[Action, ...] = (
    # This screen
    Action("open", ("enter",), "open", "open what is selected", _on("fleet", "decisions", "slo", "caches", "events"),
           "open", "NAME", footer=90),
    Action("filter", ("slash",), "filter", "filter rows: name  st:sat  kv>90  slo<99  model:llama  !x",
           _on("fleet", "slo", "caches", "events"), "filter", "WORDS", footer=85),
    Action("sort", ("o",), "sort", "sort by the next column", _on("fleet"), "sort", "COLUMN [asc|desc]", footer=80),
    Action("reverse", ("O",), "reverse", "turn the sort order round", _on("fleet"), "reverse"),
    Action("wide", ("w",), "wide", "more columns on and off", _on("fleet"), "wide"),
    Action("columns", ("C",), "columns", "choose columns and their order", _on("fleet"), "columns", "A,B,C|default"),
    Action("group", ("g",), "group", "group rows by pool, model, node, role, state or nothing", _on("fleet"), "group",
           "pool|model|node|role|state|none"),
    Action("mark", ("space",), "mark", "mark the row; actions then take every marked one", _on("fleet"), "mark"),
    Action("unmark", ("U",), "unmark", "remove all marks", _on("fleet"), "unmark"),
    Action("bare", ("h",), "panels", "hide the panels around the table, and show them again", _on("fleet"), "panels"),
    Action("window", ("w",), "window", "attainment now, over the short or the long burn window", _on("slo"), "window",
           "now|short|long", footer=72),
    Action("series", ("f",), "series", "the demand forecast in requests, prompt tokens or output tokens",
           _on("decisions"), "series", "requests|prompt|output"),
    Action("horizon", ("h",), "horizon", "the demand chart whole, 15 minutes around now, or 5", _on("decisions"),
           "horizon", "all|15m|5m"),
    Action("metrics", ("m",), "metrics", "every number of its newest page, as text", _on("replica"), "metrics",
           footer=62),
    Action("logs", ("l",), "logs", "the last lines the replica wrote", _on("fleet", "replica"), "logs", "NAME"),
    Action("next", ("tab",), "next", "next replica", _on("replica"), "next", footer=70),
    Action("previous", ("shift+tab",), "previous", "previous replica", _on("replica"), "previous"),
    Action("silence", ("z",), "silence", "silence the selected alert for an hour (a journalled note)", _on("events"),
           "silence", "RULE [SUBJECT]", mutates=True, footer=78),
    Action("mute", ("m",), "mute", "mute the rule of the selected alert for a day, whatever else it finds (asks)",
           _on("events"), "mute", "RULE", mutates=True, footer=15),
    Action("maintenance", ("Z",), "quiet", "maintenance: silence every alert of the marked or selected replicas (asks)",
           _on("fleet", "replica"), "maintenance", "NAME...", mutates=True),
    Action("apply", ("a",), "apply", "apply the advised decision (asks, shows the effect first)",
           _on("fleet", "decisions"), "apply", mutates=True, footer=60),
    Action("scale", ("s",), "scale", "scale the pool (asks, shows the effect first)", _on("fleet", "decisions", "slo"),
           "scale", "POOL N", mutates=True, footer=75),
    Action("drain", ("d",), "drain", "drain marked or selected replicas (asks)", _on("fleet", "replica"), "drain",
           "NAME...", mutates=True, footer=74),
    Action("undrain", ("u",), "undrain", "put marked or selected replicas back into service (asks)",
           _on("fleet", "replica"), "undrain", "NAME...", mutates=True),
    Action("pause_scaling", ("P",), "autopause", "pause or resume automatic scaling of the pool (asks)",
           _on("fleet", "decisions"), "autopause", "[POOL]", mutates=True),
    Action("pin", ("m",), "pin", "pin a minimum for the pool (asks)", _on("fleet", "decisions"), "pin", "POOL N",
           mutates=True),
    # Moving
    Action("up", ("up", "k"), "up", "up a row", _LISTS),
    Action("down", ("down", "j"), "down", "down a row", _LISTS),
    Action("page_up", ("pageup", "ctrl+u"), "page up", "up a page", _LISTS),
    Action("page_down", ("pagedown", "ctrl+d"), "page down", "down a page", _LISTS),
    Action("first", ("home",), "first", "first row", _LISTS),
    Action("last", ("end", "G"), "last", "last row", _LISTS),
    # Everywhere
    *(
        Action(f"page_{name}", (str(number),), name, f"the {name} screen", command=name)
        for number, name in enumerate(PAGES, start=1)
    ),
    Action("events", ("e",), "events", "the events screen", command="log"),
    Action("command", ("colon",), "cmd", "command line with completion", footer=40),
    Action("palette", ("ctrl+p",), "palette", "command palette: every action and replica, fuzzy"),
    Action("why", ("y",), "why", "why: explain what is selected, and where its numbers come from", command="why",
           footer=65),
    Action("pause", ("p",), "pause", "pause the screen, not the fleet; again to go on", command="pause", footer=55),
    Action("step_back", ("comma",), "back in time", "one step back in time", command="back"),
    Action("step_forward", ("full_stop",), "forward", "one step forward in time", command="forward"),
    Action("earlier_decision", ("less_than_sign",), "earlier", "back to the previous decision", command="earlier"),
    Action("later_decision", ("greater_than_sign",), "later", "on to the next decision", command="later"),
    Action("live", ("L",), "live", "back to live", command="live"),
    Action("at", (), "at", "the whole screen as it was at a time of day", command="at", arguments="HH:MM[:SS]|-5m"),
    Action("maximise", ("M",), "maximise", "one panel on the whole screen; again for the next one, Esc for all",
           command="maximise", arguments="[PANEL]"),
    Action("record", ("r",), "record", "record what is seen to a file that `opsconsole replay` plays; again to end",
           command="record", arguments="[FILE]"),
    Action("copy", ("c",), "copy", "copy the selected row through the terminal (OSC 52)", command="copy"),
    Action("export", ("x",), "export", "write this screen as SVG, its data as JSON, its list as CSV", command="export",
           arguments="[FILE]"),
    Action("theme", ("T",), "theme", "next theme: dark, light, contrast, cvd, mono", command="theme",
           arguments="dark|light|contrast|cvd|mono"),
    Action("glyphs", (), "glyphs", "block characters or ASCII", command="glyphs", arguments="block|ascii"),
    Action("help", ("question_mark", "f1"), "help", "this help", command="help", footer=76),
    Action("back", ("escape",), "back", "back, or close what is open", footer=20),
    Action("last_page", ("minus",), "last", "the screen before this one", command="last"),
    Action("quit", ("q",), "quit", "quit; the agent goes on unless this console started it", command="quit"),
)  # fmt: skip

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}
BY_COMMAND: Mapping[str, Action] = {action.command: action for action in ACTIONS if action.command}

_NAMES = {
    "slash": "/", "colon": ":", "comma": ",", "full_stop": ".", "less_than_sign": "<", "greater_than_sign": ">",
    "question_mark": "?", "minus": "-", "escape": "Esc", "enter": "Enter", "tab": "Tab", "shift+tab": "S-Tab",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "up": "Up", "down": "Down", "f1": "F1",
}  # fmt: skip


def key_name(key: str) -> str:
    """A key as printed on it."""
    return _NAMES.get(key, key)


def works_on(action: Action, page: str) -> bool:
    """Whether the action means something on this screen."""
    return not action.pages or page in action.pages


def allowed(action: Action, page: str, can_act: bool) -> bool:
    """Whether it may be used now; read-only removes what mutates instead of failing later."""
    return works_on(action, page) and (can_act or not action.mutates)


@kept_by(lambda page, can_act, keys=None: (page, can_act, keys))
def footer(page: str, can_act: bool, keys: Mapping[str, tuple[str, ...]] | None = None) -> list[tuple[str, str]]:
    """Key and label of what the last line shows, most important first."""
    shown = [a for a in ACTIONS if a.footer and allowed(a, page, can_act)]
    shown.sort(key=lambda a: -a.footer)
    return [(key_name(in_force(a, keys)[0]), a.label) for a in shown if in_force(a, keys)]


def in_force(action: Action, keys: Mapping[str, tuple[str, ...]] | None) -> tuple[str, ...]:
    """The keys of an action after the user's own `[tui.keys]`."""
    return (keys or {}).get(action.id, action.keys)


def for_key(key: str, page: str, keys: Mapping[str, tuple[str, ...]] | None = None) -> Action | None:
    """What a key means on a screen."""
    return next((a for a in ACTIONS if works_on(a, page) and key in in_force(a, keys)), None)


def clashes(keys: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Sentences about keys that would mean two things on one screen."""
    found = []
    for page in PAGES:
        taken: dict[str, str] = {}
        for action in ACTIONS:
            for key in in_force(action, keys) if works_on(action, page) else ():
                if key in taken:
                    found.append(f"{key_name(key)} would mean both {taken[key]} and {action.id} on the {page} screen")
                taken[key] = action.id
    return sorted(set(found))


def complete(text: str, words: Iterable[str] = ()) -> list[str]:
    """What may follow in the command line: verbs first, then the arguments a verb takes, then `words` (names)."""
    verb, space, rest = text.lstrip().partition(" ")
    if not space:
        return sorted(name for name in BY_COMMAND if name.startswith(verb))
    action = BY_COMMAND.get(verb)
    if action is None or not action.arguments:
        return []
    *done, last = rest.split(" ")
    options = [option for option in action.arguments.split("|") if option.islower() and "[" not in option]
    if not options or "NAME" in action.arguments or "POOL" in action.arguments or "SUBJECT" in action.arguments:
        options += list(words)
    head = " ".join([verb, *done])
    return [f"{head} {option}" for option in options if option.startswith(last)]
