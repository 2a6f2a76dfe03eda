"""Redacts captured traffic so that it can be linted and not read: words become other words of the same shape.

For whoever captures (off unless asked for). The trap: equal words must stay equal within one capture and differ between
captures, so the key is made anew for each and kept nowhere; digits stay, since times and counters are told by them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_WORD = re.compile(r"[^\W\d_]{2,}")  # single letters stay: the T and Z of times
_KEEP = {"model"}
_ROLES = {"system", "user", "assistant", "tool", "developer", "function"}
_PARTS = {"text", "input_text", "output_text", "image_url", "input_audio", "tool_use", "tool_result", "ephemeral"}
_ITEMS = {
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
}
_SCHEMA = {"object", "string", "number", "integer", "boolean", "array", "null"}
_FIXED = _ROLES | _PARTS | _ITEMS | _SCHEMA  # a value that is one of these says nothing
_NAMED = {"properties", "$defs", "definitions", "arguments"}  # whose keys somebody chose


class Redactor:
    """Turns request bodies into ones that diverge at the same places and say nothing."""

    def __init__(self, key: bytes) -> None:
        @lru_cache(maxsize=100_000)
        def word(text: str) -> str:
            digest = hashlib.blake2b(text.lower().encode(), key=key[:64], digest_size=32).digest()
            made = "".join(chr(97 + digest[at % 32] % 26) for at in range(len(text)))
            return made.upper() if text.isupper() else made.capitalize() if text[:1].isupper() else made

        self._word = word

    def text(self, value: str) -> str:
        """A text with every word replaced."""
        return _WORD.sub(lambda match: self._word(match[0]), value)

    def body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request body that keeps only what enters the prompt, redacted."""
        names = ("model", "messages", "prompt", "tools", "system", "input", "instructions")
        return {key: self._value(body[key], key) for key in names if key in body}

    def line(self, body: Mapping[str, Any]) -> str:
        """One line of a capture file."""
        return json.dumps(self.body(body), ensure_ascii=False) + "\n"

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return value if key in _KEEP or value in _FIXED else self.text(value)
        if isinstance(value, dict):
            chosen = key in _NAMED
            return {self.text(name) if chosen else name: self._value(item, name) for name, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list) else value
