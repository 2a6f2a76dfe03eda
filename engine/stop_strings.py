"""Stop strings over streamed text: what may be sent now, and whether a stop has matched.

It must not know tokens or requests. The trap: a stop string may arrive in pieces, so the end of the text that could
still become one is held back, and never more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Scan(NamedTuple):
    """Text that is safe to send, and the stop string that ended it."""

    text: str
    stop: str | None


class StopScanner:
    """Looks for stop strings in text that arrives in pieces. The match itself is not part of the text."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, piece: str) -> Scan:
        if not self._stops:
            return Scan(piece, None)
        text = self._held + piece
        found = [(position, stop) for stop in self._stops if (position := text.find(stop)) >= 0]
        if found:
            # The one complete first, so that the answer does not depend on how the text was cut into pieces.
            position, stop = min(found, key=lambda match: (match[0] + len(match[1]), match[0]))
            self._held = ""
            return Scan(text[:position], stop)
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return Scan(text[: len(text) - held], None)

    def finish(self) -> str:
        """What was held back and never became a stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a beginning of `stop`, the whole excepted."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
