"""The Kubernetes HPA v2 algorithm: metric laws, combination, and behaviour (stabilisation, then rates).

As in horizontal.go and replica_calculator.go: sync 15 s, tolerance 0.1, down window 300 s, up window 0 s. It must not
know what the metric means. The trap: for non-CPU metrics readiness is not checked, so a loading replica that reports 0
is counted, and one that reports nothing counts as the target when shrinking and as zero when growing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from policies.memory import Memory

TOLERANCE = 0.1
SYNC_S = 15.0


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """At most `pods` or `percent` of change in `period_s`."""

    period_s: float = 15.0
    pods: int | None = None
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The `behavior` block; the defaults are Kubernetes' own."""

    up_window_s: float = 0.0
    down_window_s: float = 300.0
    up: tuple[RatePolicy, ...] = (RatePolicy(percent=100.0), RatePolicy(pods=4))
    down: tuple[RatePolicy, ...] = (RatePolicy(percent=100.0),)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod's sample; None is missing. Pending pods are ignored, others without a sample are missing."""

    value: float | None
    pending: bool = False


def pods_metric(pods: Sequence[Pod], target: float, current: int, tolerance: float = TOLERANCE) -> int | None:
    """Law 1: the per-pod series. None is an error: the metric contributes nothing."""
    counted = [p.value for p in pods if not p.pending and p.value is not None]
    ignored = sum(1 for p in pods if p.pending)
    missing = sum(1 for p in pods if not p.pending and p.value is None)
    if not counted:
        return None
    ratio = sum(counted) / len(counted) / target
    if not missing and not (ignored and ratio > 1):
        return current if abs(1 - ratio) <= tolerance else _ceil(ratio * len(counted))
    filled = list(counted) + [target if ratio < 1 else 0.0] * missing
    if ratio > 1:
        filled += [0.0] * ignored
    again = sum(filled) / len(filled) / target
    if abs(1 - again) <= tolerance or (ratio < 1 < again) or (again < 1 < ratio):
        return current
    wants = _ceil(again * len(filled))
    if (again < 1 and wants > current) or (again > 1 and wants < current):
        return current
    return wants


def value_metric(value: float, target: float, ready: int, current: int, tolerance: float = TOLERANCE) -> int:
    """Law 3, Object or External with a Value target: ceil(r x ready). Zero ready gives zero."""
    ratio = value / target
    if current == 0:
        return _ceil(ratio)
    return current if abs(1 - ratio) <= tolerance else _ceil(ratio * ready)


def average_metric(total: float, target: float, current: int, tolerance: float = TOLERANCE) -> int:
    """Law 4, Object or External with an AverageValue target: ceil(total / target)."""
    if current > 0 and abs(1 - total / (target * current)) <= tolerance:
        return current
    return _ceil(total / target)


def combine(wants: Sequence[int | None], current: int) -> int | None:
    """The largest; held when some metric failed and the rest would shrink; None when all failed."""
    known = [w for w in wants if w is not None]
    if not known:
        return None
    most = max(known)
    return current if len(known) < len(wants) and most < current else most


def behave(
    memory: Memory, name: str, now: float, current: int, desired: int, behaviour: Behaviour
) -> tuple[int, Memory]:
    """Stabilise over past recommendations, then limit the rate against past changes; remembers both."""
    keep = max(behaviour.up_window_s, behaviour.down_window_s, SYNC_S)
    if not memory.series(f"{name}:recommended"):
        memory = memory.with_rows(
            f"{name}:recommended", ((now, float(current)),)
        )  # a new HPA begins with what is there
    memory = memory.push(f"{name}:recommended", (now, float(desired)), keep_s=keep)
    rows = memory.series(f"{name}:recommended")
    up = min([desired, *(int(r[1]) for r in rows if r[0] > now - behaviour.up_window_s)])
    down = max([desired, *(int(r[1]) for r in rows if r[0] > now - behaviour.down_window_s)])
    steady = up if current < up else down if current > down else current
    limited = _rate(memory.series(f"{name}:changed"), now, current, steady, behaviour)
    if limited != current:
        periods = [SYNC_S, *(p.period_s for p in (*behaviour.up, *behaviour.down))]
        memory = memory.push(f"{name}:changed", (now, float(limited - current)), keep_s=max(periods))
    return limited, memory


def _rate(changes: Sequence[tuple[float, ...]], now: float, current: int, wants: int, behaviour: Behaviour) -> int:
    if wants > current:
        tops = []
        for policy in behaviour.up:
            added = sum(c[1] for c in changes if c[1] > 0 and c[0] > now - policy.period_s)
            start = current - int(added)
            if policy.pods is not None:
                tops.append(start + policy.pods)
            if policy.percent is not None:
                tops.append(_ceil(start * (1 + policy.percent / 100)))
        return max(current, min(wants, max(tops))) if tops else wants
    if wants < current:
        bottoms = []
        for policy in behaviour.down:
            removed = sum(-c[1] for c in changes if c[1] < 0 and c[0] > now - policy.period_s)
            start = current + int(removed)
            if policy.pods is not None:
                bottoms.append(start - policy.pods)
            if policy.percent is not None:
                bottoms.append(math.trunc(start * (1 - policy.percent / 100)))
        return min(current, max(wants, min(bottoms))) if bottoms else wants
    return current


def _ceil(x: float) -> int:
    return math.ceil(x - 1e-9)
