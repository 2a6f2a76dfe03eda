"""The words of a change's dialog: built from the plan that will be executed, and from nothing else.

It must not soften a warning. The trap: the text is for a width of 66 so that it fits 80x24, and every line is wrapped.
"""

from __future__ import annotations

from opsconsole.domain.records import Plan
from opsconsole.tui import format as fmt
from opsconsole.tui.acting import PLANNED, Change, progress
from opsconsole.tui.cells import Cell, Line, clean, spread, wrap
from opsconsole.tui.world import Look, World

HELD = {
    "pause": "Decisions go on being made and shown; none is carried out until somebody resumes.",
    "resume": "Decisions are carried out again, as the agent's mode allows.",
    "pin": "The pool never goes below this number until the pin is removed or replaced.",
    "maintenance": "Whatever fires about it is shown with an x and is not sent anywhere for an hour.",
    "mute": "Its alerts go on being shown with an x and are sent nowhere for a day. `[alerts] mute` is for good.",
    "silence": "The alert goes on being shown with an x and is not sent anywhere for an hour.",
}


def lines(change: Change, world: World, typed: str, said: str, cells: int, look: Look) -> list[Line]:
    """Everything above the input lines."""
    snapshot = world.snapshot
    context = [Cell(" PRODUCTION ", "demo")] if change.production else []
    fleet = clean(snapshot.fleet) if snapshot else ""
    out: list[Line] = [
        spread((Cell(f" {clean(change.title)}", "title"),), (Cell(f"{fleet} ", "dim"), *context, Cell(" ")), cells),
        (Cell(" " + look.glyphs.flat * (cells - 2), "box"),),
    ]
    for fact in change.facts:
        out += _said("now", fact, "text", cells)
    if change.sent:
        words, ended = progress(change, world)
        out += _said("result" if ended else "running", words, "good" if ended else "accent", cells)
        out += [(), (Cell(" Esc closes; what was started goes on", "dim"),)]
        return out
    if change.kind in PLANNED:
        out += _plan(change.plan, change, cells)
    else:
        out += _said("effect", HELD[change.kind], "text", cells)
    if change.error:
        out += _said("refused", change.error, "bad", cells)
    if change.needs_typing and change.word:
        reason = "This is PRODUCTION." if change.production else "The plan has a warning."
        out += [(), *_said("", f"{reason} Type {change.word} to confirm.", "warn", cells)]
    missing = change.missing(typed)
    out.append(())
    if said or missing:
        out += _said("", said or missing, "warn" if said else "dim", cells)
    out.append(spread(
        (Cell(" Esc cancel (default)", "key"), Cell("   Tab next field", "dim")),
        (Cell("Enter apply ", "key" if not missing else "dim"),), cells,
    ))  # fmt: skip
    return out


def _plan(plan: Plan | None, change: Change, cells: int) -> list[Line]:
    if plan is None:
        words = "asking the agent what would happen" if change.busy else "" if change.error else "type the new number"
        return _said("dry run", words, "dim", cells) if words else []
    out: list[Line] = []
    if plan.to_count is not None and plan.from_count is not None:
        out += _said("change", f"{plan.from_count} -> {plan.to_count} replicas of {plan.pool}", "title", cells)
    out += _said("effect", plan.effect or "the agent predicts nothing", "text", cells)
    grows = plan.to_count is not None and plan.from_count is not None and plan.to_count >= plan.from_count
    if plan.streams_at_risk is not None and not (grows and not plan.streams_at_risk):
        wait = f"; a drain waits up to {fmt.span(plan.deadline)} for them" if plan.deadline is not None else ""
        run = "runs" if plan.streams_at_risk == 1 else "run"
        out += _said("streams", f"{plan.streams_at_risk} {run} where work would stop{wait}", "text", cells)
    for warning in plan.warnings:
        out += _said("!", warning, "bad", cells)
    out += _said("dry run", f"accepted, version {plan.version or '--'}; refused if the fleet moves first", "dim", cells)
    return out


def _said(label: str, text: str, style: str, cells: int) -> list[Line]:
    out: list[Line] = []
    for index, piece in enumerate(wrap(clean(text), cells - 12)):
        out.append((Cell(f" {label if index == 0 else '':<9} ", "dim"), Cell(piece, style)))
    return out
