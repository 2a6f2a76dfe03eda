"""What a forecaster answers: quantiles at leads, with what produced them and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LEADS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0)
LEVELS: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Quantiles of the rate at each lead: `values[i, j]` at `leads[i]` seconds and `levels[j]`.

    Never negative, never NaN, and not decreasing in the level.
    """

    at: float  # s, the end of the last step that was read
    leads: tuple[float, ...]  # s, ascending
    levels: tuple[float, ...]  # ascending, 0..1
    values: NDArray[np.float64]
    model: str
    fitted_at: float
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)  # of the members, at the middle lead
    events: tuple[str, ...] = ()  # scheduled bursts, announced in words

    def quantile(self, lead: float, level: float) -> float:
        """The rate at any lead and level inside the tables: linear between leads and levels, flat outside."""
        by_level = np.array([np.interp(lead, self.leads, self.values[:, j]) for j in range(len(self.levels))])
        return float(np.interp(level, self.levels, by_level))

    def peak(self, first: float, last: float, level: float) -> float:
        """The largest quantile over leads `first`..`last`: a lower estimate of the quantile of the window's peak."""
        inside = [lead for lead in self.leads if first < lead < last]
        return max(self.quantile(lead, level) for lead in (first, *inside, last))

    def mean(self, first: float, last: float, level: float) -> float:
        """The mean over leads of one quantile: an upper estimate of the quantile of the window's mean."""
        grid = np.linspace(first, last, 9)
        return float(np.mean([self.quantile(float(lead), level) for lead in grid]))


def sane(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles as promised: finite, not negative, not decreasing along the last axis."""
    filled = np.nan_to_num(values, nan=0.0, posinf=np.finfo(np.float64).max, neginf=0.0)
    return np.maximum.accumulate(np.maximum(filled, 0.0), axis=-1)
