"""When Python looks for cycles among the objects of a process that ticks: between ticks, and seldom.

What a tick leaves behind is freed by reference counts; next to nothing of it is a cycle. By default Python looks after
every 700 new objects, which costs a tenth of a tick at a thousand replicas, and through everything every so often,
which stops the process for a quarter of a second in the middle of a tick. The trap: never to look would let the few
cycles (failed connections and their tracebacks) pile up for weeks.
"""

from __future__ import annotations

import gc

from opsconsole.clock import Clock

EVERY_S = 60.0


class Collector:
    """Python's own collector, made to wait until it is told that there is time."""

    def __init__(self, clock: Clock) -> None:
        """To be made once what the process needs is loaded: that stays, and is not looked at again."""
        self._clock = clock
        self._at = clock.monotonic()
        gc.collect()
        gc.freeze()
        gc.disable()

    def rest(self) -> None:
        """Nothing is urgent just now."""
        now = self._clock.monotonic()
        if now - self._at >= EVERY_S:
            self._at = now
            gc.collect()

    def close(self) -> None:
        """Leave the process as it was."""
        gc.enable()
        gc.unfreeze()
