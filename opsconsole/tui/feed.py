"""The line to the agent: keeps a `World` current from its stream, and reconnects for ever.

It must not draw or decide. The client is imported only when the first frame is on the screen, because its HTTP
library costs more than the rest of the console's start. The trap: everything here ends in a sentence in `Link`, never
in an exception: a console that dies of a hiccup is what operators hate most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opsconsole.clock import Clock
from opsconsole.domain.records import FleetSnapshot, JournalEntry
from opsconsole.errors import OpsConsoleError
from opsconsole.tui.world import Link, LinkState, Trends, World

if TYPE_CHECKING:
    from opsconsole.client.agent import AgentClient

BACKOFF = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
JOURNAL_KEPT = 500
HISTORY_S, HISTORY_STEP_S, HISTORY_KEPT = 3600.0, 15.0, 240
SLOW_S = 5.0  # forecasts, decisions, holds
SLOWER_S = 60.0  # budgets of weeks, which the agent sums up from minutes
BACKFILL_REPLICAS = 100  # above this, the small charts fill up as time goes on instead


async def connect(address: str) -> AgentClient:
    """A client, its module imported off the event loop."""
    module = await asyncio.to_thread(__import__, "opsconsole.client.agent", fromlist=["AgentClient"])
    made: AgentClient = module.AgentClient(address)
    return made


class Feed:
    """Owns the live `World`. `changed` is called after every change of it."""

    def __init__(
        self,
        address: str | None,
        clock: Clock,
        changed: Callable[[], None],
        make: Callable[[str], Awaitable[Any]] = connect,
    ) -> None:
        self.address = address
        self._clock, self._changed, self._make = clock, changed, make
        self.client: AgentClient | None = None
        state = LinkState.CONNECTING if address else LinkState.NONE
        self.world = World(link=Link(state, address or "", "", clock.now()))

    async def run(self) -> None:
        """Connect, follow, reconnect; ends only by being cancelled."""
        if not self.address:
            return
        failures = 0
        while True:
            try:
                if self.client is None:
                    self.client = await self._make(self.address)
                await self._follow(self.client)
                self._lost("the agent ended the stream")
                failures = 0
            except OpsConsoleError as error:
                failures = 0 if self.world.link.state is LinkState.LIVE else failures + 1
                self._lost(str(error))
            await self._clock.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)])

    async def close(self) -> None:
        """Let go of the connection."""
        if self.client is not None:
            with contextlib.suppress(Exception):
                await self.client.aclose()
            self.client = None

    async def _follow(self, client: AgentClient) -> None:
        beside = [asyncio.create_task(work) for work in (self._side(client), self._weeks(client))]
        try:
            async for snapshot in client.stream():
                self._take(snapshot)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def _take(self, snapshot: FleetSnapshot) -> None:
        world = self.world
        if world.snapshot is not None and snapshot.tick < world.snapshot.tick and snapshot.at < world.snapshot.at:
            world = replace(world, trends=Trends(), history=(), journal=())  # another agent, or one that started anew
        world.trends.add(snapshot)
        history = world.history
        if not history or snapshot.at - history[-1].at >= HISTORY_STEP_S:
            history = (*history[-HISTORY_KEPT + 1 :], replace(snapshot, replicas=()))
        link = world.link
        if link.state is not LinkState.LIVE:
            link = Link(LinkState.LIVE, link.address, "", self._clock.now())
        now = self._clock.now()
        self.world = replace(world, snapshot=snapshot, received_at=now, link=link, history=history)
        self._changed()

    def _lost(self, why: str) -> None:
        link = self.world.link
        state = LinkState.LOST if self.world.snapshot is not None else LinkState.CONNECTING
        since = link.since if link.state is state else self._clock.now()
        self.world = replace(self.world, link=Link(state, link.address, why, since))
        self._changed()

    async def _side(self, client: AgentClient) -> None:
        """What is not in the snapshot: journal and alerts often, the rest seldom."""
        await self._quietly(self._backfill(client))
        slow_at = float("-inf")
        while True:
            changes: dict[str, Any] = {}
            with contextlib.suppress(OpsConsoleError):
                changes["alerts"] = await client.alerts()
            with contextlib.suppress(OpsConsoleError):
                last = self.world.journal[-1].seq if self.world.journal else None
                new = await client.journal(after=last, limit=JOURNAL_KEPT)
                if new:
                    changes["journal"] = merged(self.world.journal, new)
            if self._clock.monotonic() - slow_at >= SLOW_S:
                slow_at = self._clock.monotonic()
                for name, ask in (
                    ("decisions", client.decisions),
                    ("forecasts", client.forecast),
                    ("holds", client.holds),
                    ("prefixes", client.prefixes),
                ):
                    with contextlib.suppress(OpsConsoleError):
                        changes[name] = await ask()
                with contextlib.suppress(OpsConsoleError):
                    changes["findings"] = await client.findings()
            self._update(changes)
            await self._clock.sleep(1.0)

    async def _weeks(self, client: AgentClient) -> None:
        """Budgets of weeks; a first answer may take the agent seconds, so nothing else waits for it."""
        while True:
            await self._clock.sleep(SLOW_S)
            with contextlib.suppress(OpsConsoleError):
                self._update({"budgets": await client.budgets()})
            await self._clock.sleep(SLOWER_S)

    def _update(self, changes: dict[str, Any]) -> None:
        real = {name: value for name, value in changes.items() if getattr(self.world, name) != value}
        if real:
            self.world = replace(self.world, **real)
            self._changed()

    async def _backfill(self, client: AgentClient) -> None:
        """The past hour of pools, and the last minute of replicas where there are not too many."""
        newest = await client.snapshot()
        since = newest.at - HISTORY_S
        past = await client.history(since, None, step=HISTORY_STEP_S, pools_only=True, limit=HISTORY_KEPT)
        later = [s for s in self.world.history if not past or s.at > past[-1].at]
        self.world = replace(self.world, history=(*past, *later)[-HISTORY_KEPT:])
        if len(newest.replicas) <= BACKFILL_REPLICAS:
            recent = await client.history(newest.at - 64 * newest.interval, None, step=newest.interval, limit=64)
            trends = Trends.of([*recent, newest])
            if self.world.snapshot is not None:
                trends.add(self.world.snapshot)
            self.world = replace(self.world, trends=trends)
        self._changed()

    async def _quietly(self, work: Awaitable[None]) -> None:
        with contextlib.suppress(OpsConsoleError):
            await work


def merged(old: tuple[JournalEntry, ...], new: tuple[JournalEntry, ...]) -> tuple[JournalEntry, ...]:
    """The journal with new entries, without doubles, bounded."""
    seen = {entry.seq for entry in old}
    return (*old, *(entry for entry in new if entry.seq not in seen))[-JOURNAL_KEPT:]
