"""What all pools of one cluster share: the connection, the lease, the record of acts, and what was last observed.

It begins campaigning when it starts and lets the lease go when it ends. It decides nothing. The trap: streams are told
by the loop's newest snapshot, which may be older than the drain that asks; what was seen before is not evidence, so a
question carries the moment from which an answer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from opsconsole.act.board import Board
from opsconsole.act.kube_acts import Act, Acts
from opsconsole.act.kube_events import Herald
from opsconsole.act.kube_lease import Lease, NoLease
from opsconsole.act.kube_look import KubePool, Look
from opsconsole.act.kube_owners import Self
from opsconsole.act.kube_routing import Knock
from opsconsole.act.kube_scale import Scaler
from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.domain.records import FleetSnapshot, ReplicaState

STALE_TICKS = 3.0


def _nothing() -> FleetSnapshot | None:
    return None


@dataclass(slots=True)
class Sight:
    """What the loop last saw; whoever runs the loop says how to ask it."""

    newest: Callable[[], FleetSnapshot | None] = _nothing

    @property
    def settle_s(self) -> float:
        """How long a replica must be idle to be idle: longer than one tick, so that two looks agree."""
        snapshot = self.newest()
        return 1.0 if snapshot is None else max(1.0, 1.5 * snapshot.interval)

    def streams(self, name: str, since: float = 0.0) -> int | None:
        """Requests running or waiting in a replica; None unless seen at `since` or later, and of late."""
        snapshot = self.newest()
        view = None if snapshot is None else snapshot.replica(name)
        if snapshot is None or view is None:
            return None
        if view.state is ReplicaState.WARMING and view.seen_at is None:
            return 0  # still starting, and has never answered anybody
        if view.running is None or view.age is None or view.seen_at is None or view.state is ReplicaState.STALE:
            return None
        if view.seen_at < since or view.age > STALE_TICKS * snapshot.interval:
            return None
        return round(view.running + (view.waiting or 0.0))

    def longest_stream_s(self, pool: str) -> float | None:
        """p99 of the whole time a request takes; None where nothing was seen."""
        snapshot = self.newest()
        view = None if snapshot is None else snapshot.pool(pool)
        return None if view is None else view.e2e.p99


@dataclass(slots=True)
class World:
    """One cluster, as all its actuators share it."""

    api: KubeApi
    clock: Clock
    lease: Lease | NoLease
    scaler: Scaler
    herald: Herald
    me: Self
    knock: Knock
    board: Board = field(default_factory=Board)
    sight: Sight = field(default_factory=Sight)

    def acts(self) -> Acts:
        """What is under way, by the lease's holder."""
        return Acts.read(self.lease.acts())

    async def save(self, *acts: Act) -> None:
        """Write acts down. Raises `PlanRefused` when this process may not act any more."""
        kept = self.acts()
        for act in acts:
            kept = kept.with_act(act, self.clock.now())
        await self.lease.note(kept.to_json())

    async def write(self, of: KubePool, look: Look, to: int) -> None:
        """Bring the pool to `to`: write its scale, or publish the count where an HPA or KEDA writes it."""
        if of.via == "scale":
            await self.scaler.write(of.workload, look.scale, to)
            return
        self.lease.fence(0.0)
        self.board.publish(of.pool, to, self.clock.now())

    async def close(self) -> None:
        await self.lease.close()
        await self.api.close()
