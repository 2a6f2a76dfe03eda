"""A recording as a source: the loop runs on what was seen before, on a clock that tells the recording's time.

It must not decide or show. Samples keep the times they were read at, so every age and rate comes out as it did. The
trap: a replica that was silent in the recording must be silent again; its last sample is history, not an answer. A
source that failed then fails again, or what it could not tell would read as gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from opsconsole.clock import Clock
from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView, SourceView
from opsconsole.errors import RecordingError, SourceError, SourceErrorKind
from opsconsole.observe.source import Observation, ReplicaRef


class Recording(Protocol):
    """What is asked of a recording; `history.reader.Reader` is one."""

    def at(self, at: float) -> FleetSnapshot | None: ...
    def close(self) -> None: ...


class ReplayClock:
    """A `Clock` that begins at `start` and runs `speed` times as fast as the one beneath."""

    def __init__(self, beneath: Clock, start: float, speed: float = 1.0) -> None:
        if speed <= 0:
            raise RecordingError(f"A replay cannot run at {speed:g} times the speed: give a number above 0.")
        self._beneath, self._start, self.speed = beneath, start, speed
        self._zero = beneath.monotonic()

    def now(self) -> float:
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        return (self._beneath.monotonic() - self._zero) * self.speed

    async def sleep(self, seconds: float) -> None:
        await self._beneath.sleep(seconds / self.speed)


class RecordedSource:
    """A `Source` over a recording; `now` of an observation is the recording's time."""

    def __init__(
        self, recording: Recording, clock: Clock, ends_at: float | None = None, name: str = "recording"
    ) -> None:
        self.name = name
        self._recording, self._clock, self._ends_at = recording, clock, ends_at
        self._seen_at: float | None = None
        self._error: str | None = None
        self._failed: SourceView | None = None  # a source that failed then

    async def observe(self, now: float) -> tuple[Observation, ...]:
        try:
            snapshot = self._recording.at(now)
        except RecordingError as error:
            self._error = str(error)
            return ()
        self._error = None
        if snapshot is None:
            return ()
        self._seen_at = snapshot.at
        self._failed = next((source for source in snapshot.sources if not source.ok), None)
        return tuple(as_observed(view, snapshot) for view in snapshot.replicas)

    def status(self) -> SourceView:
        now = self._clock.now()
        age = None if self._seen_at is None else max(0.0, now - self._seen_at)
        if self._error is not None:
            return SourceView(self.name, "recording", False, age, self._error, SourceErrorKind.INTERNAL.value)
        if self._ends_at is not None and now > self._ends_at:
            return SourceView(self.name, "recording", False, age, "the recording has ended", SourceErrorKind.GONE.value)
        if self._failed is not None:
            return replace(self._failed, name=self.name)
        return SourceView(self.name, "recording", self._seen_at is not None, age)

    async def close(self) -> None:
        self._recording.close()


def as_observed(view: ReplicaView, snapshot: FleetSnapshot) -> Observation:
    """What a source must have said for this view to come out."""
    ref = ReplicaRef(view.replica, view.pool, view.url, view.node, view.gpu, view.gpus, view.started_at)
    answered = view.sample is not None and snapshot.at - view.sample.at <= max(2.0, 2 * snapshot.interval)
    error = None
    if view.error is not None or (not answered and view.phase is None):
        error = _error_of(view, snapshot)
    return Observation(
        ref,
        view.sample if answered else None,
        error,
        ready=view.sample.ready if view.sample is not None else None,
        draining=True if view.state is ReplicaState.DRAINING else None,
        phase=view.phase,
        expected_ready_at=view.expected_ready_at,
    )


def _error_of(view: ReplicaView, snapshot: FleetSnapshot) -> SourceError:
    """The kind stands first in the sentence of an error, where it was kept."""
    words = view.error or "it did not answer in the recording"
    first, _, rest = words.partition(": ")
    known = next((kind for kind in SourceErrorKind if kind.value == first), None)
    since = view.seen_at if view.seen_at is not None else snapshot.at
    return SourceError(known or SourceErrorKind.TIMEOUT, rest if known else words, since)
