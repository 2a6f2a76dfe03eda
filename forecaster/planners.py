"""Forecasts that other laws ask for: Dynamo's Kalman filter and its ARIMA, one interval of 180 s ahead.

Written from their published settings, for baselines only. The trap: both are fed with interval means of 180 s, whatever
the engine's start takes, and say one value for one interval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

INTERVAL_S = 180.0
FEWEST = 5  # observations before ARIMA speaks
Q_LEVEL, Q_TREND, R, P0 = 1.0, 0.1, 10.0, 1000.0
THETAS = np.linspace(-0.95, 0.95, 39)
KEEP = 480  # observations an order's coefficient is fitted on: a day of intervals


def kalman(counts: Floats) -> Floats:
    """One interval ahead after each observation: local linear trend, q 1 and 0.1, r 10, in requests an interval."""
    move, noise = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag([Q_LEVEL, Q_TREND])
    state, spread = np.zeros(2), np.eye(2) * P0
    out = np.empty(counts.size)
    for i, value in enumerate(counts):
        if i == 0:
            state = np.array([value, 0.0])
        state = move @ state
        spread = move @ spread @ move.T + noise
        gain = spread[:, 0] / (spread[0, 0] + R)
        state = state + gain * (value - state[0])
        spread = spread - np.outer(gain, spread[0])
        out[i] = max(0.0, (move @ state)[0])
    return out


def arima(counts: Floats) -> Floats:
    """One interval ahead: the order chosen once at five observations, its coefficient refitted as more come.

    The orders tried are those an automatic search considers on five points: a mean, a random walk, AR(1) and IMA(1,1).
    """
    out = np.empty(counts.size)
    order, coefficient = "walk", 0.0
    for i in range(counts.size):
        seen = counts[max(0, i + 1 - KEEP) : i + 1]
        if i + 1 == FEWEST:
            order = min(ORDERS, key=lambda name: _criterion(name, seen))
        if i + 1 >= FEWEST and (i + 1 == FEWEST or (i + 1) % 20 == 0):
            coefficient = _fit(order, seen)[0]
        out[i] = max(0.0, _ahead(order, coefficient, seen)) if i + 1 >= FEWEST else counts[i]
    return out


ORDERS = ("mean", "walk", "ar", "ima")


def _errors(order: str, coefficient: float, seen: Floats) -> Floats:
    """One-step errors by conditional sums."""
    if order == "mean":
        apart: Floats = seen - seen.mean()
        return apart
    steps: Floats = np.diff(seen)
    if order == "walk":
        return steps
    if order == "ar":
        centred = seen - seen.mean()
        left: Floats = centred[1:] - coefficient * centred[:-1]
        return left
    errors = np.empty(steps.size)
    last = 0.0
    for i, step in enumerate(steps):
        last = step - coefficient * last
        errors[i] = last
    return errors


def _fit(order: str, seen: Floats) -> tuple[float, float]:
    """The coefficient with the smallest squared error, and that error."""
    tried = THETAS if order in ("ar", "ima") else np.zeros(1)
    sums = [float((_errors(order, float(c), seen) ** 2).mean()) for c in tried]
    best = int(np.argmin(sums))
    return float(tried[best]), sums[best]


def _criterion(order: str, seen: Floats) -> float:
    free = {"mean": 2, "walk": 1, "ar": 3, "ima": 2}[order]
    n = seen.size
    return n * float(np.log(max(_fit(order, seen)[1], 1e-12))) + 2 * free * n / max(1, n - free - 1)


def _ahead(order: str, coefficient: float, seen: Floats) -> float:
    if order == "mean":
        return float(seen.mean())
    if order == "walk":
        return float(seen[-1])
    if order == "ar":
        middle = float(seen.mean())
        return middle + coefficient * (float(seen[-1]) - middle)
    return float(seen[-1]) + coefficient * float(_errors(order, coefficient, seen)[-1])


PLANNERS = {"kalman": kalman, "arima": arima}


def next_interval(name: str, counts: Floats) -> float:
    """Requests/s of the interval after those counted, by the planner of that name: a job for the worker process."""
    return float(PLANNERS[name](counts)[-1]) / INTERVAL_S
