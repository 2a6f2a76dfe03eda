"""The last minutes in memory, so that sparklines and series do not read the file at every tick.

It knows snapshots and nothing of SQLite. The trap: replicas' pages are let go of here (they are the bulk of a
snapshot); who wants a past page asks the database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from opsconsole.domain.records import FleetSnapshot, PoolView

KEEP_S = 600.0


class Ring:
    """Snapshots of the last `keep_s` seconds, oldest first, without their pages except in the newest."""

    def __init__(self, keep_s: float = KEEP_S) -> None:
        self._keep_s = keep_s
        self._held: deque[FleetSnapshot] = deque()
        self._newest: FleetSnapshot | None = None

    def push(self, snapshot: FleetSnapshot) -> None:
        self._newest = snapshot
        self._held.append(replace(snapshot, replicas=tuple(replace(r, sample=None) for r in snapshot.replicas)))
        while self._held and self._held[0].at < snapshot.at - self._keep_s:
            self._held.popleft()

    @property
    def newest(self) -> FleetSnapshot | None:
        return self._newest

    def covers(self, since: float) -> bool:
        """Whether everything since then is still here."""
        return bool(self._held) and self._held[0].at <= since

    def since(self, at: float) -> tuple[FleetSnapshot, ...]:
        return tuple(s for s in self._held if s.at >= at)

    def series(self, pool: str, read: Callable[[PoolView], float | None]) -> tuple[tuple[float, float | None], ...]:
        """(time, value) of one figure of one pool; None where it was unknown or the pool was absent."""
        out: list[tuple[float, float | None]] = []
        for snapshot in self._held:
            view = snapshot.pool(pool)
            out.append((snapshot.at, None if view is None else read(view)))
        return tuple(out)
