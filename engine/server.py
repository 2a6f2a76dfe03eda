"""The engine's mouth: an ASGI application over one engine service, and the loop that serves it.

It must not know torch or where models come from; both clocks come as arguments. The trap: nothing here may wait for
the engine's thread; tokens come by callbacks, and a client that leaves is noticed by the task that listens for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.call import Call
from engine.chat import ChatTemplate
from engine.config import SloClass, parse_slo
from engine.http_gate import Gate, header, read_body, request_id_of, send_json
from engine.protocol import ApiError, Body, flag, invalid, parse_body, string
from engine.protocol_requests import CallSpec, check_model, read_chat, read_completion, render_chat
from engine.replies import Replies, encode
from engine.service import EngineService, Phase

log = logging.getLogger("engine.server")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the engine is reached, and what it accepts."""

    api_key: str | None = None
    router_token: str | None = None  # who sends it as x-opsconsole-router may set the cache salt by header
    body_limit: int = 8 * 1024 * 1024  # bytes
    drain_deadline_s: float = 30.0  # SIGTERM: running streams may finish within it


class EngineApp:
    """The endpoints. `wall` gives Unix seconds."""

    def __init__(self, service: EngineService, options: ServerOptions, wall: Callable[[], float]) -> None:
        self.service, self.options, self._wall = service, options, wall
        text = service.text
        self._template = ChatTemplate(text.chat_template, text.bos, text.eos) if text.chat_template else None

    def asgi(self) -> ASGIApp:
        """The application, its gate included."""
        routes = [
            Route("/v1/completions", _Generate(self, self._completion), methods=["POST"]),
            Route("/v1/chat/completions", _Generate(self, self._chat), methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/drain", self._drain, methods=["POST"]),
            Route("/undrain", self._undrain, methods=["POST"]),
            Route("/slo", self._slo, methods=["POST"]),
        ]
        handlers = {HTTPException: _http_error, ApiError: _api_error, Exception: _failure}
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        return Gate(app, self.options.api_key)

    def slo_of(self, scope: Scope) -> SloClass:
        name = header(scope, b"x-slo-class")
        slo = self.service.config.slo_class(name)
        if slo is None:
            raise invalid("x-slo-class", f"is {name!r}; this engine has {', '.join(self.service.config.slo_classes)}.")
        return slo

    def salt_of(self, scope: Scope, spec: CallSpec) -> str:
        """Who may share cached prefixes. The two sources are framed apart, so that neither can imitate the other."""
        if self._is_router(scope) and (salt := header(scope, b"x-cache-salt")) is not None:
            return f"router:{salt}"
        return "" if spec.cache_salt is None else f"client:{spec.cache_salt}"

    def _is_router(self, scope: Scope) -> bool:
        token = self.options.router_token
        given = header(scope, b"x-opsconsole-router")
        return token is not None and given is not None and secrets.compare_digest(given.encode(), token.encode())

    def replies(self, call: Call) -> Replies:
        return Replies(call, self.service.config.model_name, int(self._wall()))

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(self.service.start())
        warming.add_done_callback(_log_failure)
        yield
        warming.cancel()
        await self.service.stop()

    def _completion(self, body: Body) -> CallSpec:
        return read_completion(body, self.service.limits, self.service.text.codec, _draw_seed)

    def _chat(self, body: Body) -> CallSpec:
        return read_chat(body, self.service.limits, self.service.text.codec, self._template, _draw_seed)

    async def _models(self, request: HttpRequest) -> Response:
        config = self.service.config
        model = {
            "id": config.model_name,
            "object": "model",
            "created": 0,
            "owned_by": "opsconsole",
            "max_model_len": config.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _health(self, request: HttpRequest) -> Response:
        phase = self.service.phase
        return JSONResponse({"status": phase.value}, 200 if phase is Phase.READY else 503)

    async def _metrics(self, request: HttpRequest) -> Response:
        return PlainTextResponse(self.service.page(), media_type="text/plain; version=0.0.4")

    async def _tokenize(self, request: HttpRequest) -> Response:
        body = parse_body(await read_body(request.scope, request.receive, self.options.body_limit))
        limits, codec = self.service.limits, self.service.text.codec
        if body.get("model") is not None:
            check_model(body, limits)
        if "messages" in body:
            ids: Any = render_chat(body, codec, self._template)
        else:
            text = string(body, "prompt")
            if text is None:
                raise invalid("prompt", "is missing; send prompt or messages.")
            ids = codec.encode(text, add_special=flag(body, "add_special_tokens", True))
        return JSONResponse({"count": len(ids), "max_model_len": limits.max_model_len, "tokens": list(ids)})

    async def _drain(self, request: HttpRequest) -> Response:
        self.service.drain()
        log.info("draining", extra={"request_id": request_id_of(request.scope)})
        return JSONResponse({"status": self.service.phase.value, "streams": len(self.service.calls)}, 202)

    async def _undrain(self, request: HttpRequest) -> Response:
        self.service.undrain()
        log.info("undrained", extra={"request_id": request_id_of(request.scope)})
        return JSONResponse({"status": self.service.phase.value, "streams": len(self.service.calls)}, 202)

    async def _slo(self, request: HttpRequest) -> Response:
        """The router's word on bounds, once they are known; a class must exist since its counters do."""
        if not self._is_router(request.scope):
            raise ApiError(403, "Only the router this engine trusts may set bounds.", code="forbidden")
        body = parse_body(await read_body(request.scope, request.receive, self.options.body_limit))
        try:
            slo = parse_slo(string(body, "slo") or "")
        except ValueError as error:
            raise invalid("slo", str(error)) from None
        if slo.name not in self.service.config.slo_classes:
            raise invalid("slo", f"names {slo.name!r}; this engine has {', '.join(self.service.config.slo_classes)}.")
        self.service.rebound(slo)
        return JSONResponse({"name": slo.name, "ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s})


class _Generate:
    """The ASGI endpoint of both completion routes."""

    def __init__(self, app: EngineApp, read: Callable[[Body], CallSpec]) -> None:
        self._app, self._read = app, read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, service = self._app, self._app.service
        spec = self._read(parse_body(await read_body(scope, receive, app.options.body_limit)))
        call = service.open(spec, _call_id(service, request_id_of(scope)), app.slo_of(scope), app.salt_of(scope, spec))
        watching = asyncio.create_task(_watch(receive, call))
        try:
            answer = self._stream if spec.stream else self._whole
            await answer(call, send)
        finally:
            watching.cancel()
            service.close(call)
            _log_call(call, scope)

    async def _whole(self, call: Call, send: Send) -> None:
        while not call.is_done:
            await call.changed.wait()
            call.changed.clear()
        _raise_failure(call)
        if not call.left:
            await send_json(send, self._app.replies(call).whole())

    async def _stream(self, call: Call, send: Send) -> None:
        replies = self._app.replies(call)
        started = False
        while True:
            await call.changed.wait()
            call.changed.clear()
            if call.left:
                return
            done = call.is_done
            if not started:
                _raise_failure(call)  # an error before the first token is a status, not an event
                headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                started = True
            body = replies.events(call.take())
            if done:
                body += _last(call, replies)
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": not done})
            if done:
                return


async def serve(
    app: EngineApp, config: uvicorn.Config, announce: Callable[[], None], sockets: list[socket.socket] | None = None
) -> int:
    """Serve until SIGTERM or SIGINT, drain, and return how many streams were cut by the deadline or a second signal."""
    server = QuietServer(config)
    hurry = asyncio.Event()
    leave = asyncio.Event()

    def on_signal() -> None:
        if leave.is_set():
            hurry.set()
        leave.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    announce()  # from here on a signal drains
    serving = asyncio.create_task(server.serve(sockets))
    leaving = asyncio.create_task(leave.wait())
    await asyncio.wait([serving, leaving], return_when=asyncio.FIRST_COMPLETED)
    cut = 0
    if not serving.done():
        app.service.drain()
        log.info("leaving", extra={"streams": len(app.service.calls), "deadline_s": app.options.drain_deadline_s})
        drained = asyncio.create_task(app.service.drained(app.options.drain_deadline_s))
        hurrying = asyncio.create_task(hurry.wait())
        await asyncio.wait([drained, hurrying], return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
            cut = await app.service.drained(0.0)
        else:
            cut = drained.result()
        hurrying.cancel()
        log.info("left", extra={"streams_cut": cut})
        server.should_exit = True
    leaving.cancel()
    await serving
    return cut


class QuietServer(uvicorn.Server):
    """Uvicorn without signal handlers of its own: ours drain first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _watch(receive: Receive, call: Call) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.leave()


def _last(call: Call, replies: Replies) -> bytes:
    if call.error is None:
        return replies.last_events()
    error = ApiError(500, call.error, kind="server_error")
    return b"data: " + encode(error.body(call.call_id)) + b"\n\n"


def _raise_failure(call: Call) -> None:
    if call.error is not None:
        raise ApiError(500, call.error, kind="server_error")


def _call_id(service: EngineService, request_id: str) -> str:
    """The request's id, made unique where a client sends the same one twice at a time."""
    return request_id if request_id not in service.calls else f"{request_id}-{secrets.token_hex(4)}"


def _draw_seed() -> int:
    return secrets.randbits(63)


def _log_call(call: Call, scope: Scope) -> None:
    log.info(
        "answered",
        extra={
            "request_id": request_id_of(scope),
            "path": scope["path"],
            "stream": call.spec.stream,
            "slo_class": call.slo.name,
            "prompt_tokens": call.prompt_tokens,
            "cached_tokens": call.cached_tokens,
            "completion_tokens": call.completion_tokens,
            "finish": [choice.finish.value if choice.finish else None for choice in call.choices],
            "ttft_s": call.ttft_s,
            "tpot_s": call.tpot_s,
            "error": call.error,
        },
    )


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the engine could not start", exc_info=error)


async def _api_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    request_id = request_id_of(request.scope)
    log.info("refused", extra={"request_id": request_id, "status": error.status, "reason": error.message})
    return JSONResponse(error.body(request_id), error.status, error.headers())


async def _http_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = "does not exist" if error.status_code == 404 else f"cannot be used with {request.method}"
    return await _api_error(request, ApiError(error.status_code, f"{request.url.path} {what}.", code="unknown_url"))


async def _failure(request: HttpRequest, error: Exception) -> Response:
    return await _api_error(
        request, ApiError(500, "The engine failed on this request; its log says why.", kind="server_error")
    )
