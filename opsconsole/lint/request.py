"""A request of a log as the linter sees it: ordered parts of prompt text, and the fields around them.

Only what enters the prompt is a part; `metadata`, `user`, seeds and ids are not, so they can never be reported. The
trap: a part's `text` is the value itself for strings and `json.dumps` with default separators for objects; positions
are code points in that text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Part(NamedTuple):
    """One value of the prompt, in the order the model reads it."""

    path: str
    kind: str  # tool | system | message | option | token
    role: str
    text: str
    message: int  # index of the message it belongs to; -1 for tools and top-level system


class Mark(NamedTuple):
    """A cache breakpoint: after which part it stands, and its lifetime."""

    after_part: int
    ttl: str


@dataclass(slots=True)
class Request:
    """One readable record of a log."""

    file: str
    line: int
    parts: list[Part]
    format: str = "openai"
    model: str = ""
    options: dict[str, str] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    cache_key: str | None = None
    salt: str | None = None
    session: str | None = None
    at: float | None = None
    cached: int | None = None
    truncated: bool = False
    tokens: tuple[int, ...] | None = None
    tokens_path: str = "prompt_token_ids"
    index: int = 0
    offset: int = 0
    length: int = 0


class Unreadable(ValueError):
    """A record that holds no prompt; the message says what is wrong with it."""


def dump(value: Any) -> str:
    """The text of an object, the way positions in it are counted."""
    return json.dumps(value)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
