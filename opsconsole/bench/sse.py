"""Server-sent events from raw bytes: `data` payloads, as soon as their blank line has come.

Knows the wire form and nothing of what the events mean. Trap: a network read may end inside a line or inside a UTF-8
character; bytes are kept until the line is whole.
"""

from __future__ import annotations


class SseParser:
    """Feed bytes, get the payloads that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Payloads completed by this chunk, in order."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        done: list[str] = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line and self._data:
                done.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
        return done
