"""What one reader of a stream is told beside the ticks: each topic as it stands, then only when it changed.

It stands below the two that serve streams, the agent and the demo, and knows no topic. The trap: a tick waits for what
is asked with it; a topic that may take long has a pace of its own, is asked meanwhile, and told with a later tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsconsole.domain.beside import TOLD, event
from opsconsole.domain.wire import dumps

log = logging.getLogger(__name__)
NOTHING = "[]"


@dataclass(frozen=True, slots=True)
class Topic:
    """How its items are asked for."""

    ask: Callable[[], Awaitable[Sequence[Any]]]
    every_s: float = 0.0  # of the fleet's time; 0 is with every tick, which waits for it
    adds: bool = False  # an answer is what came since the last one, not all there is


class Telling:
    """What one reader was told so far."""

    def __init__(self, topics: Mapping[str, Topic], wanted: Iterable[str]) -> None:
        self._topics = {name: topics[name] for name in wanted if name in topics}
        self._told: dict[str, str] = {}
        self._asked_at: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[str | None]] = {}
        self._failing: set[str] = set()
        self._is_new = True

    async def before(self, at: float) -> str:
        """The events that belong ahead of the tick made at `at`; empty where nothing changed."""
        events: list[str] = []
        if self._is_new and self._topics:
            events.append(event(TOLD, dumps(list(self._topics))))
        self._is_new = False
        for name, topic in self._topics.items():
            text = await (self._meanwhile(name, topic, at) if topic.every_s else self._answer(name, topic))
            if text is None or text == (NOTHING if topic.adds else self._told.get(name)):
                continue
            self._told[name] = text
            events.append(event(name, text))
        return "".join(events)

    async def close(self) -> None:
        """Nobody listens any more."""
        tasks = tuple(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _meanwhile(self, name: str, topic: Topic, at: float) -> str | None:
        """The answer to what was asked some ticks ago, if it is there; asks again when it is time."""
        found: str | None = None
        if name in self._asking and self._asking[name].done():
            found = await self._asking.pop(name)
        last = self._asked_at.get(name)
        if name not in self._asking and (last is None or not last <= at < last + topic.every_s):
            self._asked_at[name] = at
            self._asking[name] = asyncio.ensure_future(self._answer(name, topic))
        return found

    async def _answer(self, name: str, topic: Topic) -> str | None:
        """The topic as text; None where it cannot be had now, which must not end the ticks. Logged once."""
        try:
            text = dumps(list(await topic.ask()))
        except Exception as error:
            if name not in self._failing:
                log.warning("%s cannot be told beside the ticks: %s", name, error)
            self._failing.add(name)
            return None
        self._failing.discard(name)
        return text
