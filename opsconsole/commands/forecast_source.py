"""Reads a load history for `opsconsole forecast`: a trace's CSV, plain or gzip, or an agent's database.

It knows files and rows and nothing of forecasters. Traces come in two shapes: rows of a bin with a `requests` count,
and rows of one request each. Nothing at or after the moment asked for is read. The trap: a missing row is a gap in the
first shape and silence, a true zero, in the second.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opsconsole.errors import UsageError
from opsconsole.simulate.importers import check_row, opened

if TYPE_CHECKING:
    from forecaster.series import Series

Floats = NDArray[np.float64]

UNITS = {"requests": "requests/s", "prompt_tokens": "prompt tokens/s", "output_tokens": "output tokens/s"}
MOST_STEPS = 5_000_000


class History(NamedTuple):
    """A load history, its unit, and where it came from in words."""

    series: Series
    unit: str
    name: str
    clock: bool  # times are Unix seconds


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
    series = _database(path, column, pool, step, until, span) if is_database else _trace(path, column, step, until)
    if until is not None:
        series = series.before(until)
    if span is not None and len(series) * series.step > span:
        from forecaster.series import Series as Cut

        n = max(1, round(span / series.step))
        series = Cut(series.end - n * series.step, series.step, series.values[-n:], series.known[-n:])
    return History(series, UNITS[column], path.name, is_database)


def _trace(path: Path, column: str, step: float, until: float | None) -> Series:
    from forecaster.series import SeriesError, from_values

    times, values, counted, cut = _columns(path, column, until)
    if times.size == 0:
        where = "no rows" if until is None else f"no rows before {until:g} s"
        raise UsageError(f"{path} has {where}: a forecast needs at least 10 minutes of history.")
    if not counted:
        width = step
        slots = np.floor(times / width).astype(np.int64)
        # The last step is open: later requests of it may be missing from the file.
        n = int(until // width) if cut and until is not None else int(slots[-1])
        _bounded(path, n)
        sums = np.zeros(n)
        np.add.at(sums, slots[slots < n], values[slots < n])
        return from_values(sums / width, width)
    gaps = np.diff(times)
    width = float(np.median(gaps)) if gaps.size else step
    places = (times - times[0]) / width
    slots = np.round(places).astype(np.int64)
    odd = np.nonzero((np.abs(places - slots) > 0.01) | (np.diff(slots, prepend=-1) < 1))[0]
    if odd.size:
        raise UsageError(
            f"{path}, row {odd[0] + 1}: t_seconds {times[odd[0]]:g} is not on the file's own {width:g} s grid; "
            f"give equal bins."
        )
    _bounded(path, int(slots[-1]) + 1)
    rates = np.full(int(slots[-1]) + 1, np.nan)
    rates[slots] = values / width
    try:
        return from_values(rates, width, float(times[0]))
    except SeriesError as error:
        raise UsageError(f"{path}: {error}.") from error


def _bounded(path: Path, steps: int) -> None:
    if steps > MOST_STEPS:
        raise UsageError(f"{path} spans {steps} steps and at most {MOST_STEPS} are read: cut it, or give longer bins.")


def _columns(path: Path, column: str, until: float | None) -> tuple[Floats, Floats, bool, bool]:
    """Times, values of the column, whether rows are bins with counts (else single requests), and whether it was cut."""
    times: list[float] = []
    values: list[float] = []
    cut = False
    try:
        with opened(path) as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            if "t_seconds" not in header:
                raise UsageError(f"{path} has no column t_seconds (it has: {', '.join(header)[:120] or 'nothing'}).")
            counted = "requests" in header
            if column not in header and (counted or column != "requests"):
                have = [name for name in UNITS if name in header]
                raise UsageError(
                    f"{path} has no column {column}: give --unit {' or '.join(have) or 'of another file'}."
                )
            time_at = header.index("t_seconds")
            value_at = header.index(column) if column in header else None
            for time, value in _numbers(path, rows, (time_at, value_at), until, strict=counted):
                if value is None:
                    cut = True
                    break
                times.append(time)
                values.append(value)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}.") from error
    return np.array(times), np.array(values), counted, cut


def _numbers(
    path: Path, rows: Iterator[list[str]], places: tuple[int, int | None], until: float | None, *, strict: bool
) -> Iterator[tuple[float, float | None]]:
    """Time and value of each row; an empty value is NaN, a gap. Of the row that begins at `until` or after it only the
    time is looked at, and None stands for its value."""
    time_at, value_at = places
    before: float | None = None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            time = float(row[time_at])
            if until is not None and time >= until:
                yield time, None
                return
            value = 1.0 if value_at is None else float(row[value_at] or "nan")
        except (ValueError, IndexError):
            raise UsageError(f"{path}, row {number}: {','.join(row)[:80]!r} is not numbers; mend or drop it.") from None
        check_row(path, number, time, () if math.isnan(value) else (value,), before, strict=strict)
        before = time
        yield time, value


def _database(path: Path, column: str, pool: str, step: float, until: float | None, span: float | None) -> Series:
    from forecaster.series import from_values
    from opsconsole.control.warming import rate_of
    from opsconsole.history.reader import Reader

    reader = Reader(path)
    try:
        bounds = reader.bounds()
        if bounds is None:
            raise UsageError(f"{path} holds no snapshots yet: a forecast needs at least 10 minutes of history.")
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
