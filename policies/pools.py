"""Several pools under one budget of GPUs: prefill and decode, or models that share a cluster.

It must not change what a pool wants, only what it gets. Minimums are served first, then what people ordered by a pin or
a schedule, the rest in proportion to what is wanted above them. The trap: to move GPUs from one pool to another, shrink
first, see it done, then grow; a plan that does both at once exceeds the budget when one half fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from policies.decision import Decision, Input, Policy, RuleResult, Verdict
from policies.limits import bounds
from policies.memory import Memory
from policies.situation import Situation
from policies.wording import replicas


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pool holds now, what it wants, and what one of its replicas takes."""

    pool: str
    current: int
    wants: int
    minimum: int = 0
    gpus: int = 1
    ordered: int = 0  # by a pin or a schedule's minimum, which the budget can leave unmet
    standing: int = 0  # replicas that are there, those on their way out too: their GPUs are not free yet


@dataclass(frozen=True, slots=True)
class Grant:
    """What a pool may have now, and why when that is less than it wants."""

    pool: str
    target: int
    text: str


def apportion(claims: Sequence[Claim], budget: int) -> tuple[Grant, ...]:
    """Share out `budget` GPUs; grants are in the order of the claims and do not depend on it."""
    shares = _shares(claims, budget)
    held = sum(max(c.current, c.standing, 0) * c.gpus for c in claims)
    # GPUs that pools are giving back are not free until they have been.
    free = budget - held
    grants: dict[str, Grant] = {}
    for claim in sorted(claims, key=lambda c: (-(shares[c.pool] - c.current), c.pool)):
        share = shares[claim.pool]
        growth = max(0, share - claim.current)
        now = min(growth, max(0, free // claim.gpus))
        free -= now * claim.gpus
        target = claim.current + now if growth else share
        grants[claim.pool] = Grant(claim.pool, target, _words(claim, share, target, budget))
    return tuple(grants[c.pool] for c in claims)


def _shares(claims: Sequence[Claim], budget: int) -> dict[str, int]:
    """Whole replicas per pool: minimums, what was ordered, and what is wanted, each in proportion where it must be."""
    firm = _split([replace(c, wants=max(c.minimum, min(c.ordered, c.wants))) for c in claims], budget)
    return _split([replace(c, minimum=firm[c.pool]) for c in claims], budget)


def _split(claims: Sequence[Claim], budget: int) -> dict[str, int]:
    """Minimums, then largest remainders of a proportional split."""
    shares = {c.pool: min(c.minimum, max(c.wants, c.minimum)) for c in claims}
    left = budget - sum(shares[c.pool] * c.gpus for c in claims)
    above = {c.pool: max(0, c.wants - c.minimum) for c in claims}
    asked = sum(above[c.pool] * c.gpus for c in claims)
    if asked <= max(0, left):
        return {c.pool: max(c.wants, c.minimum) for c in claims}
    exact = {c.pool: above[c.pool] * max(0, left) / asked for c in claims}
    for claim in claims:
        whole = int(exact[claim.pool] + 1e-9)
        shares[claim.pool] += whole
        left -= whole * claim.gpus
    order = sorted(claims, key=lambda c: (-(exact[c.pool] - int(exact[c.pool] + 1e-9)), c.pool))
    for claim in order:
        if claim.gpus <= left and shares[claim.pool] < claim.wants:
            shares[claim.pool] += 1
            left -= claim.gpus
    return shares


def _words(claim: Claim, share: int, target: int, budget: int) -> str:
    if target == claim.wants:
        return f"gets the {replicas(target)} it wants"
    if target < share:
        return f"wants {claim.wants}, gets {target} now and {share} once other pools have given back ({budget} GPUs)"
    return f"wants {claim.wants}, its share of {budget} GPUs is {replicas(share)}"


def decide_together(
    law: Policy, situations: Sequence[Situation], memories: Mapping[str, Memory], budget: int, gpus: Mapping[str, int]
) -> dict[str, tuple[Decision, Memory]]:
    """Ask the law for every pool, then share the budget. A pool's own minimum stays the last word."""
    asked = {s.pool: law.decide(s, memories.get(s.pool, Memory())) for s in situations}
    shared = within(situations, {pool: decision for pool, (decision, _) in asked.items()}, budget, gpus)
    return {pool: (shared[pool], memory) for pool, (_, memory) in asked.items()}


def within(
    situations: Sequence[Situation], decisions: Mapping[str, Decision], budget: int, gpus: Mapping[str, int]
) -> dict[str, Decision]:
    """The decisions of pools that share `budget` GPUs, each with what it gets of what it wants."""
    claims = [
        Claim(
            s.pool,
            s.want,
            decisions[s.pool].target,
            s.limits.minimum,
            max(1, gpus.get(s.pool, 1)),
            bounds(s).minimum,
            len(s.replicas),
        )
        for s in situations
    ]
    grants = apportion(claims, budget)
    return {c.pool: _granted(decisions[c.pool], c, g, budget) for c, g in zip(claims, grants, strict=True)}


def _granted(decision: Decision, claim: Claim, grant: Grant, budget: int) -> Decision:
    target = max(claim.minimum, grant.target)
    if target == decision.target:
        return decision
    inputs = (Input("budget", budget, "GPUs"), Input("wanted", decision.target, "replicas"))
    rule = RuleResult("joint budget", inputs, target, Verdict.CAPS, grant.text)
    return replace(
        decision,
        target=target,
        binding="joint budget",
        reason=f"{decision.reason}; {grant.text}",
        rules=(*decision.rules, rule),
        drain=decision.drain[: max(0, decision.current - target)],
    )
