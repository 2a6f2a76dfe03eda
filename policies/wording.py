"""Numbers in sentences: short, with their unit, the same everywhere a rule explains itself."""

from __future__ import annotations


def number(value: float | None) -> str:
    """Three significant digits at most, unknown as the word."""
    if value is None:
        return "unknown"
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    return f"{number(value)} s"


def percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value * 100:.0f} %"


def fine_percent(value: float) -> str:
    """Three digits, for shares near 100 %."""
    return f"{value * 100:.3g} %"


def replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
