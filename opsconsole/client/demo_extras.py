"""What the demo tells beside its ticks: shared prefixes, a lint finding, a month of each objective, a replica's log.

It must not step the world. The trap: names come from a caller here too, so a replica that is not there is an error as
with a real agent.
"""

from __future__ import annotations

from opsconsole.client.demo_world import DemoWorld, phase_of
from opsconsole.domain.budget import MINUTE_S, MONTH_S
from opsconsole.domain.records import BudgetView, FleetSnapshot, Interval, PrefixView
from opsconsole.errors import UsageError

KEPT_SHARE = 0.38  # of the month's budget
SHARED = (
    ("9f3c21aa", 1792.0, 5, 40),
    ("77b10d4e", 3392.0, 3, 12),
    ("0ad2f00b", 960.0, 9, 22),
    ("51e0beef", 2176.0, 1, 3),
)


def prefixes(world: DemoWorld) -> tuple[PrefixView, ...]:
    """Pretended prefixes, the more requested the longer the demo runs."""
    names = [r.name for pool in world.pools for r in pool.replicas if world.at >= r.ready_at]
    since = max(60.0, world.at - world.since)
    return tuple(
        PrefixView(prefix, tokens, int(since * share / 10) + forks, forks, tuple(names[: 1 + share]), world.at - share)
        for prefix, tokens, share, forks in SHARED
    )


def budgets(snapshot: FleetSnapshot) -> tuple[BudgetView, ...]:
    """A pretended month behind each objective: most of the budget is spent, none of it overdrawn."""
    found = []
    for pool in snapshot.pools:
        for slo in pool.slos:
            asked = (pool.request_rate or 0.0) * MONTH_S
            met = slo.target + (1 - slo.target) * KEPT_SHARE
            found.append(BudgetView(
                pool.pool, slo.name, slo.target, snapshot.at - MONTH_S, snapshot.at, int(MONTH_S / MINUTE_S), asked,
                Interval(met, met), Interval(KEPT_SHARE, KEPT_SHARE),
            ))  # fmt: skip
    return tuple(found)


def log_of(world: DemoWorld, name: str) -> list[str]:
    """What the replica would have written."""
    found = next((r for pool in world.pools for r in pool.replicas if r.name == name), None)
    if found is None:
        raise UsageError(f"There is no log of {name or 'nobody'}: the demo has no such replica.")
    lines = ["DEMO: no engine runs; these lines are made up", f"starting on {found.node}"]
    if world.at < found.ready_at:
        return [*lines, f"phase: {phase_of(found, world.at)}"]
    lines += ["weights loaded", "warm-up done, ready"]
    if found.broken:
        lines.append(f"ERROR the demo pretends: {found.broken}")
    return [*lines, f"running {found.running:.0f}, waiting {found.queue:.0f}"]


FINDINGS: tuple[dict[str, object], ...] = (
    {"rule": "PX101", "name": "timestamp-before-stable", "severity": "error", "path": "messages[0].content", "char": 61,
     "message": "a clock time stands before 1,790 tokens that never change; move it behind them",
     "family": "demo-agent", "requests_touched": 214, "requests_total": 230, "tokens_lost": 384_000,
     "stable_tokens": 1790, "reuse_before": 0.02, "reuse_after": 0.91, "advice": "move it to the last message"},
)  # fmt: skip
