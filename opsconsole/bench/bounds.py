"""The bounds a request must meet, and how a person writes them: `ttft=1s,tpot=80ms,target=95%`.

Knows durations and shares, nothing of measuring. Trap: a bound without a unit is refused, because `tpot=80` has been
read as seconds and as milliseconds by different tools.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from opsconsole.errors import UsageError

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)$")
_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds in seconds; None means not asked for. `target` is the share of offered that must meet all."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    max_gap: float | None = None
    target: float = 0.95

    def __str__(self) -> str:
        parts = [f"{name}={format_duration(value)}" for name, value in self.limits().items()]
        return ",".join([*parts, f"target={self.target * 100:g}%"])

    def limits(self) -> dict[str, float]:
        """The bounds that were asked for, by name."""
        asked = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "target")
        return {name: value for name, value in asked if value is not None}


def parse_duration(text: str) -> float:
    """Seconds of `80ms`, `1s`, `2m`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a duration; write a number and a unit, like 80ms, 1.5s or 2m")
    return float(match[1]) * _UNIT[match[2]]


def parse_share(text: str) -> float:
    """A fraction of `95%` or `0.95`."""
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise UsageError(f"'{text}' is not a share; write 95% or 0.95")
    return share


def parse_bounds(text: str) -> Bounds:
    """Bounds from `ttft=1s,tpot=80ms,target=95%`."""
    known = {field.name for field in fields(Bounds)}
    values: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or name not in known:
            raise UsageError(f"'{part}' is not a bound; known are {', '.join(sorted(known))}, as in ttft=1s,target=95%")
        values[name] = parse_share(value) if name == "target" else parse_duration(value)
    if not set(values) - {"target"}:
        raise UsageError(f"'{text}' bounds nothing; name ttft or tpot, as in ttft=1s,tpot=80ms,target=95%")
    return Bounds(**values)


def format_duration(seconds: float) -> str:
    """The shortest spelling that `parse_duration` reads back."""
    return f"{seconds * 1000:g}ms" if seconds < 1 else f"{seconds:g}s"
