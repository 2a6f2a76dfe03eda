"""Quantiles around a point forecast, from the forecaster's own arrived errors.

Conformal variants (errors added, multiplied or scaled; around the mix, a smoother or the last value) each fail on
some kind of series; an online mix of them by discounted pinball loss does not. A slow tracker then moves each level
until its coverage is what it says; at the median the mix itself competes. In the first 15 hours, shipped growth ratios
stand in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecaster.ensemble import Loss, weighted
from forecaster.forecast import LEVELS

Floats = NDArray[np.float64]

VARIANTS = ("mix + error", "mix x ratio", "mix + scaled error", "ewma + error", "last + error", "bursts", "mix")
WITH_ERRORS = len(VARIANTS) - 2
SHARPNESS = 12.0
# Growth y(t+h) / two-minute average on production LLM traces, upper ends of token and request series at 2, 5 and
# 10 minutes; medians are 1. Used while the forecaster's own history is short.
PRIOR_LEADS_MIN = (2.0, 5.0, 10.0)
PRIOR = {
    0.05: (0.72, 0.68, 0.62), 0.1: (0.79, 0.75, 0.71), 0.25: (0.9, 0.88, 0.86), 0.5: (1.0, 1.0, 1.0),
    0.75: (1.1, 1.12, 1.15), 0.9: (1.23, 1.28, 1.36), 0.95: (1.34, 1.41, 1.53), 0.975: (1.52, 1.6, 1.76),
    0.99: (1.71, 1.82, 2.04), 0.995: (1.95, 2.1, 2.4),
}  # fmt: skip
PRIOR_WEIGHT = 150.0  # steps of own errors that weigh as much as the prior's width
COLD_MIN = 900.0  # minutes of history until the prior has gone
WIDEST = 4.0  # times the prior's own width
LARGEST = 4.0  # log error: what grows from nothing grows by any factor, and says nothing of what comes next


def pinball(truth: Floats, quantiles: Floats, levels: Floats) -> Floats:
    """Pinball loss; shapes broadcast, levels along the last axis but one or as given."""
    gap = truth - quantiles
    return np.maximum(levels * gap, (levels - 1) * gap)


class Conformal:
    """Quantiles for [leads] from arrived errors only; windows hold the newest `window` errors of each lead."""

    def __init__(self, leads_min: Floats, steps_per_hour: float, window: int | None = None) -> None:
        n = len(leads_min)
        self._levels = np.array(LEVELS)
        self._window = window or int(48 * steps_per_hour)
        self._errors = np.full((n, WITH_ERRORS, self._window), np.nan)
        self._count = np.zeros(n, dtype=np.int64)
        self._loss = Loss((n, len(LEVELS), len(VARIANTS)), 24 * steps_per_hour)
        self._shift = np.zeros((n, len(LEVELS)))  # of the level, by the coverage tracker
        self._table = np.zeros((n, WITH_ERRORS, len(LEVELS)))
        self._cold_steps = COLD_MIN / 60.0 * steps_per_hour
        self._prior = np.array([[np.interp(m, PRIOR_LEADS_MIN, PRIOR[level]) for level in LEVELS] for m in leads_min])
        self._usual_width = np.abs(np.log(self._prior)) @ (np.gradient(self._levels) / np.gradient(self._levels).sum())
        self._width = Loss((n, 1), 24 * steps_per_hour)
        # Targets of long leads overlap, so misses come in runs and a tracked level wanders: at the median that is all
        # it does, for the mix follows the middle by itself.
        self._gain = np.where(self._levels == 0.5, 0.0, 0.02)
        self._since_table = 0

    @property
    def levels(self) -> Floats:
        """[leads, levels] as asked, moved by the coverage tracker."""
        return np.clip(self._levels[None, :] + self._shift, 0.0005, 0.9995)

    @property
    def width(self) -> Floats:
        """[leads] mean absolute log error, 0.1 while nothing has arrived."""
        return np.where(self._width.mass[:, 0] > 0, self._width.mean()[:, 0], 0.1)

    def candidates(self, centres: Floats, scale: Floats, bursts: Floats | None = None) -> Floats:
        """[leads, variants, levels] from `centres` [leads, 3] (mix, ewma, last) and `scale` [leads]."""
        mix, ewma, last = centres[:, 0, None], centres[:, 1, None], centres[:, 2, None]
        t = self._table
        silent = np.full_like(t[:, 0], np.nan)
        plain = np.where(self._levels == 0.5, mix, np.nan)
        return np.stack(
            [
                mix + t[:, 0],
                mix * np.exp(t[:, 1]),
                mix + t[:, 2] * scale[:, None],
                ewma + t[:, 3],
                last + t[:, 4],
                silent if bursts is None else bursts,
                plain,
            ],
            axis=1,
        )

    def quantiles(self, candidates: Floats, centre: Floats) -> Floats:
        """[leads, levels]: the mix of the variants, never below what the prior says while history is short."""
        weights = self._loss.weights(SHARPNESS)  # [leads, levels, variants]
        own = weighted(candidates.transpose(0, 2, 1), weights)
        # The shape of the prior, at the width this series has shown so far.
        seen, width = self._width.mass[:, 0], self._width.mean()[:, 0]
        wide = (seen * width / self._usual_width + PRIOR_WEIGHT) / (seen + PRIOR_WEIGHT)
        wide = np.minimum(wide, WIDEST)
        prior = centre[:, None] * self._prior ** wide[:, None]
        trust = np.clip(self._count / self._cold_steps, 0.0, 1.0)[:, None]
        blended = trust * own + (1 - trust) * prior
        return np.where(self._levels == 0.5, own, blended)

    def learn(self, made: Floats, centres: Floats, scale: Floats, said: Floats, truth: Floats) -> None:
        """What was said for now (`made` candidates, `said` quantiles) against the truth [leads]; NaN: not due."""
        due = np.isfinite(truth)
        if not due.any():
            return
        y = truth[:, None]
        self._loss.update(pinball(truth[:, None, None], made.transpose(0, 2, 1), self._levels[None, :, None]))
        eps = 1e-3 * np.maximum(scale, 1e-9)
        errors = np.stack(
            [
                truth - centres[:, 0],
                np.clip(np.log((np.maximum(truth, 0) + eps) / (np.maximum(centres[:, 0], 0) + eps)), -LARGEST, LARGEST),
                (truth - centres[:, 0]) / np.maximum(scale, 1e-12),
                truth - centres[:, 1],
                truth - centres[:, 2],
            ],
            axis=1,
        )
        self._width.update(np.abs(np.where(due, errors[:, 1], np.nan))[:, None])
        rows = np.nonzero(due)[0]
        self._errors[rows, :, self._count[rows] % self._window] = errors[rows]
        self._count[rows] += 1
        missed = (y > said).astype(np.float64) - (1 - self._levels)
        tails = np.minimum(self._levels, 1 - self._levels)
        self._shift = np.where(due[:, None], self._shift + self._gain * tails * missed, self._shift)
        self._shift = np.clip(self._shift, -0.6 * tails, 0.6 * tails)
        self._refresh()

    def _refresh(self) -> None:
        """Recompute the error quantiles; a sort of every window a few times an hour is cheap enough."""
        self._since_table += 1
        n = int(self._count.max(initial=0))
        if n > 120 and self._since_table % 5:
            return
        have = np.sort(self._errors[:, :, : min(n, self._window)], axis=2)
        counts = np.minimum(self._count, self._window)
        levels = self.levels
        for h, count in enumerate(counts):
            if count == 0:
                continue
            # The finite-sample correction of conformal prediction: rank ceil((n + 1) q), from both ends.
            place = np.where(levels[h] >= 0.5, (count + 1) * levels[h] - 1, (count + 1) * levels[h] - 1)
            place = np.clip(place, 0, count - 1)
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, count - 1)
            part = place - low
            self._table[h] = have[h][:, low] * (1 - part) + have[h][:, high] * part
