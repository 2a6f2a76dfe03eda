"""Looking back: once a decision's lead has passed, what it should have been against what came.

A decision at t sets the supply from t + lead on, so it is measured by the highest demand from there on for one
interval. It knows decisions and demand and changes nothing. The traps: a demand that could not be read leaves a
decision unjudged, never right; and the capacity is the one known when the decision is judged, because what was learned
since is better.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from opsconsole.domain.records import (
    CapacityView,
    DecisionView,
    FleetSnapshot,
    JournalEntry,
    PoolView,
    RegretTally,
    RegretView,
)
from opsconsole.domain.wire import from_json, to_json
from policies.worth import Rates, together

EVERY_S = 10.0  # a decision that repeats the last is judged this often
KEEP_S = 3600.0  # of judgements, for the tally
MOST_OPEN = 2000
LONGEST_LEAD_S = 7200.0  # a lead beyond this is not waited for
STATE_KEY = "regret/open"
REQUESTS, PROMPT, OUTPUT = "requests/s", "prompt tokens/s", "output tokens/s"
MEASURES = ((REQUESTS, "request_rate"), (PROMPT, "prompt_rate"), (OUTPUT, "output_rate"))


@dataclass(frozen=True, slots=True)
class Open:
    """A decision whose time has not come, or is passing."""

    decision: DecisionView  # without its trace
    interval_s: float  # it is judged over this long from its due time on
    least: int
    most: int
    changed: bool  # it moved the target, so its judgement is a line of the journal
    peak: tuple[tuple[str, float], ...] = ()  # highest demand seen since it was due, by unit

    @property
    def due_at(self) -> float:
        return self.decision.at + (self.decision.lead or 0.0)

    def seen(self, view: PoolView) -> Open:
        """One more reading, unknown where a replica is silent."""
        peaks = dict(self.peak)
        for unit, field_ in MEASURES:
            rate = getattr(view, field_)
            if view.covered and rate is not None:
                peaks[unit] = max(rate, peaks.get(unit, 0.0))
        return replace(self, peak=tuple(peaks.items()))


class Judged(NamedTuple):
    """A judgement and what it is about."""

    regret: RegretView
    about: Open


def judge(open_: Open, capacity: CapacityView | None) -> RegretView | None:
    """What it should have been; None where demand or capacity is unknown."""
    peaks = dict(open_.peak)
    if capacity is None:
        return None
    ratios = {
        unit: peaks[unit] / (per * capacity.low)
        for unit, field_ in MEASURES
        if unit in peaks and (per := getattr(capacity, field_)) is not None and per > 0
    }
    found = combined(ratios, capacity)
    if found is None:
        return None
    worth, unit = found
    decision = open_.decision
    needed = min(open_.most, max(open_.least, math.ceil(worth - 1e-9)))
    regret = RegretView(
        pool=decision.pool,
        decided_at=decision.at,
        due_at=open_.due_at,
        lead=decision.lead or 0.0,
        target=decision.target,
        needed=needed,
        worth=round(worth, 3),
        peak=round(peaks[unit], 3),
        unit=unit,
    )
    return replace(regret, text=words(regret))


def combined(ratios: Mapping[str, float], capacity: CapacityView) -> tuple[float, str] | None:
    """Replicas' worth of all units together, from that of each, and the unit that binds; None where none is known."""
    each = Rates(*(ratios.get(unit) for unit, _ in MEASURES))
    worth = together(each, capacity.prompt_share)
    if worth is None:
        return None
    added = capacity.prompt_share is not None and each.prompt is not None and each.output is not None
    return worth, max((PROMPT, OUTPUT) if added else ratios, key=lambda unit: (ratios[unit], unit))


def words(regret: RegretView) -> str:
    """A judgement as a sentence."""
    off = f"{abs(regret.short)} too {'few' if regret.short > 0 else 'many'}"
    verdict = off if regret.short else "as decided"
    return (
        f"{regret.pool} decided {regret.target} for {regret.lead:.3g} s ahead; {regret.worth:.2g} replicas' worth came "
        f"({regret.peak:.3g} {regret.unit}): {regret.needed} were needed, {verdict}"
    )


@dataclass(slots=True)
class RegretBook:
    """Decisions that wait for their time, and the judgements of the last hour."""

    open: list[Open] = field(default_factory=list)
    _judged: dict[str, deque[RegretView]] = field(default_factory=dict)
    _noted: dict[str, tuple[float, int]] = field(default_factory=dict)  # by pool: when and what was noted last

    def note(self, decisions: Sequence[DecisionView], interval_s: float, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Remember decisions to judge: each that changes what is wanted, and one in a while of the others."""
        for view in decisions:
            at, target = self._noted.get(view.pool, (-math.inf, -1))
            changed = view.target != view.current
            repeats = target == view.target and view.at - at < EVERY_S
            if repeats or view.lead is None or view.lead > LONGEST_LEAD_S or view.pool not in bounds:
                continue
            self._noted[view.pool] = view.at, view.target
            bare = replace(view, trace=(), supply=(), counterfactual={})
            self.open.append(Open(bare, interval_s, *bounds[view.pool], changed))
        del self.open[:-MOST_OPEN]

    def settle(self, snapshot: FleetSnapshot, capacities: Mapping[str, CapacityView]) -> tuple[Judged, ...]:
        """Show the tick to what is due; what has been judged by it."""
        waiting: list[Open] = []
        found: list[Judged] = []
        for item in self.open:
            view = snapshot.pool(item.decision.pool)
            if view is None or snapshot.at < item.due_at:
                waiting.append(item)
                continue
            seen = item.seen(view)
            if snapshot.at < item.due_at + item.interval_s:
                waiting.append(seen)
                continue
            regret = judge(seen, capacities.get(view.pool) or item.decision.capacity)
            if regret is not None:
                self._judged.setdefault(view.pool, deque()).append(regret)
                found.append(Judged(regret, seen))
        self.open = [item for item in waiting if snapshot.at - item.due_at < LONGEST_LEAD_S]
        for kept in self._judged.values():
            while kept and kept[0].due_at < snapshot.at - KEEP_S:
                kept.popleft()
        return tuple(found)

    def tally(self, pool: str) -> RegretTally | None:
        """The last hour's judgements, each weighing as long as it stood."""
        kept = list(self._judged.get(pool, ()))
        if not kept:
            return None
        stood = [min(EVERY_S, after.due_at - this.due_at) for this, after in itertools.pairwise(kept)]
        stood.append(EVERY_S)
        total = sum(stood)

        def mean(values: list[float]) -> float:
            return round(sum(v * s for v, s in zip(values, stood, strict=True)) / total, 4) if total > 0 else 0.0

        return RegretTally(
            len(kept),
            mean([float(r.short == 0) for r in kept]),
            mean([float(max(0, r.short)) for r in kept]),
            mean([float(max(0, -r.short)) for r in kept]),
            kept[0].due_at,
        )

    def to_state(self) -> dict[str, str]:
        """What waits, as a row of standing state: a restart judges what the last process decided."""
        return {STATE_KEY: json.dumps([to_json(item) for item in self.open], separators=(",", ":"))}

    def recall(self, text: str | None) -> None:
        """Take back what `to_state` wrote; what cannot be read is not judged."""
        try:
            self.open = [from_json(Open, item) for item in json.loads(text or "[]")]
        except (ValueError, TypeError):
            self.open = []


def entries(judged: Sequence[Judged], tick: int, at: float) -> tuple[JournalEntry, ...]:
    """Judgements of decisions that moved something, as lines of the journal, each with its decision."""
    return tuple(
        JournalEntry(0, at, "regret", regret.pool, regret.text, tick, decision=replace(item.decision, regret=regret))
        for regret, item in judged
        if item.changed
    )
