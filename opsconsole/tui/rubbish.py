"""Python's collector of cyclic rubbish, kept from stopping the screen under somebody's fingers.

A thousand replicas are two hundred thousand objects; looking through all of them takes 50 to 100 ms, by default every
few seconds and whenever it likes. So what is there once the console stands is set aside, the small rounds come seldom,
and the round through everything comes when nobody has pressed a key for a moment. It must not be used where the process
is somebody else's. The trap: without any round through everything, whatever forms a ring stays for ever.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from opsconsole.clock import Clock

YOUNG, ROUNDS = 50_000, 10
WHOLE_S, IDLE_S, LATEST_S = 60.0, 3.0, 900.0


async def keep_away(clock: Clock, pressed_at: Callable[[], float]) -> None:
    """Collect only at idle moments, for as long as this is awaited; `pressed_at` is by the monotonic clock."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG, ROUNDS, 1_000_000)
    swept = clock.monotonic()
    try:
        while True:
            await clock.sleep(IDLE_S)
            now = clock.monotonic()
            since = now - swept
            if since >= LATEST_S or (since >= WHOLE_S and now - pressed_at() >= IDLE_S):
                gc.collect()
                swept = now
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
