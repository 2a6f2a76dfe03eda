"""Help for the screen one is on, made from the ACTIONS table and the states' own words; nothing here is typed twice.

It must not list a key that does nothing now: in read-only mode what mutates is left out and said to be. The trap: keys
shown are the ones in force, after the user's own `[tui.keys]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opsconsole.domain.records import ReplicaState
from opsconsole.tui import actions
from opsconsole.tui.cells import Cell, Line, left, plain, wrap
from opsconsole.tui.world import Look

STATES = {
    ReplicaState.OK: "ready; nothing waits and KV has room",
    ReplicaState.HOT: "requests wait, or KV is nearly full",
    ReplicaState.SATURATED: "hot for so long that users feel it",
    ReplicaState.WARMING: "created, not ready yet; shown with its phase",
    ReplicaState.DRAINING: "takes no new work; running streams finish",
    ReplicaState.STALE: "no good page lately; values are the last ones, with ?",
    ReplicaState.DOWN: "refused or gone",
}
NUMBERS = (
    "--  not exported, or unknown; never the same as 0",
    "12? last good value of something that no longer answers",
    ">=  only a bound is known: the engine exports TTFT and TPOT apart",
    "p95 from merged buckets of the window, never averaged",
    "SLO% share of requests offered, not of replicas",
    "burn multiples of the speed that would just use up the budget",
    "Colour only repeats the word in ST; mono loses nothing.",
)
MARKS = (
    "!   fires, or wants somebody      x  silenced      .  not for long enough yet",
    "D   on a chart: a decision that asked for another number",
    "*   a marked row; actions take every marked row that is shown",
)
FILTERS = (
    "name or part of it: x2k      not: !x2k",
    "st:sat pool: model: node: gpu: engine: why:",
    "kv>90 slo<99 hit<50 (percent)  ttft>1s tpot>50ms  que>0 run pre in out",
)


def lines(page: str, can_act: bool, look: Look, cells: int, query: str = "") -> list[Line]:
    """The whole help, or what fits the search."""
    out: list[Line] = []
    here = [a for a in actions.ACTIONS if a.pages and actions.allowed(a, page, can_act)]
    out += _section("THIS SCREEN", _keys(here, look, cells))
    everywhere = [a for a in actions.ACTIONS if not a.pages]
    out += _section("EVERYWHERE", _keys(everywhere, look, cells))
    hidden = [a.label for a in actions.ACTIONS if a.mutates and actions.works_on(a, page)]
    if hidden and not can_act:
        words = f"read-only now, so these are off: {', '.join(hidden)}"
        out += _section("", [(Cell(f"  {text}", "warn"),) for text in wrap(words, cells - 2)])
    out += _section("FILTER", [(Cell(f"  {text}"),) for text in FILTERS])
    states = [(Cell(f"  {left(s.value, 6)}", s.value), Cell(words)) for s, words in STATES.items()]
    out += _section("STATES", states)
    out += _section("NUMBERS", [(Cell(f"  {text}"),) for text in NUMBERS])
    better = f"{look.glyphs.up} {look.glyphs.down} better, worse than five minutes ago"
    out += _section("MARKS", [(Cell(f"  {text}"),) for text in (*MARKS, better)])
    out += _section("FILES", [(Cell("  ~/.config/opsconsole/config.toml: [tui] theme, keys, columns, production"),)])
    out.append((Cell("Nothing here changes the fleet without asking first.", "dim"),))
    if not query:
        return out
    found = [line for line in out if query.lower() in plain(line).lower()]
    return found or [(Cell(f"nothing about {query}", "dim"),)]


def _section(title: str, body: Sequence[Line]) -> list[Line]:
    return [*([(Cell(title, "head"),)] if title else []), *body, ()]


def _keys(found: Iterable[actions.Action], look: Look, cells: int) -> list[Line]:
    out: list[Line] = []
    for action in found:
        keys = " ".join(actions.key_name(key) for key in actions.in_force(action, look.keys))
        verb = f":{action.command} {action.arguments}".strip() if action.command and not keys else ""
        name = keys or verb
        first, *rest = wrap(action.help, max(12, cells - 14))
        if len(name) > 11:
            out.append((Cell(f"  {name}", "key"),))
            name = ""
        out.append((Cell(f"  {left(name, 11)} ", "key"), Cell(first, "warn" if action.mutates else "text")))
        out += [(Cell(" " * 14), Cell(more)) for more in rest]
    return out
