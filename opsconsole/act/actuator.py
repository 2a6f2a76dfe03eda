"""The one door through which a pool is changed: make a plan, apply it, follow it to its end.

An actuator knows how its world is changed (a supervisor, a cluster) and nothing of why. The contract every one keeps:
`plan_*` changes nothing; `apply` compares the plan's `version` with the world and raises `PlanRefused` when they
differ, so a plan made for a world that moved is never carried out; `follow` says what became of it, also after the
process that applied it has died. The trap: `apply` must be safe to call twice with one plan (a restart may), so an
implementation answers a plan it has already taken with its outcome so far instead of doing it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from opsconsole.domain.records import Outcome, Plan


@dataclass(frozen=True, slots=True)
class Member:
    """One replica as the world that runs it sees it. Times are Unix seconds."""

    name: str
    ready: bool = False
    draining: bool = False
    phase: str | None = None  # start-up phase while not ready
    started_at: float | None = None
    expected_ready_at: float | None = None
    url: str | None = None
    streams: int | None = None  # running streams; None where this world cannot tell


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool as the world holds it now. `version` moves with every change of it; `owner` is another writer, if any;
    `hold` says why nothing may be changed now though nobody else writes it (another daemon leads, an operator's pause).
    """

    pool: str
    want: int
    members: tuple[Member, ...] = ()
    version: str = ""
    owner: str | None = None
    hold: str | None = None

    def member(self, name: str) -> Member | None:
        return next((m for m in self.members if m.name == name), None)


@runtime_checkable
class Actuator(Protocol):
    """Every mutation of a pool goes through one of these."""

    @property
    def name(self) -> str:
        """What it acts on, for people: `supervisor`, `kubernetes`, `nothing`."""
        ...

    async def state(self, pool: str) -> PoolState:
        """The pool now. Raises `OpsConsoleError` when the world cannot be asked."""
        ...

    async def plan_scale(self, pool: str, to: int, reason: str, drain: Sequence[str] = ()) -> Plan:
        """What bringing the pool to `to` replicas would do; `drain` names the ones to go first when shrinking."""
        ...

    async def plan_drain(self, replicas: Sequence[str], reason: str) -> Plan:
        """What draining these would do: stop routing, wait for their streams, remove."""
        ...

    async def plan_undrain(self, replicas: Sequence[str], reason: str) -> Plan:
        """What putting these back into service would do."""
        ...

    async def apply(self, plan: Plan, by: str) -> Outcome:
        """Do it, or raise `PlanRefused`. A long change answers with status `running`; see `follow`."""
        ...

    async def follow(self, plan_id: str) -> Outcome:
        """What became of a plan applied earlier. Raises `PlanRefused` for one never seen."""
        ...
