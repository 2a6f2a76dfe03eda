"""One decision and no daemon: on live sources after a few looks, or at a moment of a recording.

The same loop as the agent's, with a database that is thrown away and an actuator that refuses. The trap: a decision
rests on what came before it, so the past is fed through the loop first; of a recording, the ten minutes before.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from opsconsole.clock import Clock, SystemClock
from opsconsole.config import Loaded
from opsconsole.control.agent import Parts, compose
from opsconsole.control.configured import agent_settings, sources
from opsconsole.control.replay import Span, replaying
from opsconsole.control.settings import Mode
from opsconsole.domain.records import TickRecord
from opsconsole.errors import RecordingError
from opsconsole.history.reader import Reader
from opsconsole.history.store import Store

LOOKS = 3
LOOK_EVERY_S = 1.0
BEFORE_S = 600.0


async def decide_live(loaded: Loaded, clock: Clock | None = None) -> TickRecord:
    """Look a few times, a second apart, and decide on the last."""
    ticking = clock or SystemClock()
    found = tuple(sources(loaded, ticking))
    settings = replace(agent_settings(loaded), mode=Mode.ADVISE, decide_every_s=None)
    try:
        with tempfile.TemporaryDirectory(prefix="opsconsole-once-") as folder:
            settings = replace(settings, data_dir=Path(folder))
            store = Store(settings.database)
            try:
                loop = await compose(settings, Parts(found), store, ticking, threaded=False)
                for _ in range(LOOKS - 1):
                    await loop.tick()
                    await ticking.sleep(LOOK_EVERY_S)
                return await loop.tick()
            finally:
                store.close()
    finally:
        for source in found:
            await source.close()


async def decide_recorded(loaded: Loaded, path: Path, at: float) -> TickRecord:
    """What the loop decides at `at` of a recording: the last tick of a replay of the ten minutes before it."""
    reader = Reader(path)
    try:
        seen = reader.at(at)
        if seen is None or not seen.replicas or seen.at < at - BEFORE_S:
            raise RecordingError(
                f"{path} has no replicas recorded in the ten minutes before that moment: {_reach(reader)}."
            )
    finally:
        reader.close()
    with tempfile.TemporaryDirectory(prefix="opsconsole-once-") as folder:
        async with replaying(path, Span(at - BEFORE_S, at), Path(folder), loaded) as replay:
            async for record in replay.steps():
                last = record
    return last


def _reach(reader: Reader) -> str:
    """From when to when replicas are recorded; older moments keep only the totals of their pools."""
    bounds, first = reader.bounds(), reader.replicas_since()
    if bounds is None or first is None:
        return "none are recorded at all"
    begin, end = (datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds") for at in (first, bounds.last))
    return f"they reach from {begin} to {end}"
