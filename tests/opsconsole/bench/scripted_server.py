"""A server that says exactly what a test tells it to, byte by byte and moment by moment, on a real loopback socket.

Raw asyncio, no HTTP library, so that a stream can be cut anywhere. Trap: pauses are real time; keep them short.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Step = float | bytes | None  # a pause in seconds, bytes to send, or None: cut the connection here


def event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def text(content: str, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": content, "finish_reason": finish}]})


def delta(content: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 5, cached: int | None = None) -> bytes:
    body: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": tokens}
    if cached is not None:
        body["prompt_tokens_details"] = {"cached_tokens": cached}
    return event({"choices": [], "usage": body})


DONE = b"data: [DONE]\n\n"


@dataclass
class Scripted:
    """What was asked, and where to ask."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    now_open: int = 0
    most_open: int = 0


Script = Callable[[int], tuple[int, Sequence[Step]]]  # index of the request -> status and steps


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Scripted]:
    """A server for the time of the block."""
    state = Scripted("")
    count = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.decode().split("\r\n") if line.lower().startswith("content-length:")),
                0,
            )
            state.bodies.append(json.loads(await reader.readexactly(length)))
            state.arrived.append(asyncio.get_running_loop().time())
            index, count = count, count + 1
            state.now_open += 1
            state.most_open = max(state.most_open, state.now_open)
            await _play(writer, *script(index))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            state.now_open -= 1
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2048)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
        await server.wait_closed()


async def _play(writer: asyncio.StreamWriter, status: int, steps: Sequence[Step]) -> None:
    kind = "text/event-stream" if status == 200 else "application/json"
    head = (
        f"HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\nx-request-id: r1\r\n\r\n"
    )
    writer.write(head.encode())
    for step in steps:
        if step is None:
            writer.transport.abort()
            return
        if isinstance(step, float):
            await writer.drain()
            await asyncio.sleep(step)
        else:
            writer.write(f"{len(step):x}\r\n".encode() + step + b"\r\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()
