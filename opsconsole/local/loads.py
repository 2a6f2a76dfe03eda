"""The built-in loads, as fractions of what one worker sustains, so that they mean the same on every machine.

Pure. Trap: a built-in load has a shape with times of its own; a run that ends earlier sees only its beginning.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from opsconsole.bench.arrivals import Arrival, Phase, diurnal, phased, poisson, read_trace
from opsconsole.errors import UsageError

LOADS = {
    "steady": "0.6x of what one worker sustains",
    "diurnal": "between 0.1x and 1.5x, a day in four minutes (--day)",
    "burst": "20 s at 0.5x, 30 s at 1.4x, then 0.1x",
}
STEADY = 0.6
DAY_SECONDS, NIGHT, NOON = 240.0, 0.1, 1.5
REAL_DAY = 86_400.0
BURST = ((20.0, 0.5), (30.0, 1.4))
AFTER_BURST = 0.1
TRACE_MEAN = 0.6


def check_load(name: str) -> str:
    """The name, or a sentence why there is no such load."""
    if name not in LOADS and not Path(name).is_file():
        raise UsageError(f"--load {name} is neither a file nor one of {', '.join(LOADS)}")
    return name


def time_scale(name: str | None, day: float) -> float:
    """How much faster the load's days go than real ones, for what reckons in hours and days."""
    return REAL_DAY / day if name == "diurnal" else 1.0


def draw_load(
    name: str, sustained: float, seconds: float, draw: Random, day: float = DAY_SECONDS
) -> tuple[Arrival, ...]:
    """Arrivals for `seconds` on a machine whose one worker sustains `sustained` requests/s."""
    if name == "steady":
        return poisson(STEADY * sustained, seconds, draw)
    if name == "diurnal":
        return diurnal(NIGHT * sustained, NOON * sustained, seconds, draw, period=day)
    if name == "burst":
        return phased(_burst(sustained, seconds), draw)
    return read_trace(Path(name), seconds, draw, rate=TRACE_MEAN * sustained)


def _burst(sustained: float, seconds: float) -> list[Phase]:
    phases, left = [], seconds
    for length, level in (*BURST, (seconds, AFTER_BURST)):
        phases.append(Phase(min(length, left), level * sustained))
        left -= phases[-1].seconds
    return [phase for phase in phases if phase.seconds > 0]
