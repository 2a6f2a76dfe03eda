"""Connections that are kept alive between ticks, each asked for one page at a time by a GET written beforehand.

It knows HTTP's framing only through `answer` and nothing of pages. A thousand replicas are asked every second, so there
is no layer here that does not earn its microseconds. The traps: a server may close a kept connection just while it is
asked, which is no failure of the server (it is asked again over a new one, once); and a body comes faster than it is
read, so reading pauses where too much waits.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple

from opsconsole.observe.answer import Answer, BadAnswer
from opsconsole.observe.resolving import Resolver

ADDRESS_S = 1.0  # for each address of a name that has several; the last may take what time there is
KEPT_S = 75.0  # idle; longer than any sensible tick, shorter than what firewalls forget
_GIVEN_UP = 408
UNREAD_MOST = 256 * 1024  # bytes of one body


class Place(NamedTuple):
    """Where one connection leads, and by which name its certificate is checked."""

    host: str
    port: int
    is_tls: bool
    named: str = ""  # "" is the host


class Connection(asyncio.Protocol):
    """One connection and the answer that is being read on it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answer = Answer()
        self.idle_since = 0.0
        self.is_open = False
        self._transport: asyncio.Transport
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False

    async def ask(self, request: bytes) -> Answer:
        """The answer, once its head is here."""
        self.answer = Answer()
        self._transport.write(request)
        while not self.answer.status:
            await self._more()
        return self.answer

    async def read(self) -> bytes:
        """The body as far as it has come; nothing when all of it was read."""
        answer = self.answer
        while not answer.pieces:
            if answer.is_done:
                return b""
            await self._more()
        data = answer.pieces[0] if len(answer.pieces) == 1 else b"".join(answer.pieces)
        answer.pieces.clear()
        if self._paused and self.is_open:
            self._paused = False
            self._transport.resume_reading()
        return data

    @property
    def is_fit(self) -> bool:
        """It may be asked again: all of the answer came, and nothing after it."""
        return self.is_open and self.answer.is_done and self.answer.is_reusable

    def abort(self) -> None:
        self._transport.abort()

    async def gone(self) -> None:
        """Wait until an aborted connection is."""
        while self.is_open:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def _more(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            self.answer.feed(data)
        except BadAnswer as error:
            self._failure = error
            self._transport.abort()
        if not self._paused and sum(map(len, self.answer.pieces)) > UNREAD_MOST:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._failure is None and not self.answer.ended():
            self._failure = exc or ConnectionResetError("it was closed")
        self._wake()


class Connections:
    """All of a process. Not more than `most` are asked at a time; those that wait to be asked again are not counted."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], most: int, resolver: Resolver | None = None) -> None:
        self._tls = tls
        self._resolver = resolver or Resolver()
        self._slots = asyncio.Semaphore(most)
        self._kept: dict[Place, list[Connection]] = {}
        self._swept_at = 0.0

    async def ask(self, place: Place, request: bytes) -> Connection:
        """A connection whose answer has its head. Give it back by `release`, however it went on."""
        await self._slots.acquire()
        try:
            return await self._asked(place, request)
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: Connection) -> None:
        """Keep it for the next tick, or close what cannot be asked again."""
        self._slots.release()
        now = asyncio.get_running_loop().time()
        if connection.is_fit:
            connection.idle_since = now
            self._kept.setdefault(connection.place, []).append(connection)
        else:
            connection.abort()
        if now - self._swept_at > KEPT_S / 5:
            self._swept_at = now
            self._sweep(now - KEPT_S)

    async def close(self) -> None:
        kept = [connection for many in self._kept.values() for connection in many]
        self._kept.clear()
        for connection in kept:
            connection.abort()
        self._resolver.close()
        await asyncio.gather(*(connection.gone() for connection in kept))

    async def _asked(self, place: Place, request: bytes) -> Connection:
        while kept := self._kept.get(place):
            connection = kept.pop()
            if not connection.is_fit:
                connection.abort()
                continue
            try:
                answer = await connection.ask(request)
                if answer.status != _GIVEN_UP:
                    return connection
                connection.abort()  # the server spoke first: it had waited too long for a request
                continue
            except ConnectionError:
                if connection.answer.is_begun:
                    raise
                continue  # it was closed while it was asked
            except BaseException:
                connection.abort()
                raise
        connection = await self._opened(place)
        try:
            await connection.ask(request)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _opened(self, place: Place) -> Connection:
        *before, last = await self._resolver.addresses(place.host, place.port)
        for address in before:
            try:
                async with asyncio.timeout(ADDRESS_S):
                    return await self._opened_at(address, place)
            except OSError:  # nobody there, or nobody in time
                continue
        return await self._opened_at(last, place)

    async def _opened_at(self, address: str, place: Place) -> Connection:
        tls = self._tls() if place.is_tls else None
        name = place.named or place.host
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(place), address, place.port, ssl=tls, server_hostname=name if tls else None
        )
        return connection

    def _sweep(self, before: float) -> None:
        """Close what nobody asked for long: its replica is gone."""
        for place, many in list(self._kept.items()):
            for connection in many:
                if connection.idle_since < before:
                    connection.abort()
            self._kept[place] = [c for c in many if c.is_open and c.idle_since >= before]
            if not self._kept[place]:
                del self._kept[place]
