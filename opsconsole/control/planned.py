"""Forecasts that a law asks for by name (`needs`): one value for the next interval of 180 s, made in the worker.

For laws of others that are asked beside our own. It counts requests by interval and knows nothing of how a planner
works. The trap: an interval of which less than half was seen is no observation, or a restart would look like a night.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from forecaster.planners import INTERVAL_S, KEEP, PLANNERS, next_interval
from forecaster.worker import Worker
from policies.situation import Outlook

UNIT = "requests/s"
DEADLINE_S = 60.0


class Planned:
    """One pool's named forecasts."""

    def __init__(self, pool: str, needs: Sequence[str], worker: Worker) -> None:
        self._pool, self._worker = pool, worker
        self._needs = tuple(name for name in needs if name in PLANNERS)
        self._counts: deque[float] = deque(maxlen=KEEP)
        self._open: int | None = None
        self._seen: list[tuple[float, float]] = []  # readings of the open interval
        self._said: dict[str, Outlook] = {}

    def add(self, at: float, rate: float | None) -> None:
        """One tick's demand."""
        if not self._needs:
            return
        for name in self._needs:
            self._take(name)
        slot = int(at // INTERVAL_S)
        if self._open is not None and slot > self._open:
            self._close()
        self._open = slot
        if rate is not None:
            self._seen.append((at, rate))

    def outlooks(self) -> Mapping[str, Outlook]:
        """By "name:unit", those that have been made."""
        return self._said

    def _close(self) -> None:
        seen, self._seen = self._seen, []
        if len(seen) < 2 or seen[-1][0] - seen[0][0] < INTERVAL_S / 2:
            return
        self._counts.append(INTERVAL_S * sum(rate for _, rate in seen) / len(seen))
        for name in self._needs:
            self._worker.ask(self._key(name), next_interval, name, np.array(self._counts), deadline_s=DEADLINE_S)

    def _take(self, name: str) -> None:
        answer = self._worker.take(self._key(name))
        if answer is not None and answer.error is None:
            said = Outlook((INTERVAL_S,), (0.5,), ((round(answer.value, 6),),), UNIT, name)
            self._said = {**self._said, f"{name}:{UNIT}": said}

    def _key(self, name: str) -> str:
        return f"plan/{self._pool}/{name}"
