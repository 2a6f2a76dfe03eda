"""ServeGen's layout: a directory of clients, each with ten-minute rates and burstiness and six-hourly token lengths.

What comes out is re-created (RECON): rates and lengths are as published, the arrivals inside a window are drawn with
the published coefficient of variation. The trap: a client's counts over a bin vary by cv squared times their mean, as
those of a renewal process do, and Poisson counts would be too calm.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from pathlib import Path

import numpy as np

from opsconsole.errors import UsageError
from opsconsole.simulate.traces import BIN_S, Floats, Kind, Trace

MOST = 1e9  # of seconds, requests/s, coefficients of variation, tokens and weights
MOST_BINS = 5_000_000  # of any load
MOST_COUNT = 1e15  # of a bin of any load


def read_servegen(path: Path, seed: int) -> Trace:
    """All clients of `chunk-*-trace.csv` (time, rate, cv, ...) with the lengths of `chunk-*-dataset.json`."""
    files = sorted(path.glob("chunk-*-trace.csv"), key=lambda file: _number(file))
    if not files:
        raise UsageError(f"{path} holds no chunk-*-trace.csv: it is no ServeGen directory.")
    draw = np.random.default_rng(seed)
    total: Floats | None = None
    prompts = outputs = np.zeros(0)
    for file in files:
        step, rates, cvs = _windows(file)
        per = round(step / BIN_S)
        if rates.size * per > MOST_BINS:
            raise UsageError(
                f"{file} spans {rates.size * per} bins of {BIN_S:g} s and at most {MOST_BINS} are read: cut it."
            )
        counts = _counts(np.repeat(rates, per) * BIN_S, np.repeat(cvs, per), draw)
        mean_prompt, mean_output = _lengths(file, np.arange(counts.size, dtype=np.float64) * BIN_S)
        if total is None:
            total, prompts, outputs = np.zeros(counts.size), np.zeros(counts.size), np.zeros(counts.size)
        if counts.size != total.size:
            raise UsageError(f"{file} has {rates.size} windows, others have {total.size // per}: give equal spans.")
        total += counts
        prompts += counts * mean_prompt
        outputs += counts * mean_output
    assert total is not None
    whole = prompts.sum() > 0 and outputs.sum() > 0
    return Trace(
        f"servegen-{path.name}", Kind.RECON, BIN_S, total, prompts if whole else None, outputs if whole else None
    )


def _number(file: Path) -> int:
    found = re.search(r"chunk-(\d+)-", file.name)
    return int(found[1]) if found else 0


def _windows(file: Path) -> tuple[float, Floats, Floats]:
    """Seconds of a window, requests/s and coefficient of variation of each."""
    times, rates, cvs = [], [], []
    try:
        with file.open(newline="") as rows:
            for number, row in enumerate(csv.reader(rows), 1):
                try:
                    times.append(float(row[0]))
                    rates.append(float(row[1] or 0.0))
                    cvs.append(float(row[2] or 0.0))
                except (ValueError, IndexError):
                    raise UsageError(f"{file}, row {number}: {','.join(row)[:80]!r} is not time, rate, cv.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from error
    numbers = np.array([times, rates, cvs])
    wrong = np.nonzero(~(np.isfinite(numbers) & (numbers >= 0) & (numbers <= MOST)).all(axis=0))[0]
    if wrong.size:
        told = ",".join(f"{value:g}" for value in numbers[:, wrong[0]])
        raise UsageError(f"{file}, row {wrong[0] + 1}: {told} must not be negative or endless.")
    gaps = np.diff(times)
    if not gaps.size or gaps[0] < BIN_S or gaps[0] % BIN_S or (gaps != gaps[0]).any():
        raise UsageError(
            f"{file} needs two windows or more, one after another, of equal lengths that {BIN_S:g} s divide."
        )
    return float(gaps[0]), numbers[1], numbers[2]


def _counts(means: Floats, cvs: Floats, draw: np.random.Generator) -> Floats:
    """Counts with the mean and the dispersion of a renewal process: Poisson at cv 1, a gamma mixture above."""
    spread = np.maximum(0.0, cvs * cvs - 1.0)
    level = np.where(spread > 0, draw.gamma(np.maximum(means / np.maximum(spread, 1e-9), 1e-9)) * spread, means)
    return draw.poisson(np.where(means > 0, np.minimum(level, MOST_COUNT), 0.0)).astype(np.float64)


def _lengths(file: Path, times: Floats) -> tuple[Floats, Floats]:
    """Mean prompt and output tokens of the client at each time; 0 where its lengths are not published."""
    path = file.with_name(file.name.replace("-trace.csv", "-dataset.json"))
    if not path.is_file():
        return np.zeros(times.size), np.zeros(times.size)
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(table, dict) or not table:
            raise ValueError("windows by their seconds are needed, and it has none")
        windows = sorted(((int(start), window) for start, window in table.items()), key=lambda each: each[0])
        starts = [_within(start, "a window's start") for start, _ in windows]
        means = np.array([[_mean(window[name]) for name in ("input_tokens", "output_tokens")] for _, window in windows])
    except KeyError as error:
        raise UsageError(f"{path} is no ServeGen data set: a window has no {error}.") from error
    except (OSError, ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} is no ServeGen data set: {error}.") from error
    for column in means.T:
        column[column == 0] = column[column > 0].mean() if (column > 0).any() else 0.0
    at = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, len(starts) - 1)
    return means[at, 0], means[at, 1]


def _mean(pdf: str | dict[str, float]) -> float:
    shares = ast.literal_eval(pdf) if isinstance(pdf, str) else pdf
    if not isinstance(shares, dict):
        raise ValueError(f"{str(pdf)[:60]!r} does not give lengths their weights")
    pairs = [(_within(length, "a length"), _within(share, "a weight")) for length, share in shares.items()]
    weight = sum(share for _, share in pairs)
    return sum(length * share for length, share in pairs) / weight if weight > 0 else 0.0


def _within(value: float | str, what: str) -> float:
    number = float(value)
    if not 0 <= number <= MOST:
        raise ValueError(f"{what} of {number:g} must not be negative or above {MOST:g}")
    return number
