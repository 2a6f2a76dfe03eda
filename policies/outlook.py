"""Reading a forecast: demand at any lead and any quantile, between the points it was given at.

It must not forecast. The traps: a lead or level outside what was given is held at the edge, never extrapolated, for a
trend carried on beyond its horizon is how forecasts explode; and a value is of the step that ends at its lead, so who
reads it as of that instant buys for a burst one step late.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from policies.situation import Outlook


@dataclass(frozen=True, slots=True)
class Path:
    """One quantile of demand over the leads."""

    leads: tuple[float, ...]
    values: tuple[float, ...]
    step_s: float = 0.0  # each value is the mean of the step that ends at its lead

    def at(self, lead_s: float) -> float:
        return _between(self.leads, self.values, lead_s)

    def highest(self, first_s: float, last_s: float) -> float:
        """The largest value over a span of instants: at its ends and at every given lead inside.

        The span is taken to end a step later: what comes at its last instant is told at the lead after it.
        """
        last_s += self.step_s
        inside = self.values[bisect_right(self.leads, first_s) : bisect_left(self.leads, last_s)]
        return max(self.at(first_s), self.at(last_s), *inside)


def path(outlook: Outlook, level: float) -> Path | None:
    """The quantile `level` of a forecast; None for an empty or broken one."""
    if not is_sound(outlook):
        return None
    return Path(outlook.leads, _column(outlook.levels, outlook.quantiles, level), outlook.step_s)


def at(outlook: Outlook, lead_s: float, level: float) -> float | None:
    """One value; None for an empty or broken forecast."""
    found = path(outlook, level)
    return None if found is None else found.at(lead_s)


def is_sound(outlook: Outlook) -> bool:
    """Whether it can be used at all: shapes fit, leads and levels ascend, no value is negative or not a number."""
    return (
        bool(outlook.leads)
        and len(outlook.quantiles) == len(outlook.leads)
        and _ascends(outlook.leads)
        and _is_table(outlook.levels, outlook.quantiles)
    )


Table = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=64)  # a forecast is read at every tick and made anew once a minute
def _is_table(levels: tuple[float, ...], rows: Table) -> bool:
    width = len(levels)
    return (
        width > 0
        and all(len(row) == width and min(row) >= 0.0 and math.isfinite(sum(row)) for row in rows)
        and _ascends(levels)
    )


@lru_cache(maxsize=256)
def _column(levels: tuple[float, ...], rows: Table, level: float) -> tuple[float, ...]:
    return tuple([_between(levels, row, level) for row in rows])


def _ascends(values: Sequence[float]) -> bool:
    return all(map(operator.lt, values, values[1:]))


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear between points, held at the edges."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    right = bisect_left(xs, x)
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + share * (ys[right] - ys[right - 1])
