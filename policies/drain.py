"""Which replica goes first: none that serves while one cannot; then the fewest streams at risk, the least cache, and
the one that leaves its node the emptiest, so that a node can be given back.

It must not act. The trap: unknown streams are many streams, so a silent replica goes last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from policies.situation import LIVE, ReplicaFacts, Situation
from policies.wording import number, replicas


@dataclass(frozen=True, slots=True)
class Victim:
    """One candidate: how many streams a removal puts at risk, and why it stands where it stands."""

    name: str
    streams: int | None
    reason: str


def rank(situation: Situation) -> tuple[Victim, ...]:
    """Every replica that may go, first to go first. Draining ones go already and are not listed."""
    candidates = [r for r in situation.replicas if r.state != "draining"]
    on_node = Counter(r.node or r.name for r in situation.replicas)
    ranked = sorted(candidates, key=lambda replica: _order(replica, on_node))
    return tuple(Victim(r.name, _streams(r), _reason(r)) for r in ranked)


def choose(situation: Situation, count: int) -> tuple[str, ...]:
    """The names of the `count` replicas that should go."""
    return tuple(v.name for v in rank(situation)[: max(0, count)])


def _order(replica: ReplicaFacts, on_node: Mapping[str, int]) -> tuple[int, float, float, float, int, float, str]:
    streams = _streams(replica)
    # Dearest first where prices differ. Newest first among equals: the oldest has the warmest cache.
    age = -replica.started_at if replica.started_at is not None else 0.0
    return (
        _class(replica),
        math.inf if streams is None else streams,
        math.inf if replica.cache_tokens is None else replica.cache_tokens,
        -(replica.cost or 0.0),
        on_node[replica.node or replica.name],
        age,
        replica.name,
    )


def _class(replica: ReplicaFacts) -> int:
    if replica.state == "down" or replica.unschedulable or replica.falling:
        return 0
    if replica.state == "warming":
        return 1
    if replica.frozen or replica.state not in LIVE:
        return 3
    return 2


def _streams(replica: ReplicaFacts) -> int | None:
    if replica.state in ("down", "warming"):
        return 0
    if replica.streams is not None:
        return replica.streams
    return None if replica.running is None else round(replica.running)


def _reason(replica: ReplicaFacts) -> str:
    if replica.unschedulable:
        return "cannot be placed"
    if replica.falling:
        return "falls again and again"
    if replica.state == "down":
        return "is down"
    if replica.state == "warming":
        return "still starting, carries nothing"
    streams = _streams(replica)
    if streams is None:
        return "streams at risk unknown"
    cache = "" if replica.cache_tokens is None else f", {number(replica.cache_tokens)} cached tokens"
    return f"{streams} streams at risk{cache}"


def sentence(situation: Situation, names: tuple[str, ...]) -> str:
    """The choice in words, for the decision's trace."""
    by_name = {v.name: v for v in rank(situation)}
    chosen = ", ".join(f"{name} ({by_name[name].reason})" for name in names)
    return f"drain {replicas(len(names))}: {chosen}"
