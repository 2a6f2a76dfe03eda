"""The highest rate a server passes: doubling up, then halving the gap, each step with a fresh seed.

Knows rates and verdicts, not servers. Trap: one run near the knee is the luck of its arrivals; the rate found here is a
place to look, and the verdict comes from pooled runs at it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

Passes = Callable[[float], Awaitable[bool]]


class Bracket(NamedTuple):
    """The highest rate that passed and the lowest that failed; None where none did."""

    passed: float | None
    failed: float | None


async def find_knee(passes: Passes, start: float, *, steps: int = 6, least: float = 0.05) -> Bracket:
    """At most `steps` runs. Failing rates above a passing one are believed; so are passing ones below."""
    passed: float | None = None
    failed: float | None = None
    rate = start
    for _ in range(steps):
        if await passes(rate):
            passed = rate
        else:
            failed = rate
        if passed is None:
            rate = rate / 2
            if rate < least:
                break
        elif failed is None:
            rate = passed * 1.5
        else:
            if failed / passed < 1.08:
                break
            rate = (passed * failed) ** 0.5
    return Bracket(passed, failed)
