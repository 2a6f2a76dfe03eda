"""What a forecaster would have said: rolling origins over a history, scored by lead.

Every origin reads only what had ended by then; the first part of the history warms up and is not scored. It knows no
files. Trap: two forecasts at neighbouring origins share most of their future, so a short history gives few independent
targets; below `FEWEST` scored origins a score is not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.forecast import LEADS_S, Forecast
from forecaster.online import BASE_STEP_S, OnlineForecaster
from forecaster.series import Series, SeriesError

Floats = NDArray[np.float64]

FEWEST = 30  # scored origins at a lead
WARM_SHARE = 0.4  # of the history, not scored
BASE_HALF_LIFE_MIN = 3.0
BASE_WINDOW_MIN = 1440.0


@dataclass(frozen=True, slots=True)
class LeadScore:
    """One lead's record. Ratios are to the rival on the same origins: below 1 is better than it."""

    lead: float  # s
    origins: int
    error: float | None  # mean absolute error of the median, in units of the series
    error_ratio: float | None  # to last value's; `None` where last value made no error
    pinball_ratios: tuple[float | None, ...]  # by level, to a three-minute average with additive conformal quantiles
    coverage: tuple[float, ...]  # by level: share of targets at or under the quantile

    @property
    def skill(self) -> float | None:
        """1 - error / error of last value: above 0 earns its place."""
        return None if self.error_ratio is None else 1.0 - self.error_ratio


@dataclass(frozen=True, slots=True)
class Backtest:
    """Scores of every lead, with the levels they are for."""

    levels: tuple[float, ...]
    scores: tuple[LeadScore, ...]
    demoted: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rolled:
    """Every forecast of a rolling run: `values[i, j, k]` at origin i (the end of step i), lead j, level k."""

    series: Series
    leads: tuple[float, ...]  # s
    levels: tuple[float, ...]
    values: Floats
    final: OnlineForecaster


def regular(series: Series, time_scale: float = 1.0) -> Series:
    """The series at the forecaster's own step: one minute of model time, or the series' step where that is longer."""
    step = max(series.step, BASE_STEP_S / time_scale)
    return series.resample(max(1, round(step / series.step)) * series.step)


def walk(
    series: Series, time_scale: float = 1.0, leads: Sequence[float] = LEADS_S
) -> Iterator[tuple[int, OnlineForecaster]]:
    """The forecaster after each step of `series`, which is not resampled here; its own `leads` in model time."""
    forecaster = OnlineForecaster(series.step, series.start, time_scale, leads=leads)
    for index, (value, known) in enumerate(zip(series.values, series.known, strict=True)):
        forecaster.observe(float(value) if known else None)
        yield index, forecaster


def roll(series: Series, leads: Sequence[float], levels: Sequence[float], time_scale: float = 1.0) -> Rolled:
    """Run through all of `series` and keep what was said at every step. What is asked for is forecast, not read off."""
    if len(series) == 0:
        raise SeriesError("the series has no whole step of a minute: at least one is needed")
    values = np.zeros((len(series), len(leads), len(levels)))
    own = sorted({*LEADS_S, *(lead * time_scale for lead in leads)})
    forecaster = OnlineForecaster(series.step, series.start, time_scale)
    for index, forecaster in walk(series, time_scale, own):
        values[index] = table(forecaster.forecast(events=False), leads, levels)
    return Rolled(series, tuple(leads), tuple(levels), values, forecaster)


def table(forecast: Forecast, leads: Sequence[float], levels: Sequence[float]) -> Floats:
    """[leads, levels] of a forecast, linear between its own."""
    by_lead = np.array(
        [np.interp(leads, forecast.leads, forecast.values[:, j]) for j in range(len(forecast.levels))]
    )  # [own levels, leads]
    return np.array([np.interp(levels, forecast.levels, column) for column in by_lead.T])


def score(rolled: Rolled, warm_share: float = WARM_SHARE) -> Backtest:
    """Compare what was said with what came, over the part of the history after the warm-up."""
    series = rolled.series
    y = np.where(series.known, series.values, np.nan)
    first = int(len(y) * warm_share)
    rival_centre = smoothed(y, series.step)
    last = _filled(y)
    middle = int(np.argmin(np.abs(np.array(rolled.levels) - 0.5)))
    scores, warnings = [], []
    for j, lead in enumerate(rolled.leads):
        ahead = max(1, round(lead / series.step))
        origins = np.arange(first, max(first, len(y) - ahead))
        origins = origins[np.isfinite(y[origins + ahead]) & np.isfinite(last[origins])]
        if origins.size < FEWEST:
            need = (FEWEST + ahead) / (1 - warm_share) * series.step / 60
            warnings.append(
                f"no backtest at {lead:g} s: {origins.size} origins, needs {FEWEST} ({need:.0f} min of history)"
            )
            continue
        truth = y[origins + ahead]
        rival = additive(y, rival_centre, ahead, origins, rolled.levels, series.step)
        said = rolled.values[origins, j]
        error, naive = np.abs(said[:, middle] - truth).mean(), np.abs(last[origins] - truth).mean()
        own, theirs = (_pinball(truth, q, rolled.levels) for q in (said, rival))
        ratios = tuple(float(a / b) if b > 0 else None for a, b in zip(own, theirs, strict=True))
        covered = (truth[:, None] <= said + 1e-12).mean(axis=0)
        scores.append(
            LeadScore(lead, int(origins.size), float(error), float(error / naive) if naive > 0 else None, ratios,
                      tuple(float(c) for c in covered))
        )  # fmt: skip
    return Backtest(rolled.levels, tuple(scores), rolled.final.demoted, tuple(warnings))


def smoothed(y: Floats, step: float) -> Floats:
    """The three-minute average after each step; gaps hold it."""
    gain = 1 - 0.5 ** (step / 60.0 / BASE_HALF_LIFE_MIN)
    out = np.full(y.size, np.nan)
    level = np.nan
    for i, value in enumerate(y):
        if np.isfinite(value):
            level = value if not np.isfinite(level) else level + gain * (value - level)
        out[i] = level
    return out


def additive(
    y: Floats, centre: Floats, ahead: int, origins: NDArray[np.int64], levels: Sequence[float], step: float
) -> Floats:
    """The rival's quantiles at each origin: its centre plus quantiles of its last day's arrived errors."""
    errors = np.full(y.size, np.nan)
    errors[ahead:] = y[ahead:] - centre[: y.size - ahead]
    window = max(FEWEST, round(BASE_WINDOW_MIN * 60 / step))
    out = np.zeros((origins.size, len(levels)))
    offsets = np.zeros(len(levels))
    for row, origin in enumerate(origins):
        if row % 5 == 0:
            recent = errors[max(0, origin - window + 1) : origin + 1]
            recent = recent[np.isfinite(recent)]
            offsets = np.quantile(recent, levels) if recent.size else np.zeros(len(levels))
        out[row] = centre[origin] + offsets
    return np.maximum(out, 0.0)


def _filled(y: Floats) -> Floats:
    """The last known value at each step."""
    index = np.where(np.isfinite(y), np.arange(y.size), -1)
    index = np.maximum.accumulate(index) if y.size else index
    return np.where(index >= 0, y[np.maximum(index, 0)], np.nan)


def _pinball(truth: Floats, quantiles: Floats, levels: Sequence[float]) -> Floats:
    gap = truth[:, None] - quantiles
    wanted = np.asarray(levels)
    mean: Floats = np.maximum(wanted * gap, (wanted - 1) * gap).mean(axis=0)
    return mean
