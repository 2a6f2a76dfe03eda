"""How long a replica takes from created to useful, learned from the starts that were seen: p90, plus one interval.

A pure fold over situations, kept in Memory by pool, model and node type. Before the first start is seen the value given
is used and called assumed. The trap: ready is not useful; what is measured ends when the replica serves, so a caller
that marks a loading replica "ok" teaches a lead that is too short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from policies.memory import Memory, Row
from policies.situation import LIVE, Situation
from policies.wording import seconds

KEEP_S = 30 * 86400.0
MOST = 50
WARMING = "warming:"


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead that holds now, in seconds, and where it comes from."""

    seconds: float
    assumed: bool
    samples: int
    text: str


def key(pool: str, model: str | None, kind: str | None) -> str:
    """Under which name a pool's starts are remembered; kind is the node or accelerator type."""
    return f"lead:{pool}|{model or ''}|{kind or ''}"


def assumed(weight_bytes: float | None, bytes_per_second: float | None, configured: float | None = None) -> float:
    """Before anything was seen: the configured value, else reading the weights plus a minute."""
    if configured is not None:
        return configured
    if weight_bytes is None or not bytes_per_second:
        return 120.0
    return weight_bytes / bytes_per_second + 60.0


def observe(memory: Memory, name: str, at: float, took: float) -> Memory:
    """Remember one start that took `took` seconds from created to useful."""
    if not math.isfinite(took) or took < 0:
        return memory
    return memory.push(name, (at, took), keep_s=KEEP_S, most=MOST)


def lead(memory: Memory, name: str, fallback_s: float, interval_s: float) -> Lead:
    """p90 of the starts seen (the slowest while there are fewer than ten) plus one interval."""
    rows = memory.series(name)
    if not rows:
        return Lead(fallback_s, True, 0, f"lead {seconds(fallback_s)} is assumed: no start has been seen")
    return _learned(rows, interval_s)


@lru_cache(maxsize=16)  # asked at every tick, and starts are seldom
def _learned(rows: tuple[Row, ...], interval_s: float) -> Lead:
    took = sorted(row[1] for row in rows)
    p90 = took[min(len(took) - 1, math.ceil(0.9 * len(took)) - 1)] if len(took) >= 10 else took[-1]
    total = p90 + interval_s
    words = (
        f"lead {seconds(total)}: p90 of {len(took)} starts is {seconds(p90)}, plus one interval {seconds(interval_s)}"
    )
    return Lead(total, False, len(took), words)


def learn(situation: Situation, memory: Memory) -> Memory:
    """Fold one situation in: a replica seen starting and now serving has shown how long a start takes."""
    name = key(situation.pool, situation.model, situation.kind)
    warming = {r.name: r for r in situation.replicas if r.state == "warming"}
    marks = [mark for mark in memory.since if mark.startswith(WARMING)]
    if not warming and not marks:
        return memory
    live = {r.name for r in situation.replicas if r.state in LIVE}
    since = dict(memory.since)
    for mark in marks:
        replica = mark.removeprefix(WARMING)
        if replica in live:
            memory = observe(memory, name, situation.now, situation.now - since[mark])
        if replica not in warming:
            del since[mark]
    for replica, facts in warming.items():
        if facts.started_at is not None:
            since[WARMING + replica] = facts.started_at
    return memory if since == memory.since else Memory(rows=memory.rows, since=since)
