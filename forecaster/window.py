"""Peak and mean of the rate over the window from now to each lead, with coverage that is what it says.

Quantiles of single steps do not add up to those of a window: the peak's are higher, the mean's narrower. A factor for
each lead and level, moved a little by every window that has ended, makes up the difference. Trap: the factors start at
one, so the first day of a history is only roughly covered.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GAIN = 0.05  # of the usual error's width, a window
FURTHEST = 1.5  # of the factors' logarithm


class Windows:
    """`said` turns step quantiles [leads, levels] into [2 (peak, mean), leads, levels]; `learn` corrects them."""

    def __init__(self, leads: NDArray[np.int64], levels: Floats) -> None:
        self._leads = leads
        self._levels = levels
        self._spans = np.diff(leads, prepend=0).astype(np.float64)[:, None]
        self._log = np.zeros((2, leads.size, levels.size))
        self._recent: deque[float] = deque(maxlen=int(leads.max()))

    def said(self, quantiles: Floats) -> Floats:
        peak = np.maximum.accumulate(quantiles, axis=0)
        mean = np.cumsum(quantiles * self._spans, axis=0) / self._leads[:, None]
        values = np.stack([peak, mean]) * np.exp(self._log)
        values[0] = np.maximum.accumulate(np.maximum(values[0], quantiles), axis=0)
        ordered: Floats = np.maximum.accumulate(values, axis=2)
        return ordered

    def step(self, rate: float | None) -> None:
        self._recent.append(np.nan if rate is None else rate)

    def learn(self, said: Floats, due: NDArray[np.bool_], width: Floats) -> None:
        """`said` [2, leads, levels] at the origin each lead's window began; `width` [leads] of log errors."""
        recent = np.array(self._recent)
        for i, lead in enumerate(self._leads):
            window = recent[recent.size - int(lead) :]
            if not due[i] or window.size < lead or not np.isfinite(window).all():
                continue
            truth = np.array([window.max(), window.mean()])[:, None]
            missed = (truth > said[:, i]).astype(np.float64) - (1 - self._levels)
            moved = self._log[:, i] + GAIN * max(float(width[i]), 0.02) * missed
            self._log[:, i] = np.clip(moved, -FURTHEST, FURTHEST)
