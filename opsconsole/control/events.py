"""What happened to replicas between two ticks, as journal lines: came, left, became useful, restarted, fell silent.

Pure. Load states (OK, HOT, SAT) change with every burst and are not told; the grid shows them. The trap: replicas of a
pool whose source fails have not left, so nothing is said to be gone while a source is failing.
"""

from __future__ import annotations

from opsconsole.domain.records import FleetSnapshot, JournalEntry, ReplicaState, ReplicaView

_QUIET = (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED)


def replica_events(before: FleetSnapshot | None, after: FleetSnapshot) -> tuple[JournalEntry, ...]:
    """Journal lines for what changed; nothing for the first tick of all."""
    if before is None:
        return ()
    old = {(r.pool, r.replica): r for r in before.replicas}
    new = {(r.pool, r.replica): r for r in after.replicas}
    lines = [(view.pool, text) for key, view in new.items() if (text := _change(old.get(key), view, after.at))]
    if all(s.ok for s in after.sources):
        lines += [(view.pool, f"{view.replica} left") for key, view in old.items() if key not in new]
    return tuple(JournalEntry(0, after.at, "replica", pool, text, after.tick) for pool, text in lines)


def _change(old: ReplicaView | None, new: ReplicaView, now: float) -> str | None:
    if old is None:
        return f"{new.replica} appeared: {new.state.value}, {new.why}"
    if _restarted(old, new):
        return f"{new.replica} restarted"
    if old.state is new.state or (old.state in _QUIET and new.state in _QUIET):
        return None
    if old.state is ReplicaState.WARMING and new.state in _QUIET:
        took = f" {now - new.started_at:.1f} s after its start" if new.started_at is not None else ""
        return f"{new.replica} is ready{took}"
    if new.state in _QUIET:
        return f"{new.replica} is back: {new.why}"
    return f"{new.replica} is {new.state.value}: {new.why}"


def _restarted(old: ReplicaView, new: ReplicaView) -> bool:
    had = old.sample.process_start if old.sample else None
    has = new.sample.process_start if new.sample else None
    return had is not None and has is not None and has > had + 0.5
