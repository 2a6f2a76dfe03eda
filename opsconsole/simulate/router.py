"""Which replica a simulated request goes to: the live router's rule, or a plain one to compare it with.

The facts a rule sees are the router's own: what it sent and what came back. It must not look into a replica. The trap:
the live rule keeps a memory of prefixes that forgets by time; the clock it is given is the simulation's.
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from random import Random
from typing import Protocol

from opsconsole.simulate.members import Member
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import Router
from policies.routing import RouteRequest, RoutingMemory, WorkerFacts, place


class Rule(Protocol):
    """Chooses among ready replicas; None where none takes the request."""

    def choose(self, request: Sequence, members: Ordered[Member], now: float) -> Member | None: ...


class Placed:
    """`policies.routing.place`, as the router process calls it. Tokens are prompt and answer together."""

    def __init__(self, draw: Random, hash_tokens: int) -> None:
        self._draw, self._memory = draw, RoutingMemory()
        self._hash_tokens = hash_tokens

    def choose(self, request: Sequence, members: Ordered[Member], now: float) -> Member | None:
        workers = [member.facts or _facts(member) for member in members]
        asked = RouteRequest(request.blocks, float(request.prompt + request.output), request.slo_class)
        placement, _ = place(asked, workers, self._memory, self._draw.random(), now)
        if placement.worker is None:
            return None
        return next(member for member in members if member.name == placement.worker)


def _facts(member: Member) -> WorkerFacts:
    """Made anew only after something was sent or came back."""
    member.facts = WorkerFacts(
        member.name,
        inflight_tokens=float(member.inflight_tokens),
        inflight_requests=member.inflight_requests,
        started_at=member.ready_at,
    )
    return member.facts


class RoundRobin:
    """One after the other."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Sequence, members: Ordered[Member], now: float) -> Member | None:
        if not members:
            return None
        self._next += 1
        return members[self._next % len(members)]


class AtRandom:
    """Any, with equal chance."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw

    def choose(self, request: Sequence, members: Ordered[Member], now: float) -> Member | None:
        return members[self._draw.randrange(len(members))] if members else None


def rule_named(name: Router, draw: Random, hash_tokens: int) -> Rule:
    """The rule for a setting."""
    if name == "place":
        return Placed(draw, hash_tokens)
    return RoundRobin() if name == "round-robin" else AtRandom(draw)
