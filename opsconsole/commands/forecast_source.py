"""Reads a load history for `opsconsole forecast`: a trace's CSV, plain or gzip, or an agent's database.

It knows files and rows and nothing of forecasters. Traces come in three shapes: rows of a bin with a `requests` count,
rows of a bin with clients' rates, and rows of one request each. Nothing at or after the moment asked for is read. The
traps: a missing row is a gap in the first two shapes and silence, a true zero, in the third; and a file may begin at
any second, so times count from its first row unless they are a clock's.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opsconsole.errors import UsageError
from opsconsole.simulate.importers import UNREADABLE, bounded, check_row, client_columns, on_grid, opened

if TYPE_CHECKING:
    from forecaster.series import Series

Floats = NDArray[np.float64]

UNITS = {"requests": "requests/s", "prompt_tokens": "prompt tokens/s", "output_tokens": "output tokens/s"}


class Shape(Enum):
    """What a row of a trace is."""

    BINS = "counts of a bin"
    RATES = "rates a second of a bin"
    SINGLE = "one request"


class Rows(NamedTuple):
    """A trace's rows, as they stand in the file."""

    times: Floats
    values: Floats
    shape: Shape
    cut: bool  # the file goes on
    first: float  # of its times, whether or not that row was read


class History(NamedTuple):
    """A load history, its unit, and where it came from in words."""

    series: Series
    unit: str
    name: str
    clock: bool  # times are Unix seconds
    reach: float = math.inf  # s; where the source ends, if it does before the moment asked for


def read_history(
    source: str,
    column: str,
    *,
    pool: str = "",
    step: float = 60.0,
    until: float | None = None,
    span: float | None = None,
) -> History:
    """The history in `source`, up to `until`, the last `span` seconds of it, in steps no finer than needed."""
    if column not in UNITS:
        raise UsageError(f"--unit {column} is unknown: give {', '.join(UNITS)}.")
    path = Path(source)
    if path.is_dir():
        path = path / "opsconsole.db"
    if not path.is_file():
        raise UsageError(f"{path} does not exist: give a trace's CSV (or .csv.gz) or an agent's opsconsole.db.")
    with path.open("rb") as head:
        is_database = head.read(15) == b"SQLite format 3"
    if pool and not is_database:
        raise UsageError(f"{path} is a trace of one load: --pool is for an agent's database.")
    clock, reach = True, math.inf
    if is_database:
        series = _database(path, column, pool, step, until, span)
    else:
        series, clock, reach = _trace(path, column, step, until)
    if until is not None:
        series = series.before(until)
    if span is not None and len(series) * series.step > span:
        from forecaster.series import Series as Cut

        n = max(1, round(span / series.step))
        series = Cut(series.end - n * series.step, series.step, series.values[-n:], series.known[-n:])
    return History(series, UNITS[column], path.name, clock, reach)


def _trace(path: Path, column: str, step: float, until: float | None) -> tuple[Series, bool, float]:
    """The series, whether its times are Unix seconds, and how far it reaches."""
    from forecaster.series import SeriesError, from_values

    rows = _columns(path, column, until)
    clock = _is_unix(rows.first)
    start = rows.first if clock else 0.0
    if rows.times.size == 0:
        where = "no rows" if until is None else f"no rows before {until:.10g} s (it begins at {start:.10g} s)"
        raise UsageError(f"{path} has {where}: a forecast needs at least 10 minutes of history.")
    if rows.shape is Shape.SINGLE:
        width = step
        rates, end = _counted(path, rows, width, None if until is None else until - start)
    else:
        gaps = np.diff(rows.times)
        width = float(np.median(gaps)) if gaps.size else step
        slots = on_grid(path, rows.times, width)
        rates = np.full(int(slots[-1]) + 1, np.nan)
        rates[slots] = rows.values / (width if rows.shape is Shape.BINS else 1.0)
        end = rates.size * width
    try:
        return from_values(rates, width, start), clock, math.inf if rows.cut else start + end
    except SeriesError as error:
        raise UsageError(f"{path}: {error}.") from error


def _counted(path: Path, rows: Rows, width: float, until: float | None) -> tuple[Floats, float]:
    """Rates in steps from the first request on, and the end of the last one's step."""
    times = rows.times - rows.first
    # The last step is open: later requests of it may be missing from the file.
    last = until if rows.cut and until is not None else times[-1]
    bounded(path, last / width + 1, width)
    slots = np.floor(times / width).astype(np.int64)
    n = int(last // width)
    sums = np.zeros(n)
    np.add.at(sums, slots[slots < n], rows.values[slots < n])
    return sums / width, (int(slots[-1]) + 1) * width


def _is_unix(first: float) -> bool:
    """No trace counts thirty years from its own start, and no clock of today shows a year of five digits."""
    return 1e9 <= first < 1e11


def _columns(path: Path, column: str, until: float | None) -> Rows:
    times: list[float] = []
    values: list[float] = []
    cut, first = False, math.nan
    try:
        with opened(path) as file:
            rows = csv.reader(file)
            shape, time_at, values_at = _layout(path, [name.strip() for name in next(rows, [])], column)
            for time, value in _numbers(path, rows, (time_at, values_at), until, strict=shape is not Shape.SINGLE):
                first = time if math.isnan(first) else first
                if value is None:
                    cut = True
                    break
                times.append(time)
                values.append(value)
    except UNREADABLE as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}.") from error
    return Rows(np.array(times), np.array(values), shape, cut, first)


def _layout(path: Path, header: list[str], column: str) -> tuple[Shape, int, list[int]]:
    """What a row is, the place of its time, and the places of what adds up to its value: none where it counts one."""
    if "t_seconds" not in header:
        raise UsageError(f"{path} has no column t_seconds (it has: {', '.join(header)[:120] or 'nothing'}).")
    time_at = header.index("t_seconds")
    clients = client_columns(path, header)
    if clients and column == "requests":
        return Shape.RATES, time_at, clients
    counted = "requests" in header
    if clients or (column not in header and (counted or column != "requests")):
        have = ["requests"] if clients else [name for name in UNITS if name in header]
        raise UsageError(f"{path} has no column {column}: give --unit {' or '.join(have) or 'of another file'}.")
    return Shape.BINS if counted else Shape.SINGLE, time_at, [header.index(column)] if column in header else []


def _numbers(
    path: Path, rows: Iterator[list[str]], places: tuple[int, Sequence[int]], until: float | None, *, strict: bool
) -> Iterator[tuple[float, float | None]]:
    """Time and value of each row; nothing but empty values is NaN, a gap. Of the row that begins at `until` or after it
    only the time is looked at, and None stands for its value."""
    time_at, values_at = places
    before: float | None = None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            time = float(row[time_at])
            if until is not None and before is None and not _is_unix(time):
                until += time  # it counts from the file's own start
            if until is not None and time >= until:
                yield time, None
                return
            cells = [float(row[i] or "nan") for i in values_at]
        except (ValueError, IndexError):
            raise UsageError(f"{path}, row {number}: {','.join(row)[:80]!r} is not numbers; mend or drop it.") from None
        known = [cell for cell in cells if not math.isnan(cell)]
        check_row(path, number, time, known, before, strict=strict)
        before = time
        yield time, math.nan if cells and not known else sum(known) if cells else 1.0


def _database(path: Path, column: str, pool: str, step: float, until: float | None, span: float | None) -> Series:
    from forecaster.series import from_values
    from opsconsole.commands.moments import shown
    from opsconsole.control.warming import rate_of
    from opsconsole.history.reader import Reader

    reader = Reader(path)
    try:
        bounds = reader.bounds()
        if bounds is None:
            raise UsageError(f"{path} holds no snapshots yet: a forecast needs at least 10 minutes of history.")
        if until is not None and until > bounds.last + step:
            raise UsageError(f"{path} ends at {shown(bounds.last)}: give an --at up to then.")
        last = bounds.last if until is None else min(until, bounds.last)
        first = max(bounds.first, last - (span or 7 * 86400.0))
        n = int((last - first) // step)
        snapshots = reader.range(first, last, step=step, pools_only=True, limit=n + 2)
    finally:
        reader.close()
    names = sorted({view.pool for snapshot in snapshots for view in snapshot.pools})
    if not pool and len(names) > 1:
        raise UsageError(f"{path} holds the pools {', '.join(names)}: name one by --pool.")
    if pool and pool not in names:
        raise UsageError(f"{path} has no pool {pool}: it holds {', '.join(names) or 'none'}.")
    rates = np.full(max(n, 0), np.nan)
    for snapshot in snapshots:
        slot = int((snapshot.at - first) // step)
        for view in snapshot.pools:
            rate = rate_of(view, UNITS[column])
            if view.pool == (pool or names[0]) and rate is not None and 0 <= slot < n:
                rates[slot] = max(0.0, rate)
    return from_values(rates, step, first)
