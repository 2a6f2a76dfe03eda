"""The forecast floor: the smallest supply whose capacity covers the chosen quantile of demand one lead from now.

It must not lower anything; it may only raise a floor, and more predicted load never wants fewer replicas. Two spans
count. What is needed from [now + lead] on must be started now. What is needed before that, or soon after, cannot be
started in time but can be kept: a replica given back now would have to be bought again. The trap: a need inside the
lead must not buy, because the replica would come too late for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies import headroom, hindsight
from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.outlook import Path, path
from policies.picture import Picture
from policies.quantile import Choice
from policies.situation import CapacityFacts, Thresholds
from policies.wording import fine_percent, number, seconds

REQUESTS, PROMPT, OUTPUT = "requests/s", "prompt tokens/s", "output tokens/s"
WORTH = "replicas' worth"  # unit of prompts and answers taken as one load
PLAIN_LEVEL = 0.9  # where no SLO target is known
KEEP_LEADS = 2.0  # what is needed within this many leads is not given back


def forecast_floor(picture: Picture, memory: Memory) -> tuple[RuleResult, Memory]:
    """The larger of what must be started now and what must be kept."""
    situation = picture.situation
    chosen = level_of(situation.thresholds, situation.slo.target, memory)
    times = headroom.in_force(memory) if situation.thresholds.quantile is None else 1.0
    usable = _usable(picture, chosen.level, times)
    if not usable:
        return RuleResult("forecast", (), None, Verdict.UNKNOWN, _why_not(picture)), memory
    start, worth, lead, binding = _starts(picture, usable)
    soon = _soon(picture, usable)
    keep = min(situation.want, _ceil(soon))
    wants = max(start, keep)
    value = binding.path.highest(lead, lead + situation.interval_s)
    inputs: tuple[Input, ...] = (
        Input("lead", lead, "s"),
        Input("quantile", chosen.level, "share"),
        Input("forecast", value, binding.unit),
        Input("median", binding.median.at(lead), binding.unit),
        Input("capacity", binding.per, f"{binding.unit} a replica"),
    )
    assumed = " (assumed)" if picture.lead_assumed else ""
    text = (
        f"forecast {fine_percent(chosen.level)} quantile in {seconds(lead)}{assumed} is {number(value)} {binding.unit} "
        f"({binding.model}), {number(worth)} replicas' worth, wants {start}"
    )
    if keep > start:
        text += f"; {number(soon)} replicas' worth within {seconds(KEEP_LEADS * picture.lead_s)} keeps {keep}"
    if chosen.text:
        text += f"; {chosen.text}"
    if times > 1.0:
        inputs += (Input("headroom", times, "x"),)
        text += f"; {number(times)} times that is bought, for more was missed than the target allows"
    verdict = Verdict.RAISES if wants > situation.want else Verdict.FLOORS
    target = situation.slo.target
    if situation.thresholds.quantile is None and target is not None:

        def wants_at(level: float) -> tuple[int, float]:
            at = _usable(picture, level)
            return _starts(picture, at)[0], _soon(picture, at)

        memory = hindsight.learn(picture, memory, wants_at, target)
    return RuleResult("forecast", inputs, wants, verdict, text), memory


def level_of(thresholds: Thresholds, target: float | None, memory: Memory) -> Choice:
    """The operator's quantile, else the one that the backtest chose for the SLO target, else a plain one."""
    if thresholds.quantile is not None:
        return Choice(thresholds.quantile, "")
    return Choice(PLAIN_LEVEL, "") if target is None else hindsight.in_force(memory, target)


def _soon(picture: Picture, usable: list[_Readable]) -> float:
    """Replicas' worth of the most that comes within the leads in which nothing is given back."""
    return max(r.path.highest(0.0, KEEP_LEADS * picture.lead_s) / r.per for r in usable)


@dataclass(frozen=True, slots=True)
class _Readable:
    """A forecast's chosen quantile and its median, and what a replica does of that unit."""

    unit: str
    model: str
    path: Path
    median: Path
    per: float


def _starts(picture: Picture, usable: list[_Readable]) -> tuple[int, float, float, _Readable]:
    """What must be started now: (count, replicas' worth, lead, the forecast that says so).

    A plain start is needed only for what the faster tiers could not still supply later: with two sleeping replicas
    that wake in 20 s, the need 5 minutes ahead is met by starting two fewer now.
    """
    best: tuple[int, float, float, _Readable] | None = None
    faster = 0
    leads = [(t.lead_s, max(0, t.available)) for t in picture.situation.tiers if t.lead_s < picture.lead_s]
    for lead, available in (*sorted(leads), (picture.lead_s, 0)):
        until = lead + picture.situation.interval_s
        worth, readable = max(((r.path.highest(lead, until) / r.per, r) for r in usable), key=lambda found: found[0])
        count = max(0, _ceil(worth) - faster)
        if best is None or count > best[0]:
            best = (count, worth, lead, readable)
        faster += available
    assert best is not None
    return best


def _usable(picture: Picture, level: float, times: float = 1.0) -> list[_Readable]:
    """Forecasts that can be read and for whose unit a replica's capacity is known; tokens as one where they add up.

    `times` as much as the forecast is to be carried: each replica counts for less.
    """
    capacity = picture.capacity
    if capacity is None:
        return []
    found = {}
    for unit, rate in _rates(picture, capacity):
        outlook = picture.situation.outlooks.get(unit)
        if outlook is None or rate is None or rate <= 0:
            continue
        quantile, median = path(outlook, level), path(outlook, 0.5)
        if quantile is not None and median is not None:
            found[unit] = _Readable(outlook.unit, outlook.model, quantile, median, rate * capacity.low / times)
    share = capacity.prompt_share
    if share is not None and PROMPT in found and OUTPUT in found:
        return [_together(found[PROMPT], found[OUTPUT], share)]
    return list(found.values())


def _together(prompt: _Readable, output: _Readable, share: float) -> _Readable:
    """Prompts and answers as one load in replicas' worth. Quantiles add up as if both were high at once."""

    def add(one: Path, other: Path) -> Path:
        leads = tuple(sorted({*one.leads, *other.leads}))
        each = (share * one.at(lead) / prompt.per + (1.0 - share) * other.at(lead) / output.per for lead in leads)
        return Path(leads, tuple(each), max(one.step_s, other.step_s))

    model = prompt.model if prompt.model == output.model else f"{prompt.model}, {output.model}"
    return _Readable(WORTH, model, add(prompt.path, output.path), add(prompt.median, output.median), 1.0)


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
