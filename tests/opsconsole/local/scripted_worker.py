"""A worker without a model: the HTTP of an engine, its pace set by the environment. Run as a process by the tests.

`SCRIPT_START_S` until it is ready, `SCRIPT_TOKEN_S` between tokens, `SCRIPT_SLOTS` streams at once (others wait),
`SCRIPT_FAIL_START` exits at once. Trap: it must
count its own streams exactly, since drains are judged by them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

START_S = float(os.environ.get("SCRIPT_START_S", "0.3"))
SLOTS = int(os.environ.get("SCRIPT_SLOTS", "1000"))
TOKEN_S = float(os.environ.get("SCRIPT_TOKEN_S", "0.01"))


class Script:
    """All there is to know about this worker."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.is_draining = False
        self.running = self.waiting = 0
        self.slots = asyncio.Semaphore(SLOTS)
        self.counts = {"started": 0, "finished": 0, "prompt": 0, "output": 0}
        self.bounds: Any = None
        self.seen: dict[str, str] = {}

    @property
    def is_ready(self) -> bool:
        return time.monotonic() - self.began >= START_S

    async def health(self, request: Request) -> Response:
        if self.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ok" if self.is_ready else "warming"}, 200 if self.is_ready else 503)

    async def drain(self, request: Request) -> Response:
        self.is_draining = True
        return JSONResponse({}, 202)

    async def undrain(self, request: Request) -> Response:
        self.is_draining = False
        return JSONResponse({}, 202)

    async def slo(self, request: Request) -> Response:
        self.bounds = await request.json()
        return JSONResponse(self.bounds)

    async def seen_headers(self, request: Request) -> Response:
        return JSONResponse(self.seen)

    async def metrics(self, request: Request) -> Response:
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f'vllm:num_requests_running{{model_name="m",engine="0"}} {self.running}',
            "# TYPE vllm:num_requests_waiting gauge",
            f'vllm:num_requests_waiting{{model_name="m",engine="0"}} {self.waiting}',
            "# TYPE vllm:kv_cache_usage_perc gauge",
            'vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.1',
            "# TYPE vllm:prompt_tokens_total counter",
            f'vllm:prompt_tokens_total{{model_name="m",engine="0"}} {self.counts["prompt"]}',
            "# TYPE vllm:generation_tokens_total counter",
            f'vllm:generation_tokens_total{{model_name="m",engine="0"}} {self.counts["output"]}',
            "# TYPE vllm:request_success_total counter",
            f'vllm:request_success_total{{model_name="m",engine="0",finished_reason="length"}} {self.counts["finished"]}',  # noqa: E501
        ]
        return PlainTextResponse("\n".join(lines) + "\n")

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.seen = {**dict(request.headers), "body": json.dumps(body)}
        if self.is_draining:
            return JSONResponse({"error": {"message": "this engine is draining", "type": "server_error"}}, 503)
        if body.get("max_tokens", 8) < 0:
            return JSONResponse({"error": {"message": "max_tokens is negative", "type": "invalid_request_error"}}, 400)
        tokens = int(body.get("max_tokens", 8))
        if not body.get("stream"):
            await asyncio.sleep(TOKEN_S * tokens)
            return JSONResponse({"choices": [{"index": 0, "text": "a " * tokens, "finish_reason": "length"}]})
        return StreamingResponse(self.stream(tokens), media_type="text/event-stream")

    async def stream(self, tokens: int) -> AsyncIterator[bytes]:
        self.waiting += 1
        self.counts["started"] += 1
        self.counts["prompt"] += 10
        try:
            async with self.slots:
                self.waiting, self.running = self.waiting - 1, self.running + 1
                try:
                    async for part in self.tokens(tokens):
                        yield part
                finally:
                    self.waiting, self.running = self.waiting + 1, self.running - 1
        finally:
            self.waiting -= 1

    async def tokens(self, tokens: int) -> AsyncIterator[bytes]:
        for index in range(tokens):
            await asyncio.sleep(TOKEN_S)
            self.counts["output"] += 1
            end = "length" if index == tokens - 1 else None
            yield _event({"choices": [{"index": 0, "text": f"t{index} ", "finish_reason": end}]})
        usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
        yield _event({"choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"
        self.counts["finished"] += 1


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def main() -> None:
    if os.environ.get("SCRIPT_FAIL_START"):
        raise SystemExit("scripted failure")
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int)
    known, _ = parser.parse_known_args()
    script = Script()
    app = Starlette(
        routes=[
            Route("/health", script.health),
            Route("/metrics", script.metrics),
            Route("/seen", script.seen_headers),
            Route("/v1/models", script.models),
            Route("/drain", script.drain, methods=["POST"]),
            Route("/undrain", script.undrain, methods=["POST"]),
            Route("/slo", script.slo, methods=["POST"]),
            Route("/v1/completions", script.complete, methods=["POST"]),
            Route("/v1/chat/completions", script.complete, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run([socket.socket(fileno=known.fd)])


if __name__ == "__main__":
    main()
