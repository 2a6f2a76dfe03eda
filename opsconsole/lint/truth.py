"""Replays a log through an OpenAI-compatible engine and compares its cached tokens with the prediction.

Talks HTTP; knows nothing of the engine's inside. The trap: requests go one after another, under a salt of their own, or
what the engine cached before would count as ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opsconsole.errors import UsageError
from opsconsole.lint.logcheck import LogAnalysis
from opsconsole.lint.request import Request
from opsconsole.lint.tokens import chat_messages

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Replayed:
    """One request: prompt tokens and cached tokens, as predicted and as the engine said."""

    line: int
    prompt: int
    predicted: int
    engine_prompt: int
    engine_cached: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well prediction and engine agree over a log."""

    requests: tuple[Replayed, ...]

    @property
    def predicted_rate(self) -> float:
        return sum(r.predicted for r in self.requests) / max(1, sum(r.prompt for r in self.requests))

    @property
    def engine_rate(self) -> float:
        return sum(r.engine_cached for r in self.requests) / max(1, sum(r.engine_prompt for r in self.requests))

    @property
    def points(self) -> float:
        """Absolute difference in percentage points."""
        return abs(self.predicted_rate - self.engine_rate) * 100


def body_of(request: Request, model: str, salt: str) -> tuple[str, dict[str, Any]]:
    """The endpoint and body that send a request's prompt and ask for one token."""
    common: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0, "cache_salt": salt}
    if request.format in ("openai-completions", "vllm-log"):
        return "/v1/completions", {**common, "prompt": "".join(part.text for part in request.parts)}
    if request.tokens is not None:
        return "/v1/completions", {**common, "prompt": list(request.tokens)}
    return "/v1/chat/completions", {**common, "messages": chat_messages(request)}


def replay(analysis: LogAnalysis, requests: list[Request], url: str, salt: str, api_key: str = "") -> Agreement:
    """Send each request in order and compare."""
    import httpx

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=300.0) as client:
            return _replayed(client, analysis, requests, url, salt)
    except httpx.HTTPError as error:
        raise UsageError(f"{url}: no answer ({error}); --replay needs a running OpenAI-compatible engine.") from error


def _replayed(client: httpx.Client, analysis: LogAnalysis, requests: list[Request], url: str, salt: str) -> Agreement:
    made: list[Replayed] = []
    models = client.get("/v1/models")
    if models.status_code != 200:
        raise UsageError(f"{url}/v1/models answered {models.status_code}; give the URL of an OpenAI-compatible engine.")
    model = str(models.json()["data"][0]["id"])
    for request in requests:
        analysis.feed(request)
        row = analysis.rows[-1]
        path, body = body_of(request, model, salt)
        answer = client.post(path, json=body)
        if answer.status_code != 200:
            raise UsageError(f"line {request.line}: {path} answered {answer.status_code}: {answer.text[:300]}")
        usage = answer.json()["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        made.append(Replayed(request.line, row.total, row.reused, int(usage["prompt_tokens"]), int(cached)))
    return Agreement(tuple(made))
