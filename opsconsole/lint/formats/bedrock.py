"""Bedrock Converse bodies: toolConfig, system, messages; breakpoints are `cachePoint` blocks.

Knows nothing of files. The trap: a cachePoint is a block of its own and is no text of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.lint.request import Mark, Part, Request, Unreadable, as_mapping, dump


def looks_like(body: Mapping[str, Any]) -> bool:
    """Whether a body is Converse's: `toolConfig`, `inferenceConfig`, or blocks without a type."""
    if "toolConfig" in body or "inferenceConfig" in body or "modelId" in body:
        return "messages" in body
    system = body.get("system")
    return isinstance(system, list) and bool(system) and isinstance(system[0], dict) and "type" not in system[0]


def _blocks(parts: list[Part], marks: list[Mark], value: Any, path: str, kind: str, role: str, index: int) -> None:
    for at, block in enumerate(value if isinstance(value, list) else []):
        fields = as_mapping(block)
        if "cachePoint" in fields:
            marks.append(Mark(len(parts) - 1, str(as_mapping(fields["cachePoint"]).get("ttl", "5m"))))
        elif isinstance(fields.get("text"), str):
            parts.append(Part(f"{path}[{at}].text", kind, role, fields["text"], index))
        else:
            parts.append(Part(f"{path}[{at}]", kind, role, dump(block), index))


def read(body: Mapping[str, Any]) -> Request:
    """Parts of a Converse body."""
    parts: list[Part] = []
    marks: list[Mark] = []
    _blocks(parts, marks, as_mapping(body.get("toolConfig")).get("tools"), "toolConfig.tools", "tool", "tool", -1)
    _blocks(parts, marks, body.get("system"), "system", "system", "system", -1)
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Unreadable("messages is not a list of messages")
    for index, message in enumerate(messages):
        fields = as_mapping(message)
        role = str(fields.get("role", "user"))
        _blocks(parts, marks, fields.get("content"), f"messages[{index}].content", "message", role, index)
    return Request("", 0, parts, "bedrock", marks=marks)
