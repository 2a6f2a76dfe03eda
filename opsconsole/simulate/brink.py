"""The backlog of a fleet near its limit: within a bin the load comes as chance has it, and no backlog is negative.

Below the limit a bin is long enough for a steady state, known to `latency` in closed form, and a backlog only drains.
From there on the bin is over before the waits are steady. What a bin brings is known, when in the bin is not: around
the even flow it is a Brownian bridge, with the variance that the steady waits imply. Where the path would fall below
zero, replicas had nothing to do, and what comes later is behind by as much (reflection: Harrison, Brownian Motion and
Stochastic Flow Systems, 1985). The trap: a path that ends above zero may have been at zero on the way, so its lowest
point is drawn together with its end.
"""

from __future__ import annotations

import math
from random import Random

from opsconsole.simulate.latency import LIMIT, Latency, jitter, rounded


class Brink:
    """Draws one path. The same seed gives the same chance to laws that are at the limit equally often."""

    def __init__(self, latency: Latency, seed: int) -> None:
        self._latency = latency
        self._draw = Random(f"{seed}:brink")
        self._early = 0.0  # replica-seconds that have come before their even share of the bin

    def after(self, backlog: float, ready: int, work: float, seconds: float, left: float, scale: int) -> float:
        """Replica-seconds behind after `seconds` in which `work` a second fall due; the bin goes on for `left` more."""
        drift = (work - ready) * seconds
        if work < LIMIT * ready or not ready:
            self._early = 0.0
            return max(0.0, backlog + drift)
        variance = jitter(self._latency, rounded(ready), scale) * ready * ready * seconds
        stays = left / (left + seconds)  # a bridge is back at zero when the bin ends
        early = self._early * stays + self._draw.gauss(0.0, math.sqrt(variance * stays))
        moved, self._early = drift + early - self._early, early
        lowest = (moved - math.sqrt(moved * moved - 2.0 * variance * math.log(1.0 - self._draw.random()))) / 2.0
        return backlog + moved - min(0.0, backlog + lowest)
