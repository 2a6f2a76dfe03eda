"""What a forecaster answers: quantiles at leads, with what produced them and what to beware of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEADS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0)
# For whoever acts on it: a burst's first step must not be read off between two leads minutes apart.
FINE_LEADS_S: tuple[float, ...] = tuple(60.0 * minute for minute in (*range(1, 13), 15, 20))
LEVELS: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995)


class LeadRecord(NamedTuple):
    """How the forecasts of one lead have gone on this very series, the last day weighing most."""

    lead: float  # s
    scored: int  # forecasts whose target has come
    skill: float | None  # 1 - error / error of last value; None while either is unknown or last value made none
    coverage: tuple[float, ...]  # by level: share of targets at or under the quantile


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
    peaks: NDArray[np.float64] | None = None  # as `values`, of the peak from now to each lead
    means: NDArray[np.float64] | None = None  # and of the mean
    step: float = 0.0  # s; each value is the mean of the step that ends at its lead
    demoted: bool = False  # loses to last value, and answers with that
    record: tuple[LeadRecord, ...] = ()  # of the leads for which targets have come

    def quantile(self, lead: float, level: float) -> float:
        """The rate at any lead and level inside the tables: linear between leads and levels, flat outside."""
        by_level = np.array([np.interp(lead, self.leads, self.values[:, j]) for j in range(len(self.levels))])
        return float(np.interp(level, self.levels, by_level))

    def peak(self, first: float, last: float, level: float) -> float:
        """The quantile of the peak over leads `first`..`last`: calibrated for windows that begin now.

        A window that begins later lies between the peak of single steps and that of the whole way; its length decides.
        """
        inside = [lead for lead in self.leads if first < lead < last]
        single = max(self.quantile(lead, level) for lead in (first, *inside, last))
        return single if self.peaks is None else max(single, self._between(self.peaks, single, first, last, level))

    def mean(self, first: float, last: float, level: float) -> float:
        """The quantile of the mean over leads `first`..`last`, calibrated for windows that begin now."""
        grid = np.linspace(first, last, 9)
        single = float(np.mean([self.quantile(float(lead), level) for lead in grid]))
        return single if self.means is None else self._between(self.means, single, first, last, level)

    def _between(self, table: NDArray[np.float64], single: float, first: float, last: float, level: float) -> float:
        by_level = np.array([np.interp(last, self.leads, table[:, j]) for j in range(len(self.levels))])
        whole = float(np.interp(level, self.levels, by_level))
        share = min(1.0, max(0.0, (last - first) / last)) if last > 0 else 0.0
        return (1 - share) * single + share * whole


def sane(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles as promised: finite, not negative, not decreasing along the last axis."""
    filled = np.nan_to_num(values, nan=0.0, posinf=np.finfo(np.float64).max, neginf=0.0)
    return np.maximum.accumulate(np.maximum(filled, 0.0), axis=-1)
