"""Anthropic Messages bodies: tools, then system, then messages; breakpoints are `cache_control` marks.

Knows nothing of files. The trap: `system` is a top-level field, a string or a list of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.lint.formats.openai import add_content, add_messages, add_tools
from opsconsole.lint.request import Mark, Part, Request, as_mapping, dump


def looks_like(body: Mapping[str, Any]) -> bool:
    """Whether a body with `messages` is Anthropic's."""
    if "system" in body or "anthropic_version" in body:
        return True
    tools = body.get("tools")
    if isinstance(tools, list) and tools and "input_schema" in as_mapping(tools[0]):
        return True
    messages = body.get("messages")
    contents = [as_mapping(message).get("content") for message in (messages if isinstance(messages, list) else [])]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return any(as_mapping(block).get("type") in ("tool_use", "tool_result", "thinking") for block in blocks)


def read(body: Mapping[str, Any]) -> Request:
    """Parts of a Messages body."""
    parts: list[Part] = []
    marks: list[Mark] = []
    add_tools(parts, marks, body.get("tools"))
    system = body.get("system")
    if isinstance(system, list):
        for at, block in enumerate(system):
            for ttl in add_content(parts, [block], "system", "system", "system", -1):
                marks.append(Mark(len(parts) - 1, ttl))
            parts[-1] = parts[-1]._replace(path=f"system[{at}]" + (".text" if parts[-1].path.endswith(".text") else ""))
    else:
        add_content(parts, system, "system", "system", "system", -1)
    add_messages(parts, marks, body.get("messages", []), "messages")
    request = Request("", 0, parts, "anthropic", marks=marks)
    request.options = {key: dump(body[key]) for key in ("tool_choice", "thinking") if key in body}
    return request
