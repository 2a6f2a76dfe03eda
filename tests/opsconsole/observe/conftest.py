"""A real HTTP server on loopback whose paths misbehave, each in its own way."""

from __future__ import annotations

import asyncio
import base64
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

PAGE = (
    "# TYPE vllm:num_requests_running gauge\n"
    'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
    "# TYPE vllm:num_requests_waiting gauge\n"
    'vllm:num_requests_waiting{engine="0",model_name="m"} 1.0\n'
)
_packer = zlib.compressobj(9, wbits=31)
BOMB = b"".join(_packer.compress(b"a" * 2**20) for _ in range(32)) + _packer.flush()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def text(body: str | bytes, **kwargs: Any) -> web.Response:
    return web.Response(body=body.encode() if isinstance(body, str) else body, content_type="text/plain", **kwargs)


class Misbehaving:
    """Paths: /ok /html /json /empty /401 /404 /500 /gzip /bomb /endless /slow /hang /loop /moved /cut /token /basic."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.page = PAGE
        self.url = ""
        self.release = asyncio.Event()  # what hangs ends with the test

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{name}", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        handler: Handler = getattr(self, "_" + request.match_info["name"].replace("-", "_"))
        return await handler(request)

    async def _ok(self, request: web.Request) -> web.StreamResponse:
        return text(self.page)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return text(self.page)

    async def _html(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="<!doctype html><html><body>welcome</body></html>", content_type="text/html")

    async def _json(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"detail": "no metrics here", "more": [1, 2, 3]})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="[]", content_type="application/json")

    async def _empty(self, request: web.Request) -> web.StreamResponse:
        return text("")

    async def _401(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    async def _500(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text="vllm:num_requests_running 9\n")

    async def _gzip(self, request: web.Request) -> web.StreamResponse:
        return text(gzip.compress(self.page.encode()), headers={"Content-Encoding": "gzip"})

    async def _halfgzip(self, request: web.Request) -> web.StreamResponse:
        return text(gzip.compress(self.page.encode())[:-12], headers={"Content-Encoding": "gzip"})

    async def _notgzip(self, request: web.Request) -> web.StreamResponse:
        return text(self.page, headers={"Content-Encoding": "gzip"})

    async def _bomb(self, request: web.Request) -> web.StreamResponse:
        return text(BOMB, headers={"Content-Encoding": "gzip"})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        line = b'vllm:num_requests_running{engine="0"} 3.0\n' * 1000
        while not self.release.is_set():
            await response.write(line)
        return response

    async def _announced(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(10 * 2**30)})
        await response.prepare(request)
        await response.write(b"vllm:num_requests_running 3\n")
        await self.release.wait()
        return response

    async def _slow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for byte in self.page.encode():
            if self.release.is_set():
                break
            await response.write(bytes([byte]))
            await asyncio.sleep(0.05)
        return response

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        await self.release.wait()
        return text(self.page)

    async def _loop(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/loop2")

    async def _loop2(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/loop")

    async def _far(self, request: web.Request) -> web.StreamResponse:
        n = int(request.query.get("n", "0"))
        raise web.HTTPFound(f"/far?n={n + 1}")

    async def _moved(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("/ok")

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(self.page))})
        await response.prepare(request)
        await response.write(self.page.encode()[:-10])
        assert request.transport is not None
        request.transport.close()
        return response

    async def _closing(self, request: web.Request) -> web.StreamResponse:
        """HTTP/1.0 manner: no length, the end of the connection is the end of the page, within a line."""
        assert request.transport is not None
        request.transport.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + self.page.encode()[:-3])
        request.transport.close()
        return web.Response()

    async def _token(self, request: web.Request) -> web.StreamResponse:
        right = request.headers.get("Authorization") in ("Bearer s3cret", "Basic " + base64.b64encode(b"u:p").decode())
        return text(self.page) if right else web.Response(status=401)

    async def _skewed(self, request: web.Request) -> web.StreamResponse:
        return text(self.page, headers={"Date": "Thu, 01 Jan 2015 00:00:00 GMT"})


@asynccontextmanager
async def serving(handler: Misbehaving, ssl_context: Any = None) -> AsyncIterator[str]:
    """The server on a free port; yields its base address."""
    runner = web.AppRunner(handler.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    finally:
        handler.release.set()
        await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    """The misbehaving server with its address as `.url`."""
    handler = Misbehaving()
    async with serving(handler) as url:
        handler.url = url
        yield handler


@pytest.fixture
def start_server() -> Any:
    """To start more of them, or one with TLS: `async with start_server(context) as server`."""

    @asynccontextmanager
    async def started(ssl_context: Any = None) -> AsyncIterator[Misbehaving]:
        handler = Misbehaving()
        async with serving(handler, ssl_context) as url:
            handler.url = url
            yield handler

    return started
