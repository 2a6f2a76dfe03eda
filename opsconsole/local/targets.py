"""Who is scraped in single-node mode: the supervisor's workers, with what it knows of them.

A `TargetProvider` for the scraping source. Trap: a worker that does not listen yet has no address to ask; it is a
replica that is warming, and must not show as an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opsconsole.domain.records import SourceView
from opsconsole.domain.replica import ReplicaRef
from opsconsole.errors import OpsConsoleError, SourceErrorKind
from opsconsole.local.settings import POOL
from opsconsole.local.supervisor_client import SupervisorClient
from opsconsole.observe.source import Target

NAME = "supervisor"
ASKABLE = ("warm", "ready", "drain")


class LocalTargets:
    """The supervisor's members."""

    def __init__(self, client: SupervisorClient, on_close: Callable[[], Awaitable[None]]) -> None:
        self._client = client
        self._on_close = on_close
        self._targets: tuple[Target, ...] = ()
        self._view = SourceView(NAME, NAME, False, error="not asked yet")
        self._good_at: float | None = None

    async def targets(self, now: float) -> tuple[Target, ...]:
        """Those of now, or those last known when the supervisor does not answer."""
        try:
            state = await self._client.state()
        except OpsConsoleError as error:
            age = None if self._good_at is None else now - self._good_at
            kind = SourceErrorKind.REFUSED.value
            self._view = SourceView(NAME, NAME, False, age, str(error), kind)
            return self._targets
        self._good_at = now
        self._view = SourceView(NAME, NAME, True, 0.0)
        self._targets = tuple(_target(member) for member in state["members"])
        return self._targets

    def status(self) -> SourceView:
        return self._view

    async def close(self) -> None:
        await self._on_close()


def _target(member: Mapping[str, Any]) -> Target:
    gpus = 1 if member["device"] is not None else None
    replica = ReplicaRef(
        member["name"], POOL, member["url"], node="localhost", gpus=gpus, started_at=member["started_at"]
    )
    return Target(
        replica,
        f"{member['url']}/metrics" if member["url"] and member["phase"] in ASKABLE else None,
        ready=member["ready"],
        draining=member["draining"],
        phase=None if member["ready"] else member["phase"],
        expected_ready_at=member["expected_ready_at"],
    )
