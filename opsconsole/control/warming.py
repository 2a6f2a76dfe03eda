"""Forecasters that already know the history: read from the database and fed, as a job of the worker process.

A week of minutes costs some ten seconds of CPU, which no tick has. It reads and feeds and decides nothing. The trap:
a minute's row is the first tick of that minute, whose rates are means over the minute before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from forecaster.online import OnlineForecaster
from opsconsole.control.demand import SeriesOptions, fed
from opsconsole.domain.records import PoolView
from opsconsole.history.reader import Reader

MINUTE_S = 60.0
MOST_TICKS = 20_000
UNITS: Final[Mapping[str, str]] = {  # of an outlook: the field of PoolView
    "requests/s": "request_rate",
    "prompt tokens/s": "prompt_rate",
    "output tokens/s": "output_rate",
}


def rate_of(view: PoolView, unit: str) -> float | None:
    """What a pool demands now; unknown while a replica is silent, whose part would be missing from the sum."""
    found: float | None = getattr(view, UNITS[unit]) if view.covered else None
    return found


def warm(database: str, pool: str, options: SeriesOptions, since: float, until: float) -> dict[str, OnlineForecaster]:
    """By unit, a forecaster that has seen the history in [since, until); units with too little are left out."""
    with contextlib.closing(Reader(Path(database))) as reader:
        rows = list(_rows(reader, pool, options, since, until))
    made = {}
    for unit in UNITS:
        found = fed(options, [(slot, rate_of(view, unit)) for slot, view in rows], options.slot(until))
        if found is not None:
            made[unit] = found
    return made


def _rows(
    reader: Reader, pool: str, options: SeriesOptions, since: float, until: float
) -> Iterator[tuple[int, PoolView]]:
    by_minute = options.step_s >= MINUTE_S
    found = reader.totals(since, until) if by_minute else reader.range(since, until, pools_only=True, limit=MOST_TICKS)
    for snapshot in found:
        view = snapshot.pool(pool)
        if view is not None:
            yield options.slot(snapshot.at - MINUTE_S / 2 if by_minute else snapshot.at), view
