"""The server of `opsconsole web`: textual-serve's, closed to other hosts, other sites and readers beyond the cap.

It must not know what it serves; it is given a command. The trap: a page of any site may open a WebSocket to loopback,
and a name of any site may point there, so Origin and Host are both checked; and the page it serves names a font on
another host, which the content policy keeps the browser from asking for.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
        return await handler(request)

    async def _confine(self, request: web.Request, response: web.StreamResponse) -> None:
        own = f"'self' http://{self._place}"
        response.headers["Content-Security-Policy"] = (
            f"default-src {own} data:; script-src {own} 'unsafe-inline'; "
            f"style-src {own} 'unsafe-inline'; connect-src {own} ws://{self._place}; frame-ancestors 'none'"
        )

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One reader; counted from before its process starts until after it has ended."""
        if self._open >= self._sessions:
            raise web.HTTPServiceUnavailable(
                text=f"All {self._sessions} sessions are taken; close one, or start with more --sessions.\n"
            )
        self._open += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._open -= 1


def is_ours(address: str, port: int) -> bool:
    """Whether an Origin or Host is this server by one of loopback's names."""
    try:
        parts = urlsplit(address)
        return parts.hostname in LOOPBACK and (parts.port or 80) == port
    except ValueError:
        return False
