"""Cost at equal service: GPU-hours where a law's curve crosses the wanted attainment.

Pure arithmetic on (attainment, GPU-hours) points. Interpolation is linear in the logarithm of the misses, which is how
headroom buys service. The trap: a point that another beats on both axes is no offer and must not bend the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LEAST_MISS = 1e-6


@dataclass(frozen=True, slots=True)
class Point:
    """One cell: what it attained, what it cost, and the knob's value."""

    attainment: float
    gpu_hours: float
    knob: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """GPU-hours at the target. `how`: between two points, at least (the cheapest tried already met it), or never."""

    gpu_hours: float | None
    how: Literal["between", "at most", "never"]


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those no other beats, from cheap to dear, attainment rising."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.gpu_hours, -p.attainment)):
        if not kept or point.attainment > kept[-1].attainment:
            kept.append(point)
    return tuple(kept)


def cost_at(points: Sequence[Point], target: float) -> Cost:
    """GPU-hours at `target` on the curve through the front."""
    curve = front(points)
    above = next((i for i, p in enumerate(curve) if p.attainment >= target), None)
    if above is None:
        return Cost(None, "never")
    if above == 0:
        return Cost(curve[0].gpu_hours, "at most")
    low, high = curve[above - 1], curve[above]
    a, b, wanted = _logit(low.attainment), _logit(high.attainment), _logit(target)
    share = (wanted - a) / (b - a) if b > a else 1.0
    return Cost(low.gpu_hours + share * (high.gpu_hours - low.gpu_hours), "between")


def _logit(attainment: float) -> float:
    return -math.log(max(LEAST_MISS, 1.0 - attainment))
