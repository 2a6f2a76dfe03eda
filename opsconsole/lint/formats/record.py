"""One decoded JSON record to one request, whatever wraps the body.

Knows the wrappers (batch files, gateway exports) and asks the format modules for the rest. The trap: usage may stand in
the response while the prompt stands in the request; both are of the same record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from opsconsole.lint.formats import anthropic, bedrock, openai
from opsconsole.lint.request import Request, Unreadable, as_mapping

_WRAPPERS = ("body", "request", "request_body", "kwargs", "modelInput", "input", "payload", "data")
_PROMPT_KEYS = ("messages", "prompt", "input", "instructions", "contents", "prompt_token_ids", "token_ids", "input_ids")
_TIMES = ("timestamp", "time", "created", "created_at", "ts", "arrival_time", "startTime", "start_time")
_SESSIONS = ("session_id", "sessionId", "conversation_id", "thread_id", "conversationId")


def _is_body(value: Mapping[str, Any]) -> bool:
    return any(key in value for key in _PROMPT_KEYS)


def find_body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request body in a record: the record itself, or what a known wrapper holds."""
    if "messages" in record or "prompt" in record:
        return record
    for key in _WRAPPERS:
        inner = record.get(key)
        if isinstance(inner, dict) and _is_body(inner):
            return inner
        if key in ("body", "request") and isinstance(inner, dict) and isinstance(inner.get("body"), dict):
            return as_mapping(inner["body"])
    if isinstance(record.get("input"), list) and "model" not in record and "traceId" in record:
        return {"messages": record["input"]}
    return record


def read(record: Any) -> Request:
    """The request of a record; raises Unreadable with the reason."""
    if isinstance(record, list) and record and all(type(item) is int for item in record):
        return Request("", 0, [], "token-ids", tokens=tuple(record))
    if not isinstance(record, dict):
        raise Unreadable("the record is not a JSON object")
    body = find_body(record)
    for key in ("prompt_token_ids", "token_ids", "input_ids"):
        ids = body.get(key)
        if isinstance(ids, list) and ids and all(type(item) is int for item in ids) and "messages" not in body:
            return _around(Request("", 0, [], "token-ids", tokens=tuple(ids)), record, body)
    if bedrock.looks_like(body):
        request = bedrock.read(body)
    elif "messages" in body and anthropic.looks_like(body):
        request = anthropic.read(body)
    else:
        request = openai.read(body)
    if not request.parts and request.tokens is None:
        raise Unreadable("the record has an empty prompt")
    return _around(request, record, body)


def _around(request: Request, record: Mapping[str, Any], body: Mapping[str, Any]) -> Request:
    request.model = str(body.get("model") or record.get("model") or record.get("modelId") or "")
    salt = body.get("cache_salt")
    request.salt = salt if isinstance(salt, str) else None
    for source in (record, as_mapping(record.get("metadata")), as_mapping(body.get("metadata"))):
        for key in _SESSIONS:
            if request.session is None and isinstance(source.get(key), str):
                request.session = source[key]
    for key in _TIMES:
        if key in record:
            request.at = _time(record[key])
            break
    response = as_mapping(record.get("response"))
    usage = as_mapping(record.get("usage") or response.get("usage") or as_mapping(response.get("body")).get("usage"))
    details = as_mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    cached = details.get("cached_tokens", usage.get("cache_read_input_tokens"))
    request.cached = cached if type(cached) is int else None
    return request


def _time(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) / (1000.0 if value > 1e11 else 1.0)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
