"""Bounds, steps and budgets; the minimum comes last, on every path.

It must not know why a count was wanted. The trap: a cap that is applied after the minimum undoes it, so the order is
maximum, budget, step, then minimum, and nothing follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.decision import Input, RuleResult, Verdict
from policies.picture import Picture
from policies.situation import ScheduleWindow, Situation
from policies.wording import replicas


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that hold now: the operator's, a pin's and a schedule's together, each with the word for it."""

    minimum: int
    maximum: int
    minimum_by: str = "minimum"
    maximum_by: str = "maximum"


def bounds(situation: Situation) -> Bounds:
    """The largest minimum and the tightest maximum in force; a minimum wins over a schedule's maximum, never over the
    operator's own."""
    limits = situation.limits
    minimum, by = limits.minimum, "minimum"
    maximum, top_by = limits.maximum, "maximum"
    if limits.budget is not None and limits.budget < maximum:
        maximum, top_by = limits.budget, "budget"
    for window in active(situation.schedule, situation.now):
        note = f"schedule {window.note}".strip()
        if window.minimum is not None and window.minimum > minimum:
            minimum, by = window.minimum, note
        if window.maximum is not None and window.maximum < maximum:
            maximum, top_by = window.maximum, note
    if situation.pinned_minimum is not None and situation.pinned_minimum > minimum:
        minimum, by = situation.pinned_minimum, "pin"
    hard = max(limits.minimum, limits.maximum)
    minimum = min(minimum, hard)
    return Bounds(minimum, max(minimum, maximum), by, top_by)


def active(schedule: tuple[ScheduleWindow, ...], now: float) -> tuple[ScheduleWindow, ...]:
    return tuple(w for w in schedule if w.start <= now < w.end)


def cap(situation: Situation, count: int) -> tuple[int, RuleResult | None]:
    """No more than the maximum in force; says nothing when it does not bind."""
    limit = bounds(situation)
    if count <= limit.maximum:
        return count, None
    text = f"{limit.maximum_by} {limit.maximum} caps {count}"
    inputs = (Input("maximum", limit.maximum, "replicas"), Input("wanted", count, "replicas"))
    return limit.maximum, RuleResult(limit.maximum_by, inputs, limit.maximum, Verdict.CAPS, text)


def step(picture: Picture, count: int) -> tuple[int, RuleResult | None]:
    """At most a step per decision; down at most as many as may drain at once beside those that already do."""
    situation = picture.situation
    limits, current = situation.limits, situation.want
    if count > current:
        if limits.step_up is None or count - current <= limits.step_up:
            return count, None
        reached = current + limits.step_up
        text = f"step of {limits.step_up} up allows {reached} of {count}"
        up = (Input("step_up", limits.step_up, "replicas"),)
        return reached, RuleResult("step", up, reached, Verdict.CAPS, text)
    if count == current:
        return count, None
    free = max(0, limits.drains_at_once - picture.draining)
    allowed = free if limits.step_down is None else min(free, limits.step_down)
    reached = max(count, current - allowed)
    if reached == count:
        return count, None
    inputs = (
        Input("draining", picture.draining, "replicas"),
        Input("drains_at_once", limits.drains_at_once, "replicas"),
    )
    if free == 0:
        text = f"{replicas(picture.draining)} already draining, {limits.drains_at_once} at once: stays at {reached}"
    else:
        text = f"step of {allowed} down allows {reached} on the way to {count}"
    return reached, RuleResult("step", inputs, reached, Verdict.HOLDS, text)


def enforce(situation: Situation, count: int) -> tuple[int, RuleResult | None]:
    """The last word on every path: inside the bounds, the minimum last."""
    limit = bounds(situation)
    held = max(limit.minimum, min(count, limit.maximum))
    if held == count:
        return count, None
    if held > count:
        text = f"{limit.minimum_by} {held} holds up {count}"
        inputs = (Input("minimum", held, "replicas"), Input("wanted", count, "replicas"))
        return held, RuleResult(limit.minimum_by, inputs, held, Verdict.FLOORS, text)
    text = f"{limit.maximum_by} {held} caps {count}"
    inputs = (Input("maximum", held, "replicas"), Input("wanted", count, "replicas"))
    return held, RuleResult(limit.maximum_by, inputs, held, Verdict.CAPS, text)
