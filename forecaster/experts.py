"""The members of the ensemble: cheap rules, each O(1) a step, none right alone.

All of them together are one bank that holds its state in arrays. A seasonal member is unknown (NaN, inside this bank
only) until it has a period of history; the mixers leave unknown members out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_LIVES_MIN = (1.0, 2.0, 3.0, 6.0, 15.0, 60.0)
HOLTS = ((0.35, 0.05, 0.85), (0.15, 0.02, 0.95))  # level gain, trend gain, damping
SEASONAL = ("seasonal ratio", "days median ratio", "days median", "days max", "schedule")
NAMES = ("last", *(f"ewma {h:g} min" for h in HALF_LIVES_MIN), "holt fast", "holt slow", *SEASONAL, "ets", "bursts")
EWMA_2, EWMA_3, EWMA_6, ETS, BURSTS = 2, 3, 4, len(NAMES) - 2, len(NAMES) - 1  # positions in NAMES


class Expertise:
    """The bank: `update` with each known rate, `predict` for all leads at once.

    `minutes` is how many minutes of model time one step is (1 for 60 s steps at time scale 1); `leads` are in steps.
    """

    def __init__(self, leads: NDArray[np.int64], minutes: float, days_kept: int = 8, period: int = 1440) -> None:
        self.leads = leads
        self.period = period
        self._gains = 1.0 - 0.5 ** (minutes / np.array(HALF_LIVES_MIN))
        self._ewma = np.zeros(len(HALF_LIVES_MIN))
        self._holt = np.zeros((len(HOLTS), 2))
        self._history = np.full(days_kept * period + int(leads.max()) + 1, np.nan)
        self._ratios = np.full_like(self._history, np.nan)  # to the trailing hour's median: bursts stand out
        self._seen = 0
        self._last = 0.0
        self.base: float | None = None  # the trailing hour's median
        self._hour = max(5, round(60 / minutes))
        damping = np.array([h[2] for h in HOLTS])[:, None]
        self._damped = damping * (1 - damping ** leads[None, :]) / (1 - damping)

    @property
    def level(self) -> float:
        """The three-minute average: the scale of things now."""
        return float(self._ewma[2])

    @property
    def steps(self) -> int:
        return self._seen

    def update(self, rate: float | None) -> None:
        """One step on; `None` is a gap or an outage, through which the averages hold."""
        slot = self._seen % self._history.size
        self._history[slot] = np.nan if rate is None else rate
        self._ratios[slot] = np.nan
        if rate is not None:
            if not self._ewma.any() and self._last == 0.0:
                self._ewma[:] = rate
                self._holt[:, 0] = rate
            self._ewma += self._gains * (rate - self._ewma)
            for i, (gain, slope, damping) in enumerate(HOLTS):
                level, trend = self._holt[i]
                ahead = level + damping * trend
                fresh = ahead + gain * (rate - ahead)
                self._holt[i] = fresh, damping * trend + slope * (rate - ahead)
            self._last = rate
            self.base = self._base()
            if self.base is not None and self.base > 0:
                self._ratios[slot] = rate / self.base
        self._seen += 1

    def _base(self) -> float | None:
        recent = self._window(self._history, 0, self._hour)
        recent = recent[np.isfinite(recent)]
        return float(np.median(recent)) if recent.size >= 5 else None

    def _window(self, source: Floats, back: int, n: int) -> Floats:
        """The `n` newest values that are at least `back` steps old."""
        newest = self._seen - 1 - back
        if newest < 0:
            return np.empty(0)
        return source[np.arange(max(0, newest - n + 1), newest + 1) % source.size]

    def _days_at(self, source: Floats, leads: NDArray[np.int64], days: tuple[int, ...], spread: int) -> Floats:
        """[days, leads] mean of `source` around the same phase of earlier periods; NaN where never seen."""
        out = np.full((len(days), leads.size), np.nan)
        offsets = np.arange(-spread, spread + 1)
        for row, day in enumerate(days):
            at = self._seen - 1 + leads[:, None] - day * self.period + offsets[None, :]
            valid = (at >= 0) & (at < self._seen) & (at > self._seen - source.size)
            picked = np.where(valid, source[at % source.size], np.nan)
            known = np.isfinite(picked)
            total = np.where(known, picked, 0.0).sum(axis=1)
            out[row] = np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)
        return out

    def predict(self) -> Floats:
        """[leads, members] rates; NaN for a member that cannot speak yet."""
        n = self.leads.size
        out = np.full((n, len(NAMES)), np.nan)
        if self._seen == 0:
            return out
        out[:, 0] = self._last
        out[:, 1 : 1 + self._ewma.size] = self._ewma
        holt = self._holt[:, :1] + self._holt[:, 1:] * self._damped
        out[:, 7:9] = np.maximum(holt, 0.0).T
        if self._seen > self.period:
            out[:, 9 : 9 + len(SEASONAL)] = self._seasonal()
        return out

    def _seasonal(self) -> Floats:
        days = tuple(d for d in (1, 2, 3, 7) if d * self.period < self._seen)
        wide = max(1, self._hour // 12)
        with_now = np.concatenate([[0], self.leads])
        smooth = self._days_at(self._history, with_now, days, wide)
        sharp = self._days_at(self._history, self.leads, days, 1)
        bursts = self._days_at(self._ratios, self.leads, days, 0)
        base = self._base()
        out = np.full((self.leads.size, len(SEASONAL)), np.nan)
        now = smooth[:, :1]
        ratio = np.divide(smooth[:, 1:], now, out=np.full_like(smooth[:, 1:], np.nan), where=now > 1e-9)
        out[:, 0] = self._ewma[3] * np.clip(ratio[0], 0.1, 10.0)
        out[:, 1] = self._ewma[3] * np.clip(known_median(ratio), 0.1, 10.0)
        out[:, 2] = known_median(sharp)
        out[:, 3] = np.where(np.isfinite(sharp).any(axis=0), np.nanmax(np.nan_to_num(sharp, nan=-1.0), axis=0), np.nan)
        if base is not None:
            out[:, 4] = base * known_median(bursts)
        return out


def known_median(rows: Floats) -> Floats:
    """Median over axis 0 of what is known; NaN where nothing is."""
    ordered = np.sort(rows, axis=0)  # NaN last
    n = np.isfinite(rows).sum(axis=0)
    columns = np.arange(rows.shape[1])
    low = ordered[np.maximum((n - 1) // 2, 0), columns]
    high = ordered[np.maximum(n // 2, 0) % rows.shape[0], columns]
    return np.where(n > 0, (low + high) / 2, np.nan)
