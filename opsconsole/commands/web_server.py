"""The server of `opsconsole web`: textual-serve's, closed to other hosts, other sites and readers beyond the cap.

It must not know what it serves; it is given a command. The trap: a page of any site may open a WebSocket to loopback,
and a name of any site may point there, so Origin and Host are both checked; the page it serves names a font on
another host, which the content policy keeps the browser from asking for; and a console that ends by itself leaves its
reader a still picture and a taken place, unless the connection is closed with it.
"""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Reader(AppService):
    """One reader's console; however it ends, the connection ends with it."""

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            sys.stdout.flush()  # what the console said on standard error, if it failed
            await self.remote_close()


class ConsoleServer(Server):
    """One console process for each reader, at most `sessions` of them."""

    def __init__(self, command: str, host: str, port: int, sessions: int) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(command, host=host, port=port, title="opsconsole", public_url=f"http://{place}")
        self._place, self._sessions, self._open = place, sessions, 0

    def initialize_logging(self) -> None:
        """Standard logging as it is: warnings on standard error, no line for each request."""

    async def on_startup(self, app: web.Application) -> None:
        readers = "1 reader" if self._sessions == 1 else f"{self._sessions} readers"
        self.console.print(f"The console is on {self.public_url} for up to {readers}, read-only; Ctrl-C ends it.")

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(self._confine)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if not is_ours(f"//{request.host}", self.port) or (origin is not None and not is_ours(origin, self.port)):
            raise web.HTTPForbidden(text="The console answers to pages of its own on loopback only.\n")
        if request.path in ("/", "/ws") and self._open >= self._sessions:  # the page could only say that it is over
            raise web.HTTPServiceUnavailable(
                text=f"All {self._sessions} sessions are taken; close one, or start with more --sessions.\n"
            )
        return await handler(request)

    async def _confine(self, request: web.Request, response: web.StreamResponse) -> None:
        own = f"'self' http://{self._place}"
        response.headers["Content-Security-Policy"] = (
            f"default-src {own} data:; script-src {own} 'unsafe-inline'; "
            f"style-src {own} 'unsafe-inline'; connect-src {own} ws://{self._place}; frame-ancestors 'none'"
        )

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One reader; counted from before its process starts until after it has ended."""
        self._open += 1
        try:
            return await self._read(request)
        finally:
            self._open -= 1

    async def _read(self, request: web.Request) -> web.WebSocketResponse:
        """Start a console, hand its screen out and its keys in, until either side ends."""
        socket = web.WebSocketResponse(heartbeat=15)
        await socket.prepare(request)

        async def close() -> None:
            await socket.close()

        reader = Reader(
            self.command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        await reader.start(to_int(request.query.get("width", ""), 80), to_int(request.query.get("height", ""), 24))
        try:
            await self._process_messages(socket, reader)
        finally:
            await reader.stop()
        return socket


def is_ours(address: str, port: int) -> bool:
    """Whether an Origin or Host is this server by one of loopback's names."""
    try:
        parts = urlsplit(address)
        return parts.hostname in LOOPBACK and (parts.port or 80) == port
    except ValueError:
        return False
