"""What every HTTP request passes first: an id, the API key, and the rule that errors are OpenAI error bodies.

Plain ASGI, so that streams pass through untouched. It must not know endpoints. The trap: once the first byte of an
answer is out, an error can only be told inside the stream; this gate then stays silent and the endpoint speaks.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import uuid
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.protocol import ApiError

log = logging.getLogger("engine.http")

_OPEN_PATHS = frozenset({"/health", "/metrics"})  # probes and scrapers have no key
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def request_id_of(scope: Scope) -> str:
    return str(scope["state"]["request_id"])


class Gate:
    """Wraps an application."""

    def __init__(self, app: ASGIApp, api_key: str | None = None) -> None:
        self._app = app
        self._key = api_key.encode() if api_key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        request_id = given if given is not None and _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode("latin-1"))]
            await send(message)

        try:
            if self._key is not None and scope["path"] not in _OPEN_PATHS:
                self._check_key(scope, self._key)
            await self._app(scope, receive, send_with_id)
        except ApiError as error:
            if not started:
                await send_error(send_with_id, error, request_id)
        except Exception:
            # The application has answered with a body if it still could; only the log is left to tell.
            log.exception("unexpected error", extra={"request_id": request_id})

    def _check_key(self, scope: Scope, key: bytes) -> None:
        scheme, _, given = (header(scope, b"authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), key):
            raise ApiError(
                401,
                "The API key is missing or wrong; send it as Authorization: Bearer KEY.",
                kind="authentication_error",
                code="invalid_api_key",
            )


async def send_error(send: Send, error: ApiError, request_id: str) -> None:
    """A whole answer that is an error."""
    headers = [(name.encode(), value.encode()) for name, value in error.headers().items()]
    await send_json(send, error.body(request_id), error.status, headers)


async def send_json(
    send: Send, value: Any, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A whole answer in JSON; bytes are taken as encoded already."""
    body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *(headers or []),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The request's body, or 413 as soon as it is known to be over the limit."""
    too_large = ApiError(413, f"The body is over the limit of {limit} bytes.", code="body_too_large")
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "The client left before its request was complete.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large
        if not message.get("more_body", False):
            return b"".join(parts)
