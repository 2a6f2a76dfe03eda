"""What each step of a tick took, told to the meter.

The trap: CPU time is the whole process's, so work of other threads during a tick counts as the tick's.
"""

from __future__ import annotations

import os

from opsconsole.clock import Clock
from opsconsole.control.meter import Meter


class Stopwatch:
    """Laps within one tick."""

    def __init__(self, clock: Clock, meter: Meter) -> None:
        self._clock, self._meter = clock, meter
        self._start = self._last = clock.monotonic()
        self._cpu = _cpu_seconds()

    def lap(self, step: str) -> None:
        now = self._clock.monotonic()
        self._meter.step(step, now - self._last)
        self._last = now

    def finish(self, late_s: float) -> None:
        self._meter.tick(self._clock.monotonic() - self._start, _cpu_seconds() - self._cpu, late_s)


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system
