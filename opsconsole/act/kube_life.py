"""The life of a cluster's actuators beside the loop: campaign for the lease, step what is under way, let go at the end.

With the lease go what the next leader must stand by as well: published counts and people's standing orders. It must not
decide. The trap: a step that fails (the API server restarts) is tried again at the next beat and must end
nothing; what is under way is in the lease, not in this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from opsconsole.act.kube import STEP_S, KubeActuator
from opsconsole.act.kube_world import World
from opsconsole.domain.leading import Leading, LoopSide
from opsconsole.errors import OpsConsoleError

log = logging.getLogger(__name__)
DESIRED = "opsconsole.dev/desired"
HOLDS = "opsconsole.dev/holds"


class KubeLife:
    """Runs beside one agent's loop."""

    def __init__(self, world: World, actuators: Sequence[KubeActuator]) -> None:
        self._world, self._actuators = world, tuple(actuators)
        self._task: asyncio.Task[None] | None = None
        self._failing = ""

    async def start(self, loop: LoopSide) -> None:
        """Begin. Raises ConfigError where no cluster is named that could be asked."""
        self._world.sight.newest = loop.newest
        self._world.lease.tell = lambda: self._told(loop)
        self._world.lease.hear = lambda notes, age: self._heard(loop, notes, age)
        await self._world.api.open()
        await self._world.lease.start()
        self._task = asyncio.create_task(self._beat())

    def leading(self) -> Leading:
        """Who acts on this cluster. An agent that only watches has nobody to pass anything on to."""
        lease = self._world.lease
        return Leading() if lease.words is None else Leading(False, lease.holder, lease.address)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._world.close()

    def _told(self, loop: LoopSide) -> dict[str, str]:
        board, now = self._world.board, self._world.clock.now()
        fresh = {pool: found.count for pool in sorted(board.pools) if (found := board.desired(pool, now)) is not None}
        return {DESIRED: json.dumps(fresh), HOLDS: loop.holds()}

    def _heard(self, loop: LoopSide, notes: Mapping[str, Any], age: float) -> None:
        """What the last leader stood for, `age` seconds ago. A count grows old as it would have there."""
        for pool, count in _counts(notes).items():
            if pool in self._world.board.pools:
                self._world.board.publish(pool, count, self._world.clock.now() - age)
        if notes.get(HOLDS):
            loop.take_holds(str(notes[HOLDS]))

    async def _beat(self) -> None:
        while True:
            await self._world.clock.sleep(STEP_S)
            if not self._world.lease.leads:
                continue
            for actuator in self._actuators:
                await self._step(actuator)

    async def _step(self, actuator: KubeActuator) -> None:
        try:
            await actuator.step()
            self._failing = ""
        except OpsConsoleError as error:
            if self._failing != str(error):
                log.warning("what is under way cannot be moved on: %s", error)
            self._failing = str(error)
        except Exception:
            log.exception("a step failed")


def _counts(notes: Mapping[str, Any]) -> dict[str, int]:
    try:
        told = json.loads(str(notes.get(DESIRED) or "{}"))
    except ValueError:
        return {}
    return {str(k): v for k, v in told.items() if isinstance(v, int) and v >= 0} if isinstance(told, dict) else {}
