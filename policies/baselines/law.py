"""What all baselines share: a law's bare count becomes a decision inside the operator's bounds.

A baseline is kept as its authors ship it, faults included; it must not borrow our holds, steps or drains. The trap: it
is tempting to repair a baseline, and a repaired baseline proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.decision import Decision, Input, RuleResult, Verdict
from policies.drain import choose
from policies.situation import LIVE, ReplicaFacts, Situation


@dataclass(frozen=True, slots=True)
class Count:
    """What a law wants and its one sentence. `wants` None means it holds for want of data."""

    wants: int | None
    text: str
    inputs: tuple[Input, ...] = ()


def decided(situation: Situation, name: str, count: Count) -> Decision:
    """Clamp to [minimum, maximum], name the leavers, and say which it was."""
    current = situation.want
    limits = situation.limits
    wanted = current if count.wants is None else count.wants
    target = max(limits.minimum, min(wanted, limits.maximum))
    if count.wants is None:
        verdict = Verdict.UNKNOWN
    elif count.wants == current:
        verdict = Verdict.AGREES
    else:
        verdict = Verdict.RAISES if count.wants > current else Verdict.LOWERS
    text = count.text
    if target != wanted:
        text = f"{text}; {'maximum' if target < wanted else 'minimum'} {target}"
    rule = RuleResult(name, count.inputs, count.wants, verdict, text)
    drain = choose(situation, current - target) if target < current else ()
    return Decision(situation.pool, current, target, name, text, (rule,), drain, held=count.wants is None)


def ready(situation: Situation) -> tuple[ReplicaFacts, ...]:
    return tuple([r for r in situation.replicas if r.state in LIVE])


def pending(situation: Situation) -> int:
    return sum(1 for r in situation.replicas if r.state == "warming")


def total_waiting(situation: Situation) -> float | None:
    """Requests waiting in engines and in front of them; None if no part is known."""
    known = [r.waiting for r in situation.replicas if r.state in LIVE and r.waiting is not None]
    gateway = situation.demand.gateway_waiting
    return None if not known and gateway is None else sum(known) + (gateway or 0.0)


def total_running(situation: Situation) -> float | None:
    known = [r.running for r in situation.replicas if r.state in LIVE and r.running is not None]
    return sum(known) if known else None
