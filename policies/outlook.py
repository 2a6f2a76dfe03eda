"""Reading a forecast: demand at any lead and any quantile, between the points it was given at.

It must not forecast. The trap: a lead or level outside what was given is held at the edge, never extrapolated; a trend
carried on beyond its horizon is how forecasts explode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from policies.situation import Outlook


def at(outlook: Outlook, lead_s: float, level: float) -> float | None:
    """The quantile `level` of demand `lead_s` from now; None for an empty or broken forecast."""
    if not is_sound(outlook):
        return None
    column = [_between(outlook.levels, row, level) for row in outlook.quantiles]
    return _between(outlook.leads, column, lead_s)


def highest(outlook: Outlook, first_s: float, last_s: float, level: float) -> float | None:
    """The largest value of the quantile over a span of leads: its ends and every given lead inside."""
    if not is_sound(outlook):
        return None
    leads = [first_s, *(lead for lead in outlook.leads if first_s < lead < last_s), last_s]
    values = [value for lead in leads if (value := at(outlook, lead, level)) is not None]
    return max(values)


def is_sound(outlook: Outlook) -> bool:
    """Whether it can be used at all: shapes fit, leads and levels ascend, no value is negative or not a number."""
    return (
        bool(outlook.leads)
        and bool(outlook.levels)
        and len(outlook.quantiles) == len(outlook.leads)
        and all(len(row) == len(outlook.levels) for row in outlook.quantiles)
        and all(0.0 <= value < float("inf") for row in outlook.quantiles for value in row)
        and _ascends(outlook.leads)
        and _ascends(outlook.levels)
    )


def _ascends(values: Sequence[float]) -> bool:
    return all(values[i] < values[i + 1] for i in range(len(values) - 1))


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear between points, held at the edges."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    right = bisect_left(xs, x)
    share = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + share * (ys[right] - ys[right - 1])
