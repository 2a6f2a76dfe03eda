"""The line to the agent: keeps a `World` current from its stream, and reconnects for ever.

It must not draw or decide. The client is imported only when the first frame is on the screen, because its HTTP
library costs more than the rest of the console's start. The trap: everything here ends in a sentence in `Link`, never
in an exception: a console that dies of a hiccup is what operators hate most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opsconsole.clock import Clock
from opsconsole.domain.beside import JOURNAL_KEPT, TOPICS, Turn
from opsconsole.domain.records import JournalEntry
from opsconsole.errors import OpsConsoleError
from opsconsole.tui.world import Link, LinkState, Trends, World

if TYPE_CHECKING:
    from opsconsole.client.agent import AgentClient

BACKOFF = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
HISTORY_S, HISTORY_STEP_S, HISTORY_KEPT = 3600.0, 15.0, 240
SLOW_S = 5.0  # between two questions for what the agent does not tell by itself
SLOWER_S = 60.0  # budgets of weeks, which the agent sums up from minutes
MANY, KEYS_TURNS = 100, 12  # from so many replicas on a tick takes long; turns of the event loop that a key needs
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
        beside = [asyncio.create_task(self._quietly(self._backfill(client)))]
        untold: set[str] | None = None
        try:
            async with contextlib.aclosing(client.follow(tuple(TOPICS))) as turns:
                async for turn in turns:
                    if untold is None:
                        untold = {*TOPICS} - turn.told
                        beside += [asyncio.create_task(self._ask(client, name)) for name in untold]
                    if len(turn.snapshot.replicas) > MANY:
                        self.world.trends.add(turn.snapshot)  # here, and once: it is not done again with the rest
                        await _keys_first()
                    self._take(turn)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def _take(self, turn: Turn) -> None:
        """A tick and all that came with it, in one change of the world."""
        world, snapshot = self.world, turn.snapshot
        if world.snapshot is not None and snapshot.tick < world.snapshot.tick and snapshot.at < world.snapshot.at:
            world = replace(world, trends=Trends(), history=(), journal=())  # another agent, or one that started anew
        world.trends.add(snapshot)
        history = world.history
        if not history or snapshot.at - history[-1].at >= HISTORY_STEP_S:
            history = (*history[-HISTORY_KEPT + 1 :], replace(snapshot, replicas=()))
        now, link = self._clock.now(), world.link
        if link.state is not LinkState.LIVE:
            link = Link(LinkState.LIVE, link.address, "", now)
        news = changed(world, turn.beside)
        self.world = replace(world, snapshot=snapshot, received_at=now, link=link, history=history, **news)
        self._changed()

    def _lost(self, why: str) -> None:
        link = self.world.link
        state = LinkState.LOST if self.world.snapshot is not None else LinkState.CONNECTING
        since = link.since if link.state is state else self._clock.now()
        self.world = replace(self.world, link=Link(state, link.address, why, since))
        self._changed()

    async def _ask(self, client: AgentClient, name: str) -> None:
        """What an agent of an older version does not tell by itself, a topic by itself: one may take seconds."""
        ways: dict[str, Callable[[], Awaitable[tuple[Any, ...]]]] = {
            "alerts": client.alerts,
            "journal": lambda: client.journal(after=self._last_seq(), limit=JOURNAL_KEPT),
            "decisions": client.decisions,
            "forecasts": client.forecast,
            "holds": client.holds,
            "prefixes": client.prefixes,
            "findings": client.findings,
            "budgets": client.budgets,
        }
        while True:
            with contextlib.suppress(OpsConsoleError):
                self._update({name: await ways[name]()})
            await self._clock.sleep(SLOWER_S if name == "budgets" else SLOW_S)

    def _last_seq(self) -> int | None:
        return self.world.journal[-1].seq if self.world.journal else None

    def _update(self, found: Mapping[str, tuple[Any, ...]]) -> None:
        if news := changed(self.world, found):
            self.world = replace(self.world, **news)
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


async def _keys_first() -> None:
    """Let a key that was pressed while a long tick was read have its frame before that tick is drawn."""
    for _ in range(KEYS_TURNS):
        await asyncio.sleep(0)


def changed(world: World, found: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Of what was found, what the world does not hold yet; journal entries are added to those it has."""
    news = {name: merged(world.journal, items) if name == "journal" else items for name, items in found.items()}
    return {name: items for name, items in news.items() if getattr(world, name) != items}


def merged(old: tuple[JournalEntry, ...], new: tuple[JournalEntry, ...]) -> tuple[JournalEntry, ...]:
    """The journal with new entries, without doubles, bounded."""
    seen = {entry.seq for entry in old}
    return (*old, *(entry for entry in new if entry.seq not in seen))[-JOURNAL_KEPT:]
