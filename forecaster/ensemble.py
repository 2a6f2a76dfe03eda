"""Online mixing of the members, by lead: weights from recent loss, a ridge stacking of deviations, and their mix.

Exponential weights on discounted absolute loss (half-life eight hours) track which member is good now; recursive
least squares finds what no single member says; a second level of the same weights chooses between the two and the
current best. Nothing here looks at a target before it has arrived.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARPNESS = 14.0  # how fast weight falls with relative excess loss
RIDGE = 4.0
UNSEEN = 1.5  # loss of a member without a record, relative to the best


class Loss:
    """Discounted mean loss of K candidates at each of any number of places; NaN losses are skipped."""

    def __init__(self, shape: tuple[int, ...], half_life: float) -> None:
        self.total = np.zeros(shape)
        self.mass = np.zeros(shape)
        self._keep = 0.5 ** (1.0 / half_life)

    def update(self, loss: Floats) -> None:
        known = np.isfinite(loss)
        self.total = np.where(known, self.total * self._keep + np.nan_to_num(loss), self.total)
        self.mass = np.where(known, self.mass * self._keep + 1.0, self.mass)

    def mean(self) -> Floats:
        """Mean loss along the last axis' candidates; one without a record stands at `UNSEEN` times the best."""
        mean = np.divide(self.total, self.mass, out=np.full_like(self.total, np.nan), where=self.mass > 0)
        best = np.where(np.isfinite(mean), mean, np.inf).min(axis=-1, keepdims=True)
        best = np.where(np.isfinite(best), best, 1.0)
        return np.where(np.isfinite(mean), mean, best * UNSEEN)

    def weights(self, sharpness: float) -> Floats:
        mean = self.mean()
        best = np.maximum(mean.min(axis=-1, keepdims=True), 1e-12)
        raw = np.exp(-sharpness * (mean / best - 1.0))
        shares: Floats = raw / raw.sum(axis=-1, keepdims=True)
        return shares


def weighted(values: Floats, weights: Floats) -> Floats:
    """Mean along the last axis over the candidates that speak."""
    known = np.isfinite(values)
    mass = np.where(known, weights, 0.0)
    total = mass.sum(axis=-1)
    mean = (np.where(known, values, 0.0) * mass).sum(axis=-1) / np.maximum(total, 1e-300)
    return np.where(total > 0, mean, np.nan)


class Ensemble:
    """The point forecast of every lead from [leads, members] predictions."""

    def __init__(self, leads: int, members: int, steps_per_hour: float) -> None:
        self._loss = Loss((leads, members), 8 * steps_per_hour)
        self._meta = Loss((leads, 3), 8 * steps_per_hour)
        self._p = np.tile(np.eye(members) / RIDGE, (leads, 1, 1))
        self._beta = np.zeros((leads, members))
        self._forget = 0.5 ** (1.0 / (48 * steps_per_hour))

    @property
    def weights(self) -> Floats:
        """[leads, members], each row summing to one."""
        return self._loss.weights(SHARPNESS)

    def heads(self, predictions: Floats) -> Floats:
        """[leads, 3]: by weights, by stacking, by the current best."""
        weights = self.weights
        mix = weighted(predictions, weights)
        deviations = np.nan_to_num(predictions - mix[:, None])
        stacked = mix + (self._beta * deviations).sum(axis=1)
        speaking = np.where(np.isfinite(predictions), self._loss.mean(), np.inf)
        best = predictions[np.arange(len(mix)), speaking.argmin(axis=1)]
        return np.stack([mix, np.clip(stacked, 0.0, 4 * np.maximum(mix, 0.0)), best], axis=1)

    def mix(self, heads: Floats) -> Floats:
        return weighted(heads, self._meta.weights(SHARPNESS))

    def learn(self, predictions: Floats, heads: Floats, truth: Floats, scale: Floats) -> None:
        """Predictions made for now, one row a lead (NaN row: not yet due), against what came; `scale` normalises."""
        due = np.isfinite(truth) & np.isfinite(heads[:, 0])
        target = np.where(due, truth, np.nan)[:, None]
        self._loss.update(np.abs(predictions - target) / scale[:, None])
        self._meta.update(np.abs(heads - target) / scale[:, None])
        x = np.where(due[:, None], np.nan_to_num((predictions - heads[:, :1]) / scale[:, None]), 0.0)
        x = np.clip(x, -3.0, 3.0)
        error = np.clip(np.where(due, (truth - heads[:, 0]) / scale, 0.0), -3.0, 3.0)
        px = np.einsum("hij,hj->hi", self._p, x)
        gain = px / (self._forget + (x * px).sum(axis=1))[:, None]
        self._beta += gain * (error - (self._beta * x).sum(axis=1))[:, None]
        self._p = (self._p - gain[:, :, None] * px[:, None, :]) / np.where(due, self._forget, 1.0)[:, None, None]
        # Directions that carry nothing must not wind up while the rest forgets.
        trace = np.trace(self._p, axis1=1, axis2=2)
        self._p *= np.minimum(1.0, x.shape[1] / RIDGE / np.maximum(trace, 1e-12))[:, None, None]
