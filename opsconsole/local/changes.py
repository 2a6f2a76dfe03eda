"""What the supervisor is asked to change, and how far each change has come.

Values and bookkeeping only. Trap: a change may be asked for twice (an agent that restarted does not know whether its
word arrived); the second time it is answered with what became of the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opsconsole.local.workers import Phase, Workers

ACTS_KEPT = 500


@dataclass(frozen=True, slots=True)
class Change:
    """One wish. `version` is the world it was made for; None means any."""

    kind: str  # scale | drain | undrain
    act_id: str
    want: int | None = None
    names: tuple[str, ...] = ()
    version: str | None = None
    deadline_s: float | None = None
    decided_at: float | None = None  # Unix seconds


@dataclass(slots=True)
class Act:
    """A change that was taken, and the workers it is about."""

    kind: str
    at: float
    coming: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    returning: tuple[str, ...] = ()
    ended_at: float | None = None
    detail: str = ""
    cut: int = 0


@dataclass(slots=True)
class Acts:
    """All changes taken, newest last."""

    cuts: dict[str, int] = field(default_factory=dict)  # streams cut, by worker that has gone
    _all: dict[str, Act] = field(default_factory=dict)

    def __contains__(self, act_id: str) -> bool:
        return act_id in self._all

    def take(self, act_id: str, act: Act) -> None:
        self._all[act_id] = act
        for old in list(self._all)[:-ACTS_KEPT]:
            del self._all[old]

    def follow(self, act_id: str, workers: Workers, now: float) -> dict[str, Any] | None:
        """How far a change has come; None for one never taken."""
        act = self._all.get(act_id)
        if act is None:
            return None
        if act.ended_at is None:
            waiting = [name for name in act.coming if (w := workers.get(name)) is not None and not w.is_ready]
            waiting += [name for name in act.leaving if (w := workers.get(name)) is not None and w.phase is Phase.DRAIN]
            act.cut = sum(self.cuts.get(name, 0) for name in act.leaving)
            act.detail = f"waiting for {', '.join(waiting)}" if waiting else _words(act, workers)
            act.ended_at = None if waiting else now
        status = "running" if act.ended_at is None else "done"
        return {"status": status, "at": act.ended_at or now, "detail": act.detail, "streams_cut": act.cut}


def _words(act: Act, workers: Workers) -> str:
    """What came of it; a later change may have undone a part."""
    useful, withdrawn = _parted(act.coming, workers)
    taken_back, gone = _parted(act.leaving, workers)
    cut = f"{act.cut} stream{'' if act.cut == 1 else 's'} cut"
    parts = (
        (useful, "useful"),
        (withdrawn, "gone before it was useful"),
        (gone, f"gone, {cut}"),
        (taken_back, "taken back before it was gone"),
        (act.returning, "serving again"),
    )
    return "; ".join(f"{', '.join(names)} {word}" for names, word in parts if names) or "nothing was to be done"


def _parted(names: tuple[str, ...], workers: Workers) -> tuple[list[str], list[str]]:
    """Those that are still there, and those that are not."""
    there = [name for name in names if workers.get(name) is not None]
    return there, [name for name in names if name not in there]
