"""What an agent's stream carries beside its ticks, as events of text: the words that both ends of it share.

A stream that is asked `?with=alerts,journal` tells each topic as it stands before its first tick, and again before the
tick at which it changed; what of these it tells at all is its first event. It must not know connections. The traps: an
agent of an older version has heard of none of this, and what it does not tell has to be asked for; and of the journal
only what is new is told, as all of it would be megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opsconsole.domain.records import (
    AlertView,
    BudgetView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    HoldView,
    JournalEntry,
    PrefixView,
)

TOPICS: Mapping[str, Any] = {  # by name: of what kind each of its items is
    "alerts": AlertView,
    "journal": JournalEntry,
    "decisions": DecisionView,
    "forecasts": ForecastView,
    "holds": HoldView,
    "prefixes": PrefixView,
    "findings": Mapping,
    "budgets": BudgetView,
}
TOLD = "beside"  # the event that names the topics which the stream tells
JOURNAL_KEPT = 500  # entries that a new reader is told


@dataclass(frozen=True, slots=True)
class Turn:
    """One tick and what changed with it, by topic; `told` are the topics that this stream tells by itself."""

    snapshot: FleetSnapshot
    beside: Mapping[str, tuple[Any, ...]]
    told: frozenset[str] = frozenset()


def event(name: str, text: str) -> str:
    """One event of a stream; a tick has no name."""
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


class EventReader:
    """The events of a stream from its bytes, wherever these were cut. A tick may be megabytes, so it is copied once."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        """Name and text of each event that is whole by now."""
        begin, seen = 0, max(0, len(self._held) - 1)  # the end of an event may be cut in two
        held = self._held + data if self._held else data
        while (end := held.find(b"\n\n", seen)) >= 0:
            if (found := _parted(held, begin, end)) is not None:
                yield found
            begin = seen = end + 2
        self._held = held[begin:]


def _parted(held: bytes, begin: int, end: int) -> tuple[str, str] | None:
    """One event in its parts; None for what carries no data."""
    if held.startswith(b"data:", begin) and held.find(b"\n", begin, end) < 0:
        return "", str(memoryview(held)[begin + 5 : end], "utf-8").strip()
    name, text = b"", None
    for line in held[begin:end].split(b"\n"):
        if line.startswith(b"data:"):
            text = line[5:]
        elif line.startswith(b"event:"):
            name = line[6:]
    return None if text is None else (name.strip().decode(), text.strip().decode())
