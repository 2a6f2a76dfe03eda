"""The order in which rules speak: max(reactive law, forecast floor), then limits, then stabilisation, minimum last.

Scaling up acts at once; scaling down needs a window, fresh data from everyone, a consolidation check and a free drain.
Every rule's own account is kept, whether it bound or not. The trap: whatever path is taken, a pause, a hold or unknown
data, the last thing that happens to the target is `limits.enforce`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from policies import capacity, drain, lead, limits, overload, reactive, slo_guard
from policies.consolidate import consolidate
from policies.decision import Decision, Input, RuleResult, Verdict
from policies.memory import Memory
from policies.picture import Picture, draw
from policies.predictive import forecast_floor
from policies.schedule import schedule_ahead
from policies.situation import Situation
from policies.stabilise import stabilise
from policies.wording import replicas, seconds

Rule = Callable[[Picture, Memory], tuple[RuleResult, Memory]]

REACTIVE: tuple[Rule, ...] = (
    reactive.queue,
    reactive.kv,
    reactive.preemption,
    reactive.demand,
    slo_guard.slo_guard,
    schedule_ahead,
)
PREDICTIVE: tuple[Rule, ...] = (*REACTIVE, forecast_floor)


@dataclass(frozen=True, slots=True)
class Composed:
    """A policy made of rules that each want a count; the largest want counts. The knobs override the thresholds."""

    name: str
    rules: tuple[Rule, ...]
    needs: tuple[str, ...] = ()
    period_s: float = 15.0
    queue: float | None = None
    kv: float | None = None
    quantile: float | None = None
    packed: float | None = None

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        knobs = {"queue": self.queue, "kv": self.kv, "quantile": self.quantile, "packed": self.packed}
        turned = {name: value for name, value in knobs.items() if value is not None}
        if turned:
            situation = replace(situation, thresholds=replace(situation.thresholds, **turned))
        return _decide(situation, memory, self.rules)


def picture_of(situation: Situation, memory: Memory) -> Picture:
    """The situation with what was learned: a lead that was only assumed gives way to one that was seen."""
    name = lead.key(situation.pool, situation.model, situation.kind)
    known = lead.lead(memory, name, situation.lead_s, situation.interval_s)
    if situation.lead_assumed and not known.assumed:
        seconds_, assumed = known.seconds, False
    else:
        seconds_, assumed = situation.lead_s, situation.lead_assumed
    too_much = overload.least(memory, situation.now)
    return draw(situation, seconds_, assumed, capacity.facts(situation, memory), too_much)


def _decide(situation: Situation, memory: Memory, rules: Sequence[Rule]) -> tuple[Decision, Memory]:
    memory = lead.learn(situation, memory)
    picture = picture_of(situation, memory)
    learned = overload.remember(picture, *capacity.learn(picture, memory))
    if learned is not memory:
        memory = learned
        picture = picture_of(situation, memory)
    trace: list[RuleResult] = []
    for rule in rules:
        result, memory = rule(picture, memory)
        trace.append(result)
    calm, memory = consolidate(picture, memory)
    trace.append(calm)
    count, binding = _wanted(picture, trace, calm)
    count, capped = limits.cap(situation, count)
    steady, memory = stabilise(picture, memory, count)
    trace += [r for r in (capped, steady.result) if r is not None]
    count, stepped = limits.step(picture, steady.count)
    trace += [stepped] if stepped is not None else []
    hold = _hold(situation)
    if hold is not None:
        trace.append(hold)
        count = situation.want
    target, last = limits.enforce(situation, count)
    trace += [last] if last is not None else []
    names = drain.choose(situation, situation.want - target) if target < situation.want else ()
    if names:
        text = drain.sentence(situation, names)
        trace.append(RuleResult("drain", (Input("streams", None, "streams"),), target, Verdict.AGREES, text))
    binding, reason = _explain(situation, target, binding, hold, last, [capped, steady.result, stepped])
    held = steady.held or hold is not None or calm.verdict is Verdict.UNKNOWN
    return Decision(
        pool=situation.pool,
        current=situation.want,
        target=target,
        binding=binding.rule,
        reason=reason,
        rules=tuple(trace),
        drain=names,
        held=held and target == situation.want,
    ), memory


def _wanted(picture: Picture, trace: Sequence[RuleResult], calm: RuleResult) -> tuple[int, RuleResult]:
    """The largest want; without one, what consolidation allows; without that, what there is."""
    want = picture.situation.want
    raising = [r for r in trace if r is not calm and r.wants is not None]
    first = _from_zero(picture)
    if first is not None:
        raising.insert(0, first)
    if raising:
        strongest = max(raising, key=lambda r: r.wants or 0)
        wants = strongest.wants or 0
        if wants >= want:
            return wants, strongest
        if calm.wants is not None and calm.wants < want:
            return max(wants, calm.wants), strongest if wants >= calm.wants else calm
        return want, calm
    if calm.wants is not None:
        return min(calm.wants, want), calm
    return want, calm


def _from_zero(picture: Picture) -> RuleResult | None:
    """Nothing serves and somebody knocks: the gateway's queue wakes the pool."""
    situation = picture.situation
    demand = situation.demand
    knocks = (demand.gateway_waiting or 0.0) + (demand.request_rate or 0.0) + (demand.rejected_rate or 0.0)
    if situation.want > 0 or knocks <= 0:
        return None
    text = "requests arrive at a pool of 0 replicas, wants 1"
    return RuleResult("wake", (Input("gateway_waiting", demand.gateway_waiting, "requests"),), 1, Verdict.RAISES, text)


def _hold(situation: Situation) -> RuleResult | None:
    """A person or another owner says: leave it."""
    inputs: tuple[Input, ...] = ()
    if situation.frozen_reason is not None:
        text = f"hold at {situation.want}: {situation.frozen_reason}"
        return RuleResult("owner", inputs, situation.want, Verdict.HOLDS, text)
    if situation.paused_until is not None and situation.now < situation.paused_until:
        left = situation.paused_until - situation.now
        ends = math.isfinite(left)
        how_long = f"for another {seconds(left)}" if ends else "until somebody resumes"
        inputs = (Input("left", left, "s"),) if ends else ()
        text = f"hold at {situation.want}: paused {how_long}"
        return RuleResult("pause", inputs, situation.want, Verdict.HOLDS, text)
    return None


def _explain(
    situation: Situation,
    target: int,
    binding: RuleResult,
    hold: RuleResult | None,
    last: RuleResult | None,
    others: Sequence[RuleResult | None],
) -> tuple[RuleResult, str]:
    """The rule that bound, and one sentence: the want, and whatever kept the target from it."""
    if last is not None:
        return last, last.text if hold is None else f"{last.text}; {hold.text}"
    if hold is not None:
        return hold, hold.text
    text = binding.text
    for other in others:
        if other is not None and other.verdict in (Verdict.CAPS, Verdict.HOLDS):
            text = f"{text}; {other.text}"
            if other.wants == target and other.wants != binding.wants:
                binding = other
    if target == situation.want and binding.verdict in (Verdict.AGREES, Verdict.OFF):
        return binding, f"{replicas(target)} {'stays' if target == 1 else 'stay'}: {text}"
    return binding, text


def decide(situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
    """The whole law: reactive, and a forecast floor wherever a forecast is there."""
    return _decide(situation, memory, PREDICTIVE)


REACTIVE_POLICY = Composed("reactive", REACTIVE)
PREDICTIVE_POLICY = Composed("predictive", PREDICTIVE)
