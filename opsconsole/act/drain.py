"""Draining one replica, as a pure state machine: stop routing, wait for streams or the deadline, remove.

Every world drains by these rules (a supervisor, a cluster); what "stop routing" and "remove" mean there is theirs. It
knows no clock: `now` and the number of running streams come in, the next state goes out, and the state is plain data,
so a drain under way survives a restart. The trap: a router may have placed a request just before it heard of the
drain, so one reading of no streams is not the end; the replica must stay idle for `settle_s`. Unknown is not idle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Phase(StrEnum):
    """How far a drain is. The value is the word shown to the user."""

    WAITING = "waiting for its streams"
    IDLE = "idle, may be removed"
    OVERDUE = "past its deadline, may be removed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Drain:
    """One replica on its way out. Times are Unix seconds, durations seconds."""

    replica: str
    began_at: float
    deadline_s: float
    settle_s: float = 1.0
    streams_at_risk: int | None = None  # running when it began
    streams: int | None = None  # running as last seen; None is unknown
    idle_since: float | None = None
    phase: Phase = Phase.WAITING
    streams_cut: int = 0

    @property
    def may_remove(self) -> bool:
        return self.phase in (Phase.IDLE, Phase.OVERDUE)

    @property
    def text(self) -> str:
        """The state in words."""
        count = "an unknown number of" if self.streams is None else str(self.streams)
        left = f"{count} {'stream' if self.streams == 1 else 'streams'} left"
        if self.phase is Phase.WAITING:
            return f"{self.replica}: {left}"
        if self.phase is Phase.OVERDUE:
            return f"{self.replica}: {left} after {self.deadline_s:.0f} s, cut"
        return f"{self.replica}: {self.phase.value}"


def begin(replica: str, now: float, deadline_s: float, streams: int | None, settle_s: float = 1.0) -> Drain:
    return Drain(replica, now, deadline_s, settle_s, streams_at_risk=streams, streams=streams)


def advance(drain: Drain, now: float, streams: int | None, *, exists: bool = True) -> Drain:
    """The drain after one more look. `exists` is False once the world no longer has the replica."""
    if drain.phase is Phase.GONE:
        return drain
    if not exists:
        # Streams that were running when it vanished by itself are counted as cut: nobody saw them end.
        lost = drain.streams_cut if drain.may_remove else (drain.streams or 0)
        return replace(drain, phase=Phase.GONE, streams_cut=lost)
    idle_since = drain.idle_since
    if streams is not None:
        idle_since = (now if idle_since is None else idle_since) if streams == 0 else None
    at_risk = streams if drain.streams_at_risk is None else drain.streams_at_risk
    seen = replace(drain, streams=streams, idle_since=idle_since, streams_at_risk=at_risk)
    if idle_since is not None and streams == 0 and now - idle_since >= drain.settle_s:
        return replace(seen, phase=Phase.IDLE, streams_cut=0)
    if now - drain.began_at >= drain.deadline_s:
        # What is cut is what still ran at the deadline; what nobody could tell counts as what was last known.
        last = drain.streams if streams is None else streams
        return replace(seen, phase=Phase.OVERDUE, streams_cut=last or 0)
    return replace(seen, phase=Phase.WAITING)


def settled(drains: tuple[Drain, ...]) -> bool:
    """Whether every one of them is gone."""
    return all(d.phase is Phase.GONE for d in drains)


def cut(drains: tuple[Drain, ...]) -> int:
    """Streams cut by all of them together."""
    return sum(d.streams_cut for d in drains)
