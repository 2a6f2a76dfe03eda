"""Loads made here for those who have no trace: a day's wave, a walk with steps, bursts on a clock, a flash crowd.

All follow from a seed. They show how laws behave and prove nothing about anybody's traffic, and every report says so
beside their name. The trap: counts are Poisson around the wanted rate, so a small rate is mostly noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from opsconsole.errors import UsageError
from opsconsole.simulate.traces import BIN_S, Floats, Kind, Trace

DAY_S = 86400.0
PREFIX = "synthetic:"


def synthetic(name: str, seed: int, days: float = 7.0) -> Trace:
    """The load of that name, about 20 requests/s on average."""
    if name not in SHAPES:
        raise UsageError(f"{PREFIX}{name} is unknown: there are {', '.join(PREFIX + n for n in SHAPES)}.")
    draw = np.random.default_rng(seed)
    times: Floats = np.arange(round(days * DAY_S / BIN_S), dtype=np.float64) * BIN_S
    rate = SHAPES[name](times, draw)
    return Trace(name, Kind.SYNTHETIC, BIN_S, draw.poisson(rate * BIN_S).astype(np.float64))


def _diurnal(times: Floats, draw: np.random.Generator) -> Floats:
    """One wave a day, quieter at weekends, with slow noise."""
    phase = 2 * np.pi * (times / DAY_S - 0.25)
    weekend = np.where((times // DAY_S) % 7 >= 5, 0.7, 1.0)
    return 20.0 * weekend * (1.0 + 0.6 * np.sin(phase)) * np.exp(_slow(times.size, 0.1, draw))


def _walk(times: Floats, draw: np.random.Generator) -> Floats:
    """A walk with steps, as clients come and go: nothing to be known but the level."""
    return 20.0 * np.exp(_slow(times.size, 0.35, draw)) * (1.0 + _steps(times, draw))


def _bursts(times: Floats, draw: np.random.Generator) -> Floats:
    """Four times the load for nine minutes at some of the half hours, on a calm wave."""
    calm = 12.0 * (1.0 + 0.3 * np.sin(2 * np.pi * times / DAY_S))
    slots = (times // 1800).astype(np.int64)
    on = draw.random(int(slots.max()) + 1) < 0.25
    return calm * np.where(on[slots] & (times % 1800 < 540), 4.0, 1.0)


def _flash(times: Floats, draw: np.random.Generator) -> Floats:
    """A day's wave with one crowd of six times the load that builds up over 20 minutes and ebbs over three hours."""
    since = times - 0.6 * times[-1]
    crowd = np.where(
        since > 0, np.minimum(1.0, since / 1200.0) * np.exp(-np.maximum(0.0, since - 1200.0) / 5400.0), 0.0
    )
    return _diurnal(times, draw) * (1.0 + 5.0 * crowd)


def _slow(count: int, spread: float, draw: np.random.Generator) -> Floats:
    """A mean-reverting walk in logarithms, half-life about 40 minutes."""
    keep = 0.5 ** (BIN_S / 2400.0)
    drive = draw.normal(0.0, spread * np.sqrt(1 - keep * keep), count)
    out = np.empty(count)
    level = 0.0
    for i, push in enumerate(drive):
        level = keep * level + push
        out[i] = level
    return out


def _steps(times: Floats, draw: np.random.Generator) -> Floats:
    """Clients that add a third of the load for an hour or so, four a day."""
    added = np.zeros(times.size)
    for _ in range(max(1, round(4 * times[-1] / DAY_S))):
        start, length = draw.uniform(0, times[-1]), draw.exponential(3600.0)
        added[(times >= start) & (times < start + length)] += 0.35
    return added


SHAPES: Mapping[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "diurnal": _diurnal,
    "walk": _walk,
    "bursts": _bursts,
    "flash": _flash,
}
