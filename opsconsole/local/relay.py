"""One request through the router: place it, pass it on, stream the answer back as it comes.

Knows HTTP and the table, nothing of models. What never reached a worker (no connection, or a worker that says it takes
no more) is placed again; everything else is answered with what happened, at once. Trap: once a byte of the answer has
gone out, the status cannot change: a lost worker then ends the stream with an error event, never with a silent stop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import aiohttp

from opsconsole.clock import Clock
from opsconsole.local.router_metrics import RouterMetrics
from opsconsole.local.router_table import Choice, RoutingTable

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

QUEUE_POLL = 0.05  # s
UNTAKEN = (b"draining", b"starting")  # words of a 503 that mean: not begun
HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
NOT_PASSED_UP = HOP_BY_HOP | frozenset(
    [
        "host",
        "content-length",
        "authorization",
        "x-cache-salt",
        "x-opsconsole-router",
        "x-request-id",
        "accept-encoding",
    ]
)


@dataclass(frozen=True, slots=True)
class Order:
    """A request ready to be placed."""

    path: str
    method: str
    body: bytes
    headers: Mapping[str, str]  # for the worker, final
    request_id: str
    hashes: tuple[int, ...] = ()
    tokens: float = 1.0
    slo_class: str = "default"
    key: str = ""


class Lost(Exception):
    """A worker went away with a request; `is_untaken` when it surely had not begun it."""

    def __init__(self, why: str, *, is_untaken: bool) -> None:
        super().__init__(why)
        self.is_untaken = is_untaken


@dataclass(slots=True)
class Answer:
    """How far the reply has come."""

    send: Send
    request_id: str
    is_begun: bool = False
    is_stream: bool = False
    tail: bytes = b""
    extra: list[tuple[bytes, bytes]] = field(default_factory=list)

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.is_begun = True
        own = [(b"x-request-id", self.request_id.encode("latin-1")), *self.extra]
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *own]})

    async def part(self, chunk: bytes) -> None:
        self.tail = (self.tail + chunk)[-64:]
        await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self, chunk: bytes = b"") -> None:
        await self.send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def error(self, status: int, message: str, code: str, *, retry_after: int | None = None) -> None:
        """An OpenAI error: as the whole answer, or as the last event of a stream."""
        kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
        text = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
        if self.is_begun:
            await self.finish(b"data: " + text + b"\n\n" if self.is_stream else b"")
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
        if retry_after is not None:
            headers.append((b"retry-after", str(retry_after).encode()))
        await self.begin(status, headers)
        await self.finish(text)


class Relay:
    """Passes requests to workers."""

    def __init__(
        self, table: RoutingTable, metrics: RouterMetrics, clock: Clock, *, queue_limit: int, patience: float
    ) -> None:
        self._table, self._metrics, self._clock = table, metrics, clock
        self._queue_limit, self._patience = queue_limit, patience
        self._session: aiohttp.ClientSession | None = None
        self._carrying: set[asyncio.Task[Any]] = set()
        self._farewell: str | None = None

    def end_all(self, why: str) -> None:
        """Break off what is still being answered, each with an error that says why."""
        self._farewell = why
        for task in self._carrying:
            task.cancel()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """A fresh connection per request: a kept one may die between our bytes and the worker's answer."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
                auto_decompress=False,
            )
        return self._session

    async def carry(self, order: Order, send: Send) -> None:
        """Answer one request, whatever happens to the workers and to this router meanwhile."""
        answer = Answer(send, order.request_id)
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        try:
            await self._answer(order, answer)
        except asyncio.CancelledError:
            if self._farewell is None:
                raise
            task.uncancel()
            if answer.is_begun and answer.is_stream:
                self._metrics.cut.labels("stop").inc()
            await answer.error(503, self._farewell, "stopping")
        finally:
            self._carrying.discard(task)

    async def _answer(self, order: Order, answer: Answer) -> None:
        refused: list[str] = []
        while True:
            choice = await self._place(order, refused)
            if choice is None:
                text = "no worker can take this request now; try again shortly"
                self._metrics.ended.labels("", "no_worker").inc()
                await answer.error(503, text, "no_worker", retry_after=1)
                return
            try:
                outcome = await self._through(order, choice, answer)
            except Lost as lost:
                if lost.is_untaken and not answer.is_begun:
                    self._metrics.retried.labels("unreached").inc()
                    refused.append(choice.route.name)
                    continue
                outcome = await self._give_up(order, choice, answer, str(lost))
            except asyncio.CancelledError:
                how = "client_gone" if self._farewell is None else "stopped"
                self._metrics.ended.labels(choice.route.name, how).inc()
                raise
            finally:
                choice.end()
            self._metrics.ended.labels(choice.route.name, outcome).inc()
            return

    async def _place(self, order: Order, refused: list[str]) -> Choice | None:
        """A worker, waiting for one while there is none, as long as patience and the queue allow."""
        choice = self._choose(order, refused)
        if choice is not None or self._metrics.waiting >= self._queue_limit:
            return choice
        self._metrics.waiting += 1
        try:
            end = self._clock.monotonic() + self._patience
            while choice is None and self._clock.monotonic() < end:
                await self._clock.sleep(QUEUE_POLL)
                refused.clear()  # who could not take it a moment ago may now, or has been replaced
                choice = self._choose(order, refused)
            return choice
        finally:
            self._metrics.waiting -= 1

    def _choose(self, order: Order, refused: list[str]) -> Choice | None:
        choice = self._table.choose(order.hashes, order.tokens, order.slo_class, order.key, refused)
        if choice is not None:
            self._metrics.placed.labels(choice.rule).inc()
        return choice

    async def _through(self, order: Order, choice: Choice, answer: Answer) -> str:
        """Send, and pass the answer back chunk by chunk. Raises `Lost`."""
        route = choice.route
        try:
            async with self.session.request(
                order.method,
                route.url + order.path,
                data=BytesIO(order.body) if order.body else None,
                headers=order.headers,
            ) as reply:
                refusal = await reply.read() if reply.status == 503 else b""
                if _says_untaken(refusal):
                    raise Lost("it takes no new requests", is_untaken=True)
                answer.is_stream = reply.content_type == "text/event-stream"
                answer.extra = [(b"x-opsconsole-worker", route.name.encode())]
                await answer.begin(reply.status, _down_headers(reply.headers))
                if refusal:
                    await answer.part(refusal)
                async for chunk in reply.content.iter_any():
                    await answer.part(chunk)
                if answer.is_stream and reply.status == 200 and b"[DONE]" not in answer.tail:
                    raise Lost("it ended the stream early", is_untaken=False)
                await answer.finish()
                return _outcome(reply.status)
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            self._table.shun(route)
            raise Lost(f"it cannot be reached ({error})", is_untaken=not answer.is_begun) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            self._table.shun(route)
            untaken = not answer.is_begun and self._table.is_leaving(route) and route.is_draining
            raise Lost(f"its process has gone ({type(error).__name__})", is_untaken=untaken) from error

    async def _give_up(self, order: Order, choice: Choice, answer: Answer, why: str) -> str:
        was_begun = answer.is_begun
        if was_begun and answer.is_stream:
            self._metrics.cut.labels("drain" if choice.route.is_draining else "crash").inc()
        text = f"worker {choice.route.name} was lost while it worked on request {order.request_id}: {why}"
        await answer.error(502, text, "worker_lost")
        return "cut" if was_begun else "failed"


def _says_untaken(refusal: bytes) -> bool:
    """A worker that drains or is not ready has not begun the request; one whose queue is full says so to the client."""
    return any(word in refusal.lower() for word in UNTAKEN)


def _outcome(status: int) -> str:
    if status < 400:
        return "ok"
    return "refused" if status in (429, 503) else "client_error" if status < 500 else "failed"


def _down_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The worker's headers without those that belong to one connection, and without its own request id."""
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
        if name.lower() not in HOP_BY_HOP and name.lower() != "x-request-id"
    ]
