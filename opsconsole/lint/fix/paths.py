"""Reads and writes a value of a request body by the path that findings use.

Knows no rules. The trap: `.text` behind a block of a list is part of the path; a
missing step is None.
"""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")


def steps(path: str) -> list[str | int]:
    """The keys and positions of a path."""
    return [name or int(index) for name, index in _STEP.findall(path)]


def get(body: Any, path: str) -> Any:
    """The value at a path, or None."""
    for step in steps(path):
        if isinstance(step, int):
            body = body[step] if isinstance(body, list) and step < len(body) else None
        else:
            body = body.get(step) if isinstance(body, dict) else None
    return body


def put(body: Any, path: str, value: Any) -> None:
    """Set the value at a path that exists."""
    *front, last = steps(path)
    for step in front:
        body = body[step]
    body[last] = value


def newest_user(body: dict[str, Any]) -> str | None:
    """The path of the text of the newest user turn, or None."""
    for key in ("messages", "input"):
        messages = body.get(key)
        if isinstance(messages, str):
            return key
        if not isinstance(messages, list):
            continue
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if not isinstance(message, dict) or message.get("role", "user") != "user":
                continue
            content = message.get("content")
            if isinstance(content, str):
                return f"{key}[{index}].content"
            if not isinstance(content, list):
                continue
            for at in range(len(content) - 1, -1, -1):
                if isinstance(content[at], dict) and isinstance(content[at].get("text"), str):
                    return f"{key}[{index}].content[{at}].text"
    return None
