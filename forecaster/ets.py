"""Damped exponential smoothing with fitted constants: statsmodels, in a process of its own, with a deadline.

The worker fits the constants to the last hours; the member then runs the recursion itself, a step at a time, so that a
late fit costs nothing but its freshness. statsmodels is imported in the worker only. Trap: a fit that answers late is
from an older history; only its constants are taken over, never its state.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def _serve(pipe: Connection) -> None:
    """The worker: histories in, constants out, until the pipe closes."""
    while True:
        try:
            values = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(fit_constants(values))


class EtsMember:
    """One member of the ensemble. `now` is a monotonic clock; with `wait` every fit is waited for (backtests)."""

    def __init__(
        self, minutes: float, now: Callable[[], float], *, wait: bool = False, deadline: float = DEADLINE_S
    ) -> None:
        self._recent: deque[float] = deque(maxlen=max(FEWEST, round(HISTORY_MIN / minutes)))
        self._every = max(1, round(REFIT_MIN / minutes))
        self._now, self._wait, self._deadline = now, wait, deadline
        self._constants: Constants | None = None
        self._state = (0.0, 0.0)
        self._worker: tuple[multiprocessing.process.BaseProcess, Connection] | None = None
        self._asked: float | None = None
        self._n = 0
        self.late = 0  # fits given up

    def observe(self, rate: float | None) -> None:
        """One step on; a gap is held."""
        self._n += 1
        self._collect()
        if rate is None:
            return
        self._recent.append(rate)
        if self._constants is not None:
            self._state = advance(self._state, rate, self._constants)
        if (
            self._asked is None
            and len(self._recent) >= FEWEST
            and (self._constants is None or self._n % self._every == 0)
        ):
            self._ask()

    def predict(self, leads: NDArray[np.int64]) -> Floats | None:
        """Rates at `leads` steps ahead; `None` before the first fit."""
        if self._constants is None:
            return None
        level, trend = self._state
        damping = self._constants.damping
        reach = leads.astype(np.float64) if damping >= 1 else damping * (1 - damping**leads) / (1 - damping)
        ahead: Floats = np.maximum(level + trend * reach, 0.0)
        return ahead

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            process, pipe = self._worker
            pipe.close()
            process.kill()
            process.join()
            self._worker = None
        self._asked = None

    def _ask(self) -> None:
        if self._worker is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True, name="ets")
            process.start()
            theirs.close()
            self._worker = process, ours
        self._worker[1].send(np.array(self._recent))
        self._asked = self._now()
        if self._wait:
            self._worker[1].poll(self._deadline)
            self._collect()

    def _collect(self) -> None:
        if self._asked is None or self._worker is None:
            return
        process, pipe = self._worker
        try:
            if pipe.poll(0):
                found = pipe.recv()
                self._asked = None
                if found is not None:
                    self._adopt(found)
                return
        except (EOFError, OSError):
            self.late += 1
            self.close()
            return
        if self._now() - self._asked > self._deadline or not process.is_alive():
            self.late += 1
            self.close()

    def _adopt(self, constants: Constants) -> None:
        """Take the constants over and run them through the recent history for the state."""
        self._constants = constants
        values = list(self._recent)
        self._state = (float(np.mean(values[:5])), 0.0)
        for value in values:
            self._state = advance(self._state, value, constants)


def advance(state: tuple[float, float], rate: float, constants: Constants) -> tuple[float, float]:
    """One step of the recursion in its error form."""
    level, trend = state
    ahead = level + constants.damping * trend
    error = rate - ahead
    return ahead + constants.level * error, constants.damping * trend + constants.trend * error
