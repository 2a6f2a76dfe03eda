"""Decisions and outcomes as journal lines and as the views screens show.

It turns policy values into records and never words a decision anew: the sentences are the rules' own. The trap: a
number a rule did not know is shown as `?`, not left out, so that a reader sees what was missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opsconsole.domain.records import (
    CapacityView,
    DecisionView,
    JournalEntry,
    Outcome,
    Plan,
    PlanKind,
    RuleTrace,
    SupplyPoint,
)
from policies.decision import Decision, Input
from policies.picture import Picture
from policies.situation import CapacityFacts


def decision_view(
    decision: Decision, at: float, counterfactual: Mapping[str, int] | None = None, picture: Picture | None = None
) -> DecisionView:
    """A decision as shown, with what its law knew of capacity, lead and supply where that is given."""
    view = DecisionView(
        at,
        decision.pool,
        decision.current,
        decision.target,
        decision.binding,
        decision.reason,
        tuple(
            RuleTrace(r.rule, ", ".join(_input(i) for i in r.inputs), r.wants, r.verdict.value, r.text)
            for r in decision.rules
        ),
        decision.drain,
        dict(counterfactual or {}),
        decision.held,
    )
    if picture is None:
        return view
    return replace(
        view,
        capacity=_capacity(picture.capacity),
        lead=picture.lead_s,
        lead_assumed=picture.lead_assumed,
        supply=_supply(picture, at),
    )


def _capacity(known: CapacityFacts | None) -> CapacityView | None:
    if known is None:
        return None
    rates = (known.request_rate, known.prompt_rate, known.output_rate)
    return CapacityView(*rates, known.low, known.high, known.source, known.samples, known.prompt_share)


def _supply(picture: Picture, at: float) -> tuple[SupplyPoint, ...]:
    """What serves now and what will, as replicas that start become useful; those overdue count from now."""
    ready = sorted(max(at, picture.ready_at(replica)) for replica in picture.starting)
    live = len(picture.live)
    return (SupplyPoint(at, live), *(SupplyPoint(when, live + i) for i, when in enumerate(ready, 1)))


def _input(given: Input) -> str:
    value = "?" if given.value is None else f"{given.value:.4g}"
    return f"{given.name} {value}{' ' + given.unit if given.unit else ''}"


def decision_text(view: DecisionView) -> str:
    if view.target == view.current:
        return f"{view.pool} stays at {view.current}: {view.reason}"
    going = f", {', '.join(view.drain)} to go" if view.drain and view.target < view.current else ""
    return f"{view.pool} {view.current} -> {view.target} ({view.binding}): {view.reason}{going}"


def plan_text(plan: Plan) -> str:
    names = ", ".join(plan.replicas)
    if plan.kind is PlanKind.SCALE:
        going = f" by draining {names}" if names else ""
        return f"scale {plan.pool} from {plan.from_count} to {plan.to_count}{going}: {plan.reason}"
    return f"{plan.kind} {names}: {plan.reason}"


def outcome_entry(plan: Plan, outcome: Outcome, tick: int | None) -> JournalEntry:
    cut = f", {outcome.streams_cut} streams cut" if outcome.streams_cut else ""
    detail = f": {outcome.detail}" if outcome.detail else ""
    text = f"{plan_text(plan).split(':', 1)[0]} {outcome.status}{cut}{detail}"
    return JournalEntry(0, outcome.at, "outcome", plan.pool, text, tick, outcome.by, plan=plan, outcome=outcome)


def plan_entry(plan: Plan, by: str, at: float, tick: int | None) -> JournalEntry:
    return JournalEntry(0, at, "plan", plan.pool, plan_text(plan), tick, by, plan=plan)
