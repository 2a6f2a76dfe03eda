"""Damped exponential smoothing with fitted constants: statsmodels, in the worker process, with a deadline.

The worker fits the constants to the last hours; the member then runs the recursion itself, a step at a time, so that a
late fit costs nothing but its freshness. statsmodels is imported in the worker only. Trap: a fit that answers late is
from an older history; only its constants are taken over, never its state.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecaster.worker import Answer, Worker

Floats = NDArray[np.float64]

HISTORY_MIN, REFIT_MIN, FEWEST = 240.0, 60.0, 60
DEADLINE_S = 20.0


class Constants(NamedTuple):
    """Gains of level and trend, and the trend's damping."""

    level: float
    trend: float
    damping: float


def fit_constants(values: Floats) -> Constants | None:
    """Maximum likelihood for ETS(A, Ad, N); `None` where the optimiser finds nothing finite."""
    import warnings

    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: what it has found is scored online like any other member
        try:
            fitted = ETSModel(values, error="add", trend="add", damped_trend=True).fit(disp=False, maxiter=60)
        except (ValueError, np.linalg.LinAlgError):
            return None
    found = Constants(float(fitted.alpha), float(fitted.beta), float(fitted.phi))
    return found if np.isfinite(found).all() else None


class EtsMember:
    """One member of the ensemble, fitted by `worker` under `key`; with `wait` every fit is waited for (backtests)."""

    def __init__(
        self, minutes: float, worker: Worker, key: str = "ets", *, wait: bool = False, deadline_s: float = DEADLINE_S
    ) -> None:
        self.memory = max(FEWEST, round(HISTORY_MIN / minutes))  # steps it looks back
        self._recent: deque[float] = deque(maxlen=self.memory)
        self._every = max(1, round(REFIT_MIN / minutes))
        self._worker, self._key, self._wait, self._deadline_s = worker, key, wait, deadline_s
        self._constants: Constants | None = None
        self._state = (0.0, 0.0)
        self._next = 0  # the step from which the next fit may be asked for
        self._n = 0
        self.failed = 0  # fits that came to nothing

    def observe(self, rate: float | None) -> None:
        """One step on; a gap is held."""
        self._n += 1
        self._collect()
        if rate is None:
            return
        self._recent.append(rate)
        if self._constants is not None:
            self._state = advance(self._state, rate, self._constants)
        if self._n >= self._next and len(self._recent) >= FEWEST and not self._worker.is_asked(self._key):
            self._next = self._n + self._every
            self._worker.ask(self._key, fit_constants, np.array(self._recent), deadline_s=self._deadline_s)
            if self._wait:
                self._adopt(self._worker.wait(self._key))

    def predict(self, leads: NDArray[np.int64]) -> Floats | None:
        """Rates at `leads` steps ahead; `None` before the first fit."""
        if self._constants is None:
            return None
        level, trend = self._state
        damping = self._constants.damping
        reach = leads.astype(np.float64) if damping >= 1 else damping * (1 - damping**leads) / (1 - damping)
        ahead: Floats = np.maximum(level + trend * reach, 0.0)
        return ahead

    def _collect(self) -> None:
        if self._worker.is_asked(self._key):
            self._adopt(self._worker.take(self._key))

    def _adopt(self, answer: Answer | None) -> None:
        """Take the constants over and run them through the recent history for the state."""
        if answer is None:
            return
        if answer.value is None:
            self.failed += 1
            return
        self._constants = Constants(*answer.value)
        values = list(self._recent)
        self._state = (float(np.mean(values[:5])), 0.0)
        for value in values:
            self._state = advance(self._state, value, self._constants)


def advance(state: tuple[float, float], rate: float, constants: Constants) -> tuple[float, float]:
    """One step of the recursion in its error form."""
    level, trend = state
    ahead = level + constants.damping * trend
    error = rate - ahead
    return ahead + constants.level * error, constants.damping * trend + constants.trend * error
