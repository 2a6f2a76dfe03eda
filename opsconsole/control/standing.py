"""How a pool stands in this tick: which pools there are, how many replicas each is meant to have, what is not known.

It asks nobody and decides nothing. The trap: a count that could not be read is unknown, never 0; nothing is decided on
it, nor for the pools that share a budget with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from opsconsole.act.actuator import PoolState
from opsconsole.control.settings import AgentSettings
from opsconsole.domain.records import FleetSnapshot, ReplicaState


@dataclass(frozen=True, slots=True)
class Standing:
    """A pool as its actuator tells it in this tick; `state` is None when it could not be asked."""

    state: PoolState | None
    problem: str | None = None  # why nothing may be changed now

    def want(self, snapshot: FleetSnapshot, pool: str) -> int | None:
        """How many replicas are meant to be there; of a pool that is only watched, all but those on their way out."""
        if self.state is not None:
            return self.state.want
        if self.problem is not None:
            return None
        return sum(r.pool == pool and r.state is not ReplicaState.DRAINING for r in snapshot.replicas)


WATCHED = Standing(None)  # no actuator: what is there stands for what is wanted


def undecidable(settings: AgentSettings, standings: Mapping[str, Standing]) -> dict[str, str]:
    """Why nothing is decided, by pool: its count is unknown, or that of one it shares a budget with."""
    unknown = {name: s.problem for name, s in standings.items() if s.state is None and s.problem is not None}
    told = {
        name: f"{name}: how many replicas it should have is unknown, so nothing is decided: {problem}"
        for name, problem in unknown.items()
    }
    for budget in settings.budgets:
        missing = ", ".join(name for name in budget.pools if name in unknown)
        for name in budget.pools if missing else ():
            words = f"{name}: nothing is decided: it shares budget {budget.name} with {missing}, whose count is unknown"
            told.setdefault(name, words)
    return told


def with_pools_seen(settings: AgentSettings, seen: Iterable[str]) -> AgentSettings:
    """Where no pool is configured the pools are those that are seen, each with what holds for any."""
    names = sorted(set(seen))
    if settings.any_pool is None or names == [pool.name for pool in settings.pools]:
        return settings
    usual = settings.any_pool
    pools = tuple(replace(usual, spec=replace(usual.spec, name=name)) for name in names)
    return replace(settings, pools=pools)
