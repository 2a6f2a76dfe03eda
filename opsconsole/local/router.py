"""The router process: one OpenAI-compatible port in front of the workers.

Checks the key, gives the request an id and its tenant a cache salt, and hands it to the relay; follows the supervisor's
state by long polling. `python -m opsconsole.local.router SETTINGS FD`. Trap: while the supervisor does not answer, the
last known state stays in force; a router that forgets its workers turns a hiccup into an outage.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from prometheus_client import disable_created_metrics

from opsconsole.clock import Clock, SystemClock
from opsconsole.errors import OpsConsoleError
from opsconsole.lint.capture import Redactor
from opsconsole.local.capture import Capture
from opsconsole.local.prefixes import ID_CHUNK, estimated_tokens, prefix_hashes, tenant_salt
from opsconsole.local.relay import NOT_PASSED_UP, Answer, Order, Relay, Send
from opsconsole.local.router_metrics import RouterMetrics
from opsconsole.local.router_table import RoutingTable
from opsconsole.local.settings import UpSettings, load_settings
from opsconsole.local.supervisor_client import SupervisorClient

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

PLACED = frozenset({"/v1/completions", "/v1/chat/completions"})
PASSED = frozenset({"/v1/models", "/tokenize"})
BODY_LIMIT = 8 * 2**20
QUEUE_LIMIT, PATIENCE = 512, 60.0  # requests, s
GRACE_AT_END, PATIENCE_AT_END = 10, 8.0  # s until connections are cut, and until what still runs is told so
REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


class TooLarge(Exception):
    """A body over the limit."""


class Router:
    """The ASGI application."""

    def __init__(
        self,
        table: RoutingTable,
        clock: Clock,
        *,
        api_key: str | None = None,
        router_token: str = "",
        queue_limit: int = QUEUE_LIMIT,
        patience: float = PATIENCE,
        capture_to: Path | None = None,
    ) -> None:
        self.table = table
        self.metrics = RouterMetrics()
        self._relay = Relay(table, self.metrics, clock, queue_limit=queue_limit, patience=patience)
        self._api_key, self._router_token = api_key, router_token
        self._secret = secrets.token_bytes(32)
        self._capture: Capture | None = None
        if capture_to is not None:
            count = self.metrics.captured
            redactor = Redactor(secrets.token_bytes(32))
            self._capture = Capture(capture_to, redactor, lambda outcome: count.labels(outcome).inc())

    def end_all(self) -> None:
        """The time for running answers is over."""
        self._relay.end_all("this service is stopping; the answer is incomplete")

    async def close(self) -> None:
        if self._capture is not None:
            await asyncio.to_thread(self._capture.close)
        await self._relay.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        if path == "/health":
            await _plain(send, 200 if self.table.ready else 503, b"application/json", self._health())
        elif path == "/metrics":
            page = self.metrics.page(self.table.routes, len(self.table.ready))
            await _plain(send, 200, b"text/plain; version=0.0.4; charset=utf-8", page)
        elif path == "/prefixes" and self._is_ours(scope):
            await _plain(send, 200, b"application/json", self._shared())
        else:
            await self._request(scope, path, method, receive, send)

    def _is_ours(self, scope: Scope) -> bool:
        """Whether the agent of this run asks: it knows the word the engines know the router by."""
        given = next((value for name, value in scope["headers"] if name == b"x-opsconsole-router"), b"")
        return bool(self._router_token) and compare_digest(given, self._router_token.encode())

    def _shared(self) -> bytes:
        """Prefixes that many requests share: ids and lengths, never their text."""
        rows = [
            {"prefix": f"{one.end:016x}", "tokens": one.chunks * ID_CHUNK, "requests": one.requests,
             "forks": one.forks, "holders": one.holders, "age": age}
            for one, age in self.table.shared()
        ]  # fmt: skip
        return json.dumps({"items": rows}).encode()

    def _health(self) -> bytes:
        ready = len(self.table.ready)
        return json.dumps({"status": "ok" if ready else "no worker is ready", "workers": ready}).encode()

    async def _request(self, scope: Scope, path: str, method: str, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        asked = headers.get("x-request-id", "")
        answer = Answer(send, asked if REQUEST_ID.fullmatch(asked) else f"req-{secrets.token_hex(8)}")
        if path not in PLACED | PASSED:
            await answer.error(404, f"there is no {method} {path} here", "not_found")
            return
        if (path in PLACED) != (method == "POST") and path != "/tokenize":
            await answer.error(405, f"{path} does not take {method}", "method_not_allowed")
            return
        key = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self._api_key and not compare_digest(key.encode(), self._api_key.encode()):
            await answer.error(401, "the API key is missing or wrong", "invalid_api_key")
            return
        try:
            body = await _read(receive)
            order = self._order(path, method, body, headers, key, answer.request_id)
        except TooLarge:
            await answer.error(413, f"the body is over the limit of {BODY_LIMIT // 2**20} MiB", "body_too_large")
        except ValueError as error:
            await answer.error(400, f"the body is not valid JSON: {error}", "invalid_json")
        except ConnectionError:
            return
        else:
            await self._carry(order, receive, send)

    def _order(self, path: str, method: str, body: bytes, headers: dict[str, str], key: str, request_id: str) -> Order:
        passed = {name: value for name, value in headers.items() if name not in NOT_PASSED_UP}
        salt = tenant_salt(self._secret, key)
        passed |= {"x-request-id": request_id, "x-cache-salt": salt, "x-opsconsole-router": self._router_token}
        if self._router_token:
            passed["authorization"] = f"Bearer {self._router_token}"  # workers know the router alone
        if path not in PLACED:
            return Order(path, method, body, passed, request_id)
        parsed = json.loads(body.decode("utf-8"))
        if not isinstance(parsed, dict):
            raise ValueError("an object is expected")
        if "cache_salt" in parsed:
            del parsed["cache_salt"]
            body = json.dumps(parsed).encode()
        if self._capture is not None:
            self._capture.offer(parsed, len(body))
        return Order(
            path,
            method,
            body,
            passed,
            request_id,
            hashes=prefix_hashes(parsed, salt),
            tokens=estimated_tokens(parsed),
            slo_class=headers.get("x-slo-class", "default"),
            key=salt,
        )

    async def _carry(self, order: Order, receive: Receive, send: Send) -> None:
        """Carry it, but no further than its client waits: a gone client frees its worker at once."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._relay.carry(order, send))
        gone = loop.create_task(_disconnected(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
            with suppress(asyncio.CancelledError):
                await work


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client has gone")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_LIMIT:
            raise TooLarge
        if not message.get("more_body"):
            return b"".join(parts)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _plain(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def follow(table: RoutingTable, client: SupervisorClient, clock: Clock) -> None:
    """Keep the table as the supervisor has it."""
    while True:
        try:
            table.update(await client.state(after=table.version, wait=5.0))
        except OpsConsoleError:
            await clock.sleep(0.2)


class RouterServer(uvicorn.Server):
    """Lets running answers finish when it is stopped, and ends the rest in words before their connections are cut."""

    def __init__(self, config: uvicorn.Config, router: Router) -> None:
        super().__init__(config)
        self._router = router

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        farewell = asyncio.get_running_loop().call_later(PATIENCE_AT_END, self._router.end_all)
        try:
            await super().shutdown(sockets)
        finally:
            farewell.cancel()


async def serve(settings: UpSettings, listener: socket.socket) -> None:
    """Serve until told to stop; running streams finish first."""
    clock = SystemClock()
    table = RoutingTable(clock.now, Random())
    capture_to = settings.captured if settings.capture else None
    router = Router(table, clock, api_key=settings.api_key, router_token=settings.router_token, capture_to=capture_to)
    config = uvicorn.Config(
        router,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_AT_END,
        backlog=2048,
    )  # fmt: skip
    async with SupervisorClient(settings.supervisor_socket) as client:
        with suppress(OpsConsoleError):
            table.update(await client.state())
        following = asyncio.get_running_loop().create_task(follow(table, client, clock))
        try:
            await RouterServer(config, router).serve(sockets=[listener])
        finally:
            following.cancel()
            await router.close()


def main() -> None:
    """The process; the port's socket comes from the supervisor."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    settings = load_settings(Path(sys.argv[1]))
    asyncio.run(serve(settings, socket.socket(fileno=int(sys.argv[2]))))


if __name__ == "__main__":
    main()
