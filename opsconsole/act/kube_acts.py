"""What a leader has under way in a cluster, as plain values that survive it: acts and the pods on their way out.

Pure. Kept in the Lease, so the next leader goes on where the last one fell. The trap: an act that was begun and not
written may or may not have reached the cluster; only the scale itself says, so `written` is a claim about this record
and never a reason to write again without looking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from opsconsole.act.drain import Drain, Phase
from opsconsole.domain.records import Outcome, PlanKind
from opsconsole.domain.wire import from_json, to_json

MOST = 24  # acts kept; the oldest that have ended go first
KEEP_S = 1800.0  # an ended act may be asked for this long


@dataclass(frozen=True, slots=True)
class Act:
    """One plan being carried out. `target` is the count that the scale is brought to."""

    plan_id: str
    pool: str
    kind: PlanKind
    origin: int  # replicas asked for when it was begun
    target: int
    at: float
    by: str
    reason: str = ""
    drains: tuple[Drain, ...] = ()
    written: bool = False  # the scale has been brought to `target`
    written_at: float | None = None
    uid: str = ""  # of the object it was begun on; one made anew under the same name is another
    others: tuple[str, ...] = ()  # pods that stood beside the chosen ones when it was written
    status: str = "running"
    detail: str = ""
    ended_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def leaving(self) -> tuple[str, ...]:
        """Pods it will remove and has not yet asked the cluster to."""
        return tuple(d.replica for d in self.drains) if self.is_open and not self.written else ()

    @property
    def cut(self) -> int:
        return sum(d.streams_cut for d in self.drains)

    def outcome(self, now: float) -> Outcome:
        status = "running" if self.is_open else self.status
        return Outcome(
            self.plan_id, status, now if self.ended_at is None else self.ended_at, self.detail, self.cut, self.by
        )

    def ended(self, status: str, detail: str, now: float) -> Act:
        return replace(self, status=status, detail=detail, ended_at=now)


@dataclass(frozen=True, slots=True)
class Acts:
    """All acts that are remembered, by plan id, in the order they were begun."""

    items: Mapping[str, Act]

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Acts:
        """From the Lease. What cannot be read (another version wrote it) is left out."""
        found = {}
        for plan_id, data in told.items():
            try:
                found[plan_id] = from_json(Act, data)
            except (ValueError, TypeError, KeyError):
                continue
        return cls(found)

    def to_json(self) -> dict[str, Any]:
        return {plan_id: to_json(act) for plan_id, act in self.items.items()}

    def with_act(self, act: Act, now: float) -> Acts:
        items = {**self.items, act.plan_id: act}
        kept = {k: a for k, a in items.items() if a.ended_at is None or now - a.ended_at < KEEP_S}
        over = [k for k, a in kept.items() if not a.is_open][: max(0, len(kept) - MOST)]
        return Acts({k: a for k, a in kept.items() if k not in over})

    def open_of(self, pool: str) -> tuple[Act, ...]:
        return tuple(a for a in self.items.values() if a.pool == pool and a.is_open)

    def leaving(self, pool: str) -> tuple[str, ...]:
        """Pods of the pool on their way out whose removal the scale does not show yet."""
        return tuple(name for act in self.open_of(pool) for name in act.leaving)


def gone_words(act: Act, taken: str) -> str:
    """What became of the chosen pods, and which others went in their place, in words; empty for none."""
    names = ", ".join(d.replica for d in act.drains)
    cut = f", {act.cut} streams cut" if act.cut else ", no stream was cut"
    late = [d.replica for d in act.drains if d.phase is Phase.OVERDUE]
    told = f"{names} went{cut}"
    if late:
        told += f"; {', '.join(late)} did not come to rest before the deadline"
    if taken:
        told += f"; the cluster took {taken} as well"
    return told
