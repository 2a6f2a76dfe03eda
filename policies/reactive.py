"""The reactive law: queue, KV, preemption and known demand, against the supply that is already on its way.

It must not know of bounds or windows; others apply them. Every rule states an absolute count of replicas, so replicas
that are starting answer for what they were started for and nothing is bought twice. The trap: a queue says that there
is too little, not how much too little; without a known capacity it may at most double what serves.
"""

from __future__ import annotations

import math
from dataclasses import replace

from policies.backlog import Backlog, project
from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.picture import Picture
from policies.situation import Demand
from policies.wording import number, percent, replicas, seconds

Told = tuple[RuleResult, Memory]
STEADY_S = 30.0  # over which demand is averaged


def queue(picture: Picture, memory: Memory) -> Told:
    """Too many requests wait: ceil(waiting / threshold), at least one more, at most twice what serves."""
    limits, live = picture.situation.thresholds, len(picture.live)
    waiting = picture.waiting
    inputs = (
        Input("waiting", waiting, "requests"),
        Input("threshold", limits.queue, "requests a replica"),
        Input("serving", live, "replicas"),
    )
    if waiting is None:
        return RuleResult("queue", inputs, None, Verdict.UNKNOWN, "queue is unknown on every replica"), memory
    bound = limits.queue * live
    since, memory = memory.holding("queue", waiting > bound, picture.situation.now)
    if since is None:
        return RuleResult("queue", inputs, None, Verdict.OFF, f"queue {number(waiting)} <= {number(bound)}"), memory
    held = picture.situation.now - since
    words = f"queue {number(waiting)} > {number(bound)} for {seconds(held)}"
    if held < limits.queue_hold_s:
        text = f"{words}, counts from {seconds(limits.queue_hold_s)}"
        return RuleResult("queue", inputs, None, Verdict.OFF, text), memory
    backlog = project(picture, waiting)
    if backlog is not None and backlog.gone_in_s is not None:
        text = f"{words}, gone in {seconds(backlog.gone_in_s)}, before a replica started now would help"
        return RuleResult("queue", inputs, live, Verdict.AGREES, text), memory
    wants = max(live + 1, _for_backlog(picture, waiting, backlog))
    return RuleResult("queue", inputs, wants, _against(picture, wants), _text(picture, words, wants)), memory


def _for_backlog(picture: Picture, waiting: float, backlog: Backlog | None) -> int:
    """Enough for what arrives, and for what will still wait then to be gone while the replicas must be kept anyway.

    Unless capacity is known, at most twice what serves, or four more where the queue's growth says how fast it is
    served: a queue says too little, not how much too little.
    """
    limits, live = picture.situation.thresholds, len(picture.live)
    by_length, twice = math.ceil(waiting / limits.queue), max(1, 2 * live)
    rate = picture.situation.demand.request_rate
    if backlog is None or rate is None:
        return min(by_length, twice)
    within = max(1.0, picture.lead_s, picture.situation.limits.stabilise_down_s)
    by_rate = math.ceil((rate + backlog.left / within) / backlog.per_replica - 1e-9)
    return min(by_length, by_rate if backlog.known else min(by_rate, max(twice, live + 4)))


def kv(picture: Picture, memory: Memory) -> Told:
    """KV occupancy summed over replicas, divided by the share each may hold."""
    limit, live = picture.situation.thresholds.kv, len(picture.live)
    inputs = (Input("kv", picture.kv, "replicas' worth"), Input("threshold", limit, "share"))
    if picture.kv is None or not live:
        return RuleResult("kv", inputs, None, Verdict.UNKNOWN, "KV occupancy is unknown on every replica"), memory
    known = sum(1 for r in picture.live if r.kv_usage is not None)
    mean = picture.kv / known
    if mean <= limit:
        return RuleResult("kv", inputs, None, Verdict.OFF, f"KV {percent(mean)} <= {percent(limit)}"), memory
    wants = max(live + 1, math.ceil(mean * live / limit - 1e-9))
    words = f"KV {percent(mean)} > {percent(limit)} on {replicas(known)}"
    return RuleResult("kv", inputs, wants, _against(picture, wants), _text(picture, words, wants)), memory


def preemption(picture: Picture, memory: Memory) -> Told:
    """Requests thrown out of KV: work is done twice, so one more than what serves."""
    limit, live = picture.situation.thresholds.preempt, len(picture.live)
    inputs = (Input("preemptions", picture.preempting, "1/s"), Input("threshold", limit, "1/s a replica"))
    if picture.preempting is None:
        return RuleResult("preemption", inputs, None, Verdict.UNKNOWN, "preemptions are unknown"), memory
    bound = limit * max(1, live)
    if picture.preempting <= bound:
        text = f"preemptions {number(picture.preempting)}/s <= {number(bound)}/s"
        return RuleResult("preemption", inputs, None, Verdict.OFF, text), memory
    wants = live + 1
    words = f"preemptions {number(picture.preempting)}/s > {number(bound)}/s"
    return RuleResult("preemption", inputs, wants, _against(picture, wants), _text(picture, words, wants)), memory


def demand(picture: Picture, memory: Memory) -> Told:
    """What surely arrives now, in replicas' worth of learned capacity. Only where capacity is known."""
    capacity = picture.capacity
    sure, memory = steady(picture, memory)
    worth = picture.worth(sure)
    rate = picture.situation.demand.request_rate
    per = None if capacity is None else capacity.request_rate
    inputs = (
        Input("demand", rate, "requests/s"),
        Input("sure_demand", sure.request_rate, "requests/s"),
        Input("capacity", per, "requests/s a replica"),
        Input("capacity_low", None if capacity is None else capacity.low, "share"),
        Input("capacity_high", None if capacity is None else capacity.high, "share"),
    )
    if worth is None or capacity is None:
        why = "capacity of a replica is not known yet" if capacity is None else "demand is unknown"
        return RuleResult("demand", inputs, None, Verdict.UNKNOWN, why), memory
    wants = math.ceil(worth - 1e-9)
    words = (
        f"demand {number(sure.request_rate)} requests/s is {number(worth)} replicas' worth ({capacity.source} capacity)"
    )
    serving = len(picture.live)
    if wants <= serving:  # told all the same: what would be bought back at once must not be given away
        text = f"{words}, {replicas(serving)} {'serves' if serving == 1 else 'serve'}"
        return RuleResult("demand", inputs, wants, Verdict.AGREES, text), memory
    return RuleResult("demand", inputs, wants, _against(picture, wants), _text(picture, words, wants)), memory


def steady(picture: Picture, memory: Memory) -> tuple[Demand, Memory]:
    """Demand without the noise of counting: the largest of what the last half minute had on average, what two readings
    in a row had, and what one reading cannot have by chance.

    A reading of r requests/s over i seconds is uncertain by sqrt(r / i); two of those are taken off before it counts
    by itself, and tokens are cut by the same share. Each part rises with every reading, so more is never less.
    """
    told = picture.situation.demand
    over = max(picture.situation.interval_s, told.window_s)
    share = max(0.0, 1.0 - 2.0 / math.sqrt(told.request_rate * over)) if told.request_rate else 0.0
    requests, memory = _sure(memory, "demand:requests", picture.situation.now, told.request_rate, share)
    prompt, memory = _sure(memory, "demand:prompt", picture.situation.now, told.prompt_rate, share)
    output, memory = _sure(memory, "demand:output", picture.situation.now, told.output_rate, share)
    return replace(told, request_rate=requests, prompt_rate=prompt, output_rate=output), memory


def _sure(memory: Memory, name: str, now: float, value: float | None, share: float) -> tuple[float | None, Memory]:
    if value is None:
        return None, memory
    before = memory.series(name)
    twice = min(before[-1][1], value) if before else value
    memory = memory.push(name, (now, value), keep_s=STEADY_S)
    rows = memory.series(name)
    return max(sum(row[1] for row in rows) / len(rows), twice, value * share), memory


def _against(picture: Picture, wants: int) -> Verdict:
    return Verdict.RAISES if wants > picture.situation.want else Verdict.AGREES


def _text(picture: Picture, words: str, wants: int) -> str:
    text = f"{words} wants {wants}"
    starting = len(picture.starting)
    if starting and picture.coming >= wants:
        last = max(picture.ready_at(r) for r in picture.starting) - picture.situation.now
        return f"{text}: {len(picture.live)} serve and {starting} start, the last in {seconds(max(0.0, last))}"
    return text
