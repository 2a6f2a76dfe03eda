"""A regular series with explicit gaps: what every forecaster member eats.

Values are rates (per second) at equal steps; a gap is a `False` in `known`, never a zero. The trap: a true zero is a
measurement and stays one here; whether it is an outage is decided later (`online.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class SeriesError(ValueError):
    """The input is no series; the message names what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Series:
    """`values[i]` is the mean rate over `[start + i*step, start + (i+1)*step)`, known where `known[i]`."""

    start: float  # s
    step: float  # s
    values: Floats
    known: Bools

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise SeriesError(f"step must be positive, got {self.step} s")
        if self.values.shape != self.known.shape or self.values.ndim != 1:
            raise SeriesError("values and known must be flat and of equal length")
        seen = self.values[self.known]
        if seen.size and (not np.isfinite(seen).all() or seen.min() < 0):
            raise SeriesError("rates must be finite and not negative; leave unknown ones out")

    def __len__(self) -> int:
        return int(self.values.size)

    @property
    def end(self) -> float:
        return self.start + len(self) * self.step

    def before(self, time: float) -> Series:
        """Only the steps that had ended by `time`: nothing later is read."""
        n = max(0, min(len(self), int((time - self.start) // self.step)))
        return Series(self.start, self.step, self.values[:n], self.known[:n])

    def resample(self, step: float) -> Series:
        """Coarser steps; a step is known when at least half of it is, and the open one at the end is dropped."""
        factor = round(step / self.step)
        if factor < 1 or abs(factor * self.step - step) > 1e-9 * step:
            raise SeriesError(f"cannot resample {self.step} s steps to {step} s: not a whole multiple")
        n = len(self) // factor
        known = self.known[: n * factor].reshape(n, factor)
        values = np.where(known, self.values[: n * factor].reshape(n, factor), 0.0)
        counts = known.sum(axis=1)
        means = values.sum(axis=1) / np.maximum(counts, 1)
        return Series(self.start, step, means, counts * 2 >= factor)


def from_pairs(pairs: Iterable[tuple[float, float | None]], step: float) -> Series:
    """A series from (time, rate or None) in ascending order; missing steps become gaps."""
    times: list[float] = []
    rates: list[float | None] = []
    for index, (time, rate) in enumerate(pairs):
        if times and time <= times[-1]:
            raise SeriesError(f"row {index + 1}: time {time} is not after {times[-1]}; sort the series first")
        times.append(time)
        rates.append(rate)
    if not times:
        raise SeriesError("the series is empty")
    start = times[0]
    slots = [round((t - start) / step) for t in times]
    values, known = np.zeros(slots[-1] + 1), np.zeros(slots[-1] + 1, dtype=np.bool_)
    for slot, rate in zip(slots, rates, strict=True):
        if rate is not None:
            values[slot], known[slot] = rate, True
    return Series(start, step, values, known)


def from_values(values: Sequence[float | None] | Floats, step: float, start: float = 0.0) -> Series:
    """A series from equally spaced rates, `None` or NaN for a gap."""
    array = np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)
    known = np.isfinite(array)
    return Series(start, step, np.where(known, array, 0.0), known)
