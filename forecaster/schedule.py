"""Regular things in a history: its period, and bursts that come at the same minute of every period."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecaster.experts import known_median

Floats = NDArray[np.float64]

BURST_RATIO = 1.6  # to the surrounding hour's median
AGREEING = 0.6  # share of the periods that show the burst


def find_period(history: Floats, minutes: float) -> float | None:
    """The period in minutes: the highest peak of the autocorrelation beyond an hour, seen at least twice.

    `None` where the best correlation is under 0.3, as in a random walk whose trend has been taken out.
    """
    block = max(1, round(5 / minutes))
    n = history.size // block
    if n * block * minutes < 2.2 * 60:
        return None
    blocks = history[: n * block].reshape(n, block)
    known = np.isfinite(blocks)
    if not known.any():
        return None
    means = np.where(known, blocks, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    means[~known.any(axis=1)] = np.nan
    filled = np.where(np.isfinite(means), means, np.nanmean(means))
    logged = np.log1p(filled)
    x = logged
    x = x - np.polyval(np.polyfit(np.arange(n), x, 1), np.arange(n))
    spectrum = np.fft.rfft(x, 2 * n)
    acf = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    acf = acf / np.maximum(acf[0], 1e-12) * n / np.maximum(n - np.arange(n), 1)
    low, high = max(2, round(60 / minutes / block)), int(n / 2.0)
    if high <= low + 2:
        return None
    inner = acf[low + 1 : high - 1]
    peaks = (inner >= acf[low : high - 2]) & (inner >= acf[low + 2 : high]) & (inner > 0.3)
    if not peaks.any():
        return None
    best = np.where(peaks, inner, -1).max()
    first = int(np.nonzero(peaks & (inner >= 0.9 * best))[0][0])  # the shortest of equals, not its multiple
    return float((first + low + 1) * block * minutes)


def choose_period(history: Floats, minutes: float) -> int:
    """The period in steps: the day, unless the history clearly repeats faster and a day's repetition is not as good."""
    day = max(2, round(1440 / minutes))
    found = find_period(history, minutes)
    if found is None or found >= 1440 * 0.97:
        return day
    near = round(found / minutes)
    around = range(max(2, near - round(6 / minutes) - 1), near + round(6 / minutes) + 2)
    best = max(around, key=lambda lag: likeness(history, lag))
    gain = likeness(history, best) - (likeness(history, day) if history.size >= 2 * day else 0.0)
    return best if gain > 0.1 and history.size >= 3 * best else day


def likeness(history: Floats, lag: int) -> float:
    """Correlation of the logarithms `lag` steps apart; 0 where it cannot be told."""
    both = np.isfinite(history[lag:]) & np.isfinite(history[:-lag])
    if both.sum() < 30:
        return 0.0
    a, b = np.log1p(history[lag:][both]), np.log1p(history[:-lag][both])
    spread = float(a.std() * b.std())
    return 0.0 if spread < 1e-12 else float(((a - a.mean()) * (b - b.mean())).mean() / spread)


def announce(history: Floats, minutes: float) -> tuple[str, ...]:
    """Bursts seen at the same minute of most days, in words: when, how long, how large."""
    day = round(1440 / minutes)
    days = history.size // day
    if days < 3:
        return ()
    recent = history[history.size - min(days, 7) * day :].reshape(-1, day)
    if not np.isfinite(recent).any():
        return ()
    base = known_median(_hours(recent, max(1, round(60 / minutes))))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = recent / np.maximum(base, 1e-12)
        agree = np.nan_to_num(ratio > BURST_RATIO).mean(axis=0) >= AGREEING
    edges = np.diff(np.concatenate([[0], agree.astype(np.int8), [0]]))
    starts, ends = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0]
    # The history ends now, so its phase 0 is the same minute of the day as the step that comes next.
    out = []
    for start, end in list(zip(starts, ends, strict=True))[:6]:
        factor = float(np.nanmedian(ratio[:, start:end]))  # known: most days showed it
        when, long = start * minutes, (end - start) * minutes
        out.append(f"a burst of about {factor:.1f}x in {when:.0f} min, for {long:.0f} min, as on most days")
    return tuple(out)


def _hours(days: Floats, hour: int) -> Floats:
    """Each step's median over the surrounding hour, by day; blocks are cheap and near enough."""
    n = days.shape[1]
    out = np.empty_like(days)
    for start in range(0, n, hour):
        block = days[:, start : start + hour]
        known = np.isfinite(block).any(axis=1)
        median = np.full(days.shape[0], np.nan)
        if known.any():
            median[known] = np.nanmedian(block[known], axis=1)
        out[:, start : start + hour] = median[:, None]
    return out
