"""Times and durations as people type them: `-5m`, `14:03`, `2026-11-30T14:03:10Z`, Unix seconds.

The caller says what time it is. The trap: a time of day is this machine's zone and the latest such moment that has
passed, so `23:50` asked at 00:10 is last night.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from opsconsole.config import seconds
from opsconsole.errors import UsageError

_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def moment(text: str, now: float) -> float:
    """Unix seconds."""
    word = text.strip()
    try:
        if word.startswith("-") or word.endswith("ago"):
            return now - duration(word.removesuffix("ago").strip().lstrip("-"))
        if re.fullmatch(r"\d+(\.\d+)?", word):
            return float(word)
        found = _OF_DAY.fullmatch(word)
        if found:
            day = datetime.fromtimestamp(now).replace(
                hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0), microsecond=0
            )
            return (day if day.timestamp() <= now else day - timedelta(days=1)).timestamp()
        return datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is no time: give -5m, 14:03, 2026-11-30T14:03:10Z or Unix seconds.") from None


def duration(text: str) -> float:
    """Seconds of `90s`, `5m`, `2h`."""
    try:
        found = seconds(text)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    assert isinstance(found, float)
    return found


def shown(at: float) -> str:
    """A moment for people, in this machine's zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
