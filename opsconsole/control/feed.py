"""The newest tick, and waking those who wait for the next one.

It knows snapshots and no protocol. A slow reader is never queued for: it gets the newest when it asks again, so one
slow screen costs nobody anything. The trap: the wire text is made once a tick and shared by database and readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from opsconsole.domain.records import DecisionView, FleetSnapshot


class Feed:
    """One writer, many readers, all in one event loop."""

    def __init__(self) -> None:
        self._snapshot: FleetSnapshot | None = None
        self._text = ""
        self._decisions: dict[str, DecisionView] = {}
        self._turn = asyncio.Event()
        self._closed = False

    @property
    def newest(self) -> FleetSnapshot | None:
        return self._snapshot

    @property
    def text(self) -> str:
        """The newest snapshot as wire JSON; empty before the first tick."""
        return self._text

    @property
    def decisions(self) -> tuple[DecisionView, ...]:
        """The newest decision of each pool."""
        return tuple(self._decisions[pool] for pool in sorted(self._decisions))

    def publish(self, snapshot: FleetSnapshot, text: str, decisions: tuple[DecisionView, ...]) -> None:
        self._snapshot, self._text = snapshot, text
        self._decisions.update({d.pool: d for d in decisions})
        self._wake()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    async def follow(self) -> AsyncIterator[str]:
        """The wire text of the newest tick now, then of every later one the reader is quick enough for."""
        seen: FleetSnapshot | None = None
        while not self._closed:
            if self._snapshot is not None and self._snapshot is not seen:
                seen = self._snapshot
                yield self._text
                continue
            await self._turn.wait()
