"""One streamed request, timed as a user would time it.

TTFT runs from the *intended* send to the first chunk with content, reasoning or a tool call (a role-only chunk is not a
token); TPOT is (last content - first content) / (n - 1) with n from `usage`, undefined under two tokens. A reply counts
as a success only with HTTP 200, an end (finish_reason or [DONE]), tokens, and no error event. Nothing is retried: a
retry hides a refusal. Trap: the usage chunk comes last and carries no choice; it must not move any time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp

from opsconsole.bench.sse import SseParser
from opsconsole.bench.workload import Ask
from opsconsole.clock import Clock


class Ending(StrEnum):
    """How a request ended, seen from its client."""

    OK = "ok"
    REFUSED = "refused"  # an HTTP status other than 200, or no connection: nothing was begun
    ERROR = "error"  # an error event, or an answer that is no answer
    CUT = "cut"  # a stream that had begun and ended without its end
    TIMEOUT = "timeout"  # not finished when the client stopped waiting


@dataclass(frozen=True, slots=True)
class Record:
    """What one request measured. Times are seconds; `intended` and `sent` count from the start of the run."""

    index: int
    intended: float
    sent: float
    ending: Ending
    status: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    gaps: tuple[float, ...] = ()  # between content chunks
    chunks: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    worker: str | None = None
    request_id: str | None = None
    slo_class: str | None = None

    @property
    def is_success(self) -> bool:
        return self.ending is Ending.OK

    @property
    def itl(self) -> float | None:
        """Mean gap per token: gaps between chunks, divided by the tokens a chunk carries."""
        if not self.gaps or not self.output_tokens or not self.chunks:
            return None
        return (sum(self.gaps) / len(self.gaps)) / (self.output_tokens / self.chunks)


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how to ask."""

    url: str  # up to and without /v1
    model: str | None = None
    chat: bool = False
    api_key: str | None = None
    slo_class: str | None = None
    ignore_eos: bool = True
    timeout: float = 300.0  # s, per request
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return self.url.rstrip("/") + ("/v1/chat/completions" if self.chat else "/v1/completions")

    def headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        if self.slo_class:
            headers["x-slo-class"] = self.slo_class
        return headers

    def body(self, ask: Ask) -> bytes:
        """The request as bytes, made before the run so that nothing is encoded on the clock."""
        body: dict[str, Any] = {
            "max_tokens": ask.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
        }
        if self.model:
            body["model"] = self.model
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.chat:
            body["messages"] = [{"role": "user", "content": ask.prompt}]
        else:
            body["prompt"] = ask.prompt if isinstance(ask.prompt, str) else list(ask.prompt)
        return json.dumps(body).encode()


@dataclass(slots=True)
class _Reading:
    """What a stream has shown so far."""

    first: float | None = None
    last: float | None = None
    gaps: list[float] = field(default_factory=list)
    chunks: int = 0
    finish_reason: str | None = None
    is_done: bool = False
    error: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)

    def take(self, payload: str, at: float) -> None:
        """One event, read at `at`."""
        if payload.strip() == "[DONE]":
            self.is_done = True
            return
        try:
            event = json.loads(payload)
        except ValueError:
            self.error = self.error or "an event that is not JSON"
            return
        if not isinstance(event, dict):
            return
        if event.get("error"):
            self.error = self.error or _sentence(event["error"])
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices") or ():
            if _has_content(choice):
                self._content(at)
            if choice.get("finish_reason"):
                self.finish_reason = choice["finish_reason"]
                self.last = at if self.last is None else self.last

    def _content(self, at: float) -> None:
        self.chunks += 1
        if self.first is None:
            self.first = at
        elif self.last is not None:
            self.gaps.append(at - self.last)
        self.last = at


def _has_content(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    parts = ("content", "reasoning", "reasoning_content", "tool_calls")
    return bool(choice.get("text")) or any(delta.get(part) for part in parts)


def _sentence(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return str(message)[:300]


async def ask_once(
    session: aiohttp.ClientSession,
    target: Target,
    body: bytes,
    *,
    index: int,
    start: float,
    intended: float,
    clock: Clock,
) -> Record:
    """Send one request now; `start` is the run's zero on the monotonic clock, `intended` its scheduled offset."""
    reading = _Reading()
    meta: dict[str, Any] = {"sent": clock.monotonic() - start}
    ending: Ending | None = None
    try:
        async with asyncio.timeout(target.timeout):
            async with session.post(target.endpoint, data=body, headers=target.headers()) as response:
                meta["status"] = response.status
                meta["worker"] = response.headers.get("x-opsconsole-worker")
                meta["request_id"] = response.headers.get("x-request-id")
                if response.status != 200:
                    ending, reading.error = Ending.REFUSED, await _refusal(response)
                else:
                    parser = SseParser()
                    async for chunk in response.content.iter_any():
                        at = clock.monotonic()
                        for payload in parser.feed(chunk):
                            reading.take(payload, at)
    except TimeoutError:
        ending, reading.error = Ending.TIMEOUT, f"not finished after {target.timeout:g} s"
    except (aiohttp.ClientError, ConnectionError) as error:
        ending = Ending.REFUSED if "status" not in meta else None
        reading.error = reading.error or f"{type(error).__name__}: {error}"
    except asyncio.CancelledError:
        ending, reading.error = Ending.TIMEOUT, "not finished when the run ended"
    return _record(reading, meta, ending, index, start, intended, target.slo_class)


async def _refusal(response: aiohttp.ClientResponse) -> str:
    raw = await response.read()
    try:
        return _sentence(json.loads(raw)["error"])
    except (ValueError, KeyError, TypeError):
        return raw.decode("utf-8", "replace")[:300] or f"HTTP {response.status}"


def _record(
    reading: _Reading,
    meta: Mapping[str, Any],
    ending: Ending | None,
    index: int,
    start: float,
    intended: float,
    slo_class: str | None,
) -> Record:
    tokens = reading.usage.get("completion_tokens")
    details = reading.usage.get("prompt_tokens_details") or {}
    first = reading.first if reading.first is not None else reading.last
    tpot = None
    if first is not None and reading.last is not None and tokens is not None and tokens >= 2:
        tpot = (reading.last - first) / (tokens - 1)
    zero = start + intended
    return Record(
        index=index,
        intended=intended,
        ending=ending or _ending(reading, tokens),
        ttft=None if first is None else first - zero,
        tpot=tpot,
        e2e=None if reading.last is None else reading.last - zero,
        gaps=tuple(reading.gaps),
        chunks=reading.chunks,
        prompt_tokens=reading.usage.get("prompt_tokens"),
        cached_tokens=details.get("cached_tokens"),
        output_tokens=tokens,
        finish_reason=reading.finish_reason,
        error=reading.error,
        slo_class=slo_class,
        **meta,
    )


def _ending(reading: _Reading, tokens: int | None) -> Ending:
    """A stream that had begun and has no end was cut, whatever else it said."""
    ended = reading.finish_reason is not None or reading.is_done
    if reading.error is not None or not ended:
        return Ending.CUT if reading.chunks and not ended else Ending.ERROR
    produced = reading.chunks if tokens is None else tokens
    return Ending.OK if produced > 0 else Ending.ERROR
