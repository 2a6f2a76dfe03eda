"""The forecast floor: the smallest supply whose capacity covers the chosen quantile of demand one lead from now.

It must not lower anything; it may only raise a floor, and more predicted load never wants fewer replicas. Two spans
count. What is needed from [now + lead] on must be started now. What is needed before that, or soon after, cannot be
started in time but can be kept: a replica given back now would have to be bought again. The trap: a need inside the
lead must not buy, because the replica would come too late for it.
"""

from __future__ import annotations

import math

from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.outlook import at, highest
from policies.picture import Picture
from policies.situation import CapacityFacts, Outlook
from policies.wording import number, percent, seconds

REQUESTS, PROMPT, OUTPUT = "requests/s", "prompt tokens/s", "output tokens/s"
KEEP_LEADS = 2.0  # what is needed within this many leads is not given back


def forecast_floor(picture: Picture, memory: Memory) -> tuple[RuleResult, Memory]:
    """The larger of what must be started now and what must be kept."""
    situation = picture.situation
    level = situation.thresholds.quantile
    usable = _usable(picture)
    if not usable:
        return RuleResult("forecast", (), None, Verdict.UNKNOWN, _why_not(picture)), memory
    lead, interval = picture.lead_s, situation.interval_s
    starts = [(need(o, per, lead, lead + interval, level), o, per) for o, per in usable]
    worth, outlook, per = max(starts, key=lambda found: found[0])
    start = _ceil(worth)
    soon = max(need(o, p, 0.0, KEEP_LEADS * lead, level) for o, p in usable)
    keep = min(situation.want, _ceil(soon))
    wants = max(start, keep)
    value = highest(outlook, lead, lead + interval, level)
    median = at(outlook, lead, 0.5)
    inputs = (
        Input("lead", lead, "s"),
        Input("quantile", level, "share"),
        Input("forecast", value, outlook.unit),
        Input("median", median, outlook.unit),
        Input("capacity", per, f"{outlook.unit} a replica"),
    )
    assumed = " (assumed)" if picture.lead_assumed else ""
    text = (
        f"forecast {percent(level)} quantile in {seconds(lead)}{assumed} is {number(value)} {outlook.unit} "
        f"({outlook.model}), {number(worth)} replicas' worth, wants {start}"
    )
    if keep > start:
        text += f"; {number(soon)} replicas' worth within {seconds(KEEP_LEADS * lead)} keeps {keep}"
    verdict = Verdict.RAISES if wants > situation.want else Verdict.FLOORS
    return RuleResult("forecast", inputs, wants, verdict, text), memory


def need(outlook: Outlook, per: float, first_s: float, last_s: float, level: float) -> float:
    """Replicas' worth of the highest demand over a span of leads."""
    return (highest(outlook, first_s, last_s, level) or 0.0) / per


def _usable(picture: Picture) -> list[tuple[Outlook, float]]:
    """Forecasts that can be read and for whose unit a replica's capacity is known, with that capacity."""
    capacity = picture.capacity
    if capacity is None:
        return []
    found = []
    for unit, rate in _rates(picture, capacity):
        outlook = picture.situation.outlooks.get(unit)
        if outlook is not None and rate is not None and rate > 0 and at(outlook, 0.0, 0.5) is not None:
            found.append((outlook, rate * capacity.low))
    return found


def _rates(picture: Picture, capacity: CapacityFacts) -> tuple[tuple[str, float | None], ...]:
    """Which demands load this pool: a prefill pool reads prompts, a decode pool writes answers."""
    role = picture.situation.role
    return (
        (REQUESTS, capacity.request_rate),
        (PROMPT, None if role == "decode" else capacity.prompt_rate),
        (OUTPUT, None if role == "prefill" else capacity.output_rate),
    )


def _why_not(picture: Picture) -> str:
    if not picture.situation.outlooks:
        return "no forecast"
    if picture.capacity is None:
        return "a forecast is there, but the capacity of a replica is not known yet"
    return "no forecast fits a known capacity"


def _ceil(worth: float) -> int:
    return math.ceil(worth - 1e-9)
