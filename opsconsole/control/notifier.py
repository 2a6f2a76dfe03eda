"""Tells alerts to the channels of `[alerts] notify`: each in turn, again when it fails, never in a tick's way.

It reads the loop's alert book after every tick and decides nothing. The traps: a channel that hangs must hold up no
other, so each has a queue and a task of its own; and an address often holds a secret, so errors name the host alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from opsconsole.clock import Clock
from opsconsole.control.notify import Key, Notice, alertmanager, document, follow, wanted
from opsconsole.control.settings import Channel
from opsconsole.domain.records import AlertView

log = logging.getLogger(__name__)
TRIES_S = (1.0, 5.0, 30.0, 120.0)  # between attempts; then the notice is given up and said so
MOST_WAITING = 500
CLOSING_S = 3.0
SETTLE_S = 120.0  # after a start: longer than any alert's own wait
AGAIN_S = 60.0  # Alertmanager is told of what fires as often as this

Send = Callable[[Channel, Sequence[Notice]], Awaitable[None]]


class NotSent(Exception):
    """A channel did not take a notice; the sentence says why."""


class Notifier:
    """All channels of one agent."""

    def __init__(
        self,
        channels: Sequence[Channel],
        clock: Clock,
        said: Callable[[str], object],
        send: Send | None = None,
        told: Sequence[AlertView] = (),
    ) -> None:
        """`told` is what the last process had told of, so that a restart pages nobody again."""
        self._told: dict[Key, AlertView] = {(alert.rule, alert.subject): alert for alert in told}
        self._settles_at: float | None = None if told else float("-inf")
        self._lines = [_Line(channel, clock, said, send or deliver) for channel in channels]
        self._tasks = [asyncio.ensure_future(line.run()) for line in self._lines]

    def take(self, views: Sequence[AlertView], at: float, fleet: str, *, told_by_others: bool = False) -> None:
        """The alerts as they stand after a tick. What another daemon tells is noted, so that it is not told again."""
        if self._settles_at is None:
            self._settles_at = at + SETTLE_S
        self._told, notices = follow(self._told, views, at, fleet, at >= self._settles_at)
        if told_by_others:
            return
        firing = [Notice(view, True, at, fleet) for view in self._told.values()]
        for line in self._lines:
            line.put(notices, firing, at)

    @property
    def told(self) -> tuple[AlertView, ...]:
        """What has been told of and has not ended."""
        return tuple(self._told.values())

    async def close(self) -> None:
        """What waits is tried once more, then let go; what is on its way arrives."""
        with suppress(TimeoutError):
            flushed = asyncio.gather(*(line.flush() for line in self._lines), return_exceptions=True)
            await asyncio.wait_for(flushed, CLOSING_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Line:
    """One channel: its queue, its retries, and whether it is known to fail."""

    def __init__(self, channel: Channel, clock: Clock, said: Callable[[str], object], send: Send) -> None:
        self._channel, self._clock, self._said, self._send = channel, clock, said, send
        self._waiting: deque[list[Notice]] = deque(maxlen=MOST_WAITING)
        self._more = asyncio.Event()
        self._sending = asyncio.Lock()  # a batch on its way is not told a second time by `flush`
        self._again_at = float("-inf")
        self._failing = False

    def put(self, notices: Sequence[Notice], firing: Sequence[Notice], at: float) -> None:
        fresh = wanted(self._channel, notices)
        if self._channel.kind == "alertmanager":
            if at >= self._again_at or fresh:
                self._again_at = at + AGAIN_S
                ended = [notice for notice in fresh if not notice.fired]
                fresh = [*wanted(self._channel, firing), *ended]
            self._queue([fresh] if fresh else [])
        else:
            self._queue([[notice] for notice in fresh])

    def _queue(self, batches: Sequence[list[Notice]]) -> None:
        self._waiting.extend(batches)
        if batches:
            self._more.set()

    async def run(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                await self._insist(self._waiting[0])

    async def _insist(self, batch: list[Notice]) -> None:
        """Send, again after a while when it fails; the first failure of a row and the end of it are said."""
        for pause in (*TRIES_S, None):
            try:
                async with self._sending:
                    if not self._is_next(batch):
                        return  # told by `flush` meanwhile, or pushed out by newer ones
                    await self._send(self._channel, batch)
                    self._done(batch)
            except NotSent as error:
                if not self._failing:
                    self._said(f"alerts are not told to {self._channel.name}: {error}")
                self._failing = True
                if pause is None:
                    log.error("given up: %s", "; ".join(n.sentence for n in batch))
                    self._done(batch)
                    return
                await self._clock.sleep(pause)
            else:
                if self._failing:
                    self._said(f"alerts are told to {self._channel.name} again")
                self._failing = False
                return

    def _is_next(self, batch: list[Notice]) -> bool:
        return bool(self._waiting) and self._waiting[0] is batch

    def _done(self, batch: list[Notice]) -> None:
        if self._is_next(batch):
            self._waiting.popleft()

    async def flush(self) -> None:
        """What waits, once and in order, until one fails. Raises `NotSent`."""
        async with self._sending:
            while self._waiting:
                await self._send(self._channel, self._waiting.popleft())


async def deliver(channel: Channel, batch: Sequence[Notice]) -> None:
    """One attempt. Raises `NotSent`."""
    if channel.kind == "command":
        for notice in batch:
            await _run(channel, document(notice))
        return
    body: Any = alertmanager(batch) if channel.kind == "alertmanager" else document(batch[0])
    url = f"{channel.url.rstrip('/')}/api/v2/alerts" if channel.kind == "alertmanager" else channel.url
    try:
        async with httpx.AsyncClient(timeout=channel.timeout_s) as client:
            reply = await client.post(url, json=body, headers=dict(channel.headers))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotSent(f"{host(url)}: {type(error).__name__}") from None
    if reply.status_code >= 300:
        raise NotSent(f"{host(url)} answered {reply.status_code}")


async def _run(channel: Channel, told: dict[str, Any]) -> None:
    """The command with the document on its standard input and the main facts in its environment."""
    facts = {f"OPSCONSOLE_ALERT_{key.upper()}": str(value) for key, value in told.items()}
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *channel.command, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet, env={**os.environ, **facts}
        )
    except OSError as error:
        raise NotSent(f"{channel.command[0]} cannot be started: {error.strerror}") from None
    try:
        await asyncio.wait_for(process.communicate(json.dumps(told).encode() + b"\n"), channel.timeout_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotSent(f"{channel.command[0]} took longer than {channel.timeout_s:g} s") from None
    if process.returncode:
        raise NotSent(f"{channel.command[0]} ended with {process.returncode}")


def host(url: str) -> str:
    """The part of an address that holds no secret."""
    return urlsplit(url).hostname or "the address"
