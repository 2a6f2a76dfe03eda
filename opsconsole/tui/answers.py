"""What a command typed after `:` is answered with when whatever carried it out said nothing itself.

It must not change anything. The trap: a panel, a dialog, an input line or another screen is an answer of its own, and
a sentence would stand on the keys that work there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opsconsole.tui.actions import Action
from opsconsole.tui.cells import clean
from opsconsole.tui.state import ViewState

GOING = "asking the agent for that moment"  # until the moment is there


def answer(action: Action, argument: str, before: ViewState, after: ViewState) -> str:
    """One sentence, or nothing where the screen itself answers."""
    if after.page != before.page or (action.id in ("filter", "columns") and not argument):
        return ""
    if action.id.startswith("page_") or action.id in ("events", "last_page"):
        return f"this is the {after.page} screen already"
    if action.id == "maximise":
        return f"{after.maximised} has the screen already" if after.maximised == before.maximised else ""
    said = ANSWERS.get(action.id)
    return said(after) if said is not None else ""


def _sorted(state: ViewState) -> str:
    return f"rows by {state.sort.upper()}{', turned round' if state.reverse else ''}"


def _selected(state: ViewState) -> str:
    return f"selected: {clean(state.selected)}" if state.selected else "there is no replica"


def _marked(state: ViewState) -> str:
    return f"marked: {len(state.marks) or 'nothing'}"


def _paused(state: ViewState) -> str:
    if state.at is not None:
        return "a past moment stands still by itself; L goes back to live"
    return "the screen stands still; p again goes on" if state.paused else "the screen goes on"


def _going(state: ViewState) -> str:
    return GOING


ANSWERS: Mapping[str, Callable[[ViewState], str]] = {
    "filter": lambda state: f"filter: {clean(state.filter)}" if state.filter else "no filter",
    "sort": _sorted,
    "reverse": _sorted,
    "wide": lambda state: "more columns" if state.wide else "the usual columns",
    "columns": lambda state: f"columns: {', '.join(state.columns)}" if state.columns else "the layout's own columns",
    "group": lambda state: "no groups" if state.group == "none" else f"grouped by {state.group}",
    "mark": _marked,
    "unmark": _marked,
    "next": _selected,
    "previous": _selected,
    "bare": lambda state: "the table alone" if state.bare else "the table with its panels",
    "pause": _paused,
    **dict.fromkeys(("step_back", "step_forward", "earlier_decision", "later_decision", "live", "at"), _going),
}
