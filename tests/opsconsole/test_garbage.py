"""Cycles are looked for when there is time, and found."""

from __future__ import annotations

import asyncio
import gc
import weakref

from opsconsole.clock import ManualClock
from opsconsole.garbage import EVERY_S, Collector


class Knot:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_freed_at_a_rest_once_in_a_while_and_not_before() -> None:
    clock = ManualClock()
    collector = Collector(clock)
    try:
        assert not gc.isenabled()
        knot = weakref.ref(Knot())
        collector.rest()
        assert knot() is not None
        asyncio.run(clock.advance(EVERY_S))
        collector.rest()
        assert knot() is None
    finally:
        collector.close()
    assert gc.isenabled() and gc.get_freeze_count() == 0
