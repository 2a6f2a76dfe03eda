"""The life of a cluster's actuators beside the loop: campaign for the lease, step what is under way, let go at the end.

It must not decide. The trap: a step that fails (the API server restarts) is tried again at the next beat and must end
nothing; what is under way is in the lease, not in this process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from opsconsole.act.kube import STEP_S, KubeActuator
from opsconsole.act.kube_world import World
from opsconsole.domain.leading import Leading
from opsconsole.domain.records import FleetSnapshot
from opsconsole.errors import OpsConsoleError

log = logging.getLogger(__name__)


class KubeLife:
    """Runs beside one agent's loop."""

    def __init__(self, world: World, actuators: Sequence[KubeActuator]) -> None:
        self._world, self._actuators = world, tuple(actuators)
        self._task: asyncio.Task[None] | None = None
        self._failing = ""

    async def start(self, newest: Callable[[], FleetSnapshot | None]) -> None:
        """Begin. Raises ConfigError where no cluster is named that could be asked."""
        self._world.sight.newest = newest
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
