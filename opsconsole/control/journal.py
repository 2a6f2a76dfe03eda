"""The agent's memory on disk: what each tick leaves behind, and what a restart takes back.

It decides what is worth a line and what is worth keeping; `history.store` does the writing, one transaction a tick.
The trap: a decision is a line when its target, its current or its binding rule changed, not when the numbers in its
sentence did, or the journal would be a log of every tick.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from opsconsole.control.alerts import Change, Silence
from opsconsole.control.deciding import Decided
from opsconsole.control.logs import log_entries
from opsconsole.control.mode import Holds, words
from opsconsole.control.regret import STATE_KEY
from opsconsole.control.words import decision_text
from opsconsole.domain.records import AlertView, DecisionView, FleetSnapshot, HoldView, JournalEntry, RegretView
from opsconsole.domain.wire import from_json, to_json
from opsconsole.history.store import DecisionRow, Store

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the last process left: where its ticks ended, memories of the laws, standing orders, silences."""

    last_tick: int
    memories: Mapping[str, str]
    holds: Holds
    silences: tuple[Silence, ...]
    unjudged: str | None = None  # decisions that were not judged yet


class Journal:
    """Writes ticks and people's words; reads back at start."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._told: dict[str, tuple[int, int, str]] = {}  # by pool: current, target, binding last written as a line

    def recover(self) -> Recovered:
        return Recovered(
            self.store.last_tick(),
            self.store.get_state("memory/"),
            Holds(self._items("holds", HoldView)),
            self._items("silences", Silence),
            self.store.get_state(STATE_KEY).get(STATE_KEY),
        )

    def _items(self, key: str, kind: type[T]) -> tuple[T, ...]:
        """What can be read of a row of standing state; the rest, of a newer program or a damaged file, is told."""
        found: list[T] = []
        for item in self._load(key) or ():
            try:
                found.append(from_json(kind, item))
            except ValueError as error:
                log.error("one of the database's %s cannot be read and is forgotten: %s", key, error)
        return tuple(found)

    def _load(self, key: str) -> list[dict[str, object]] | None:
        text = self.store.get_state(key).get(key)
        try:
            found = json.loads(text) if text else None
        except ValueError:
            log.error("the database's %s cannot be read and are forgotten", key)
            return None
        return found if isinstance(found, list) else None

    def write(
        self,
        snapshot: FleetSnapshot,
        decided: Sequence[Decided],
        entries: Sequence[JournalEntry],
        state: Mapping[str, str],
        text: str | None = None,
        regrets: Sequence[RegretView] = (),
    ) -> tuple[JournalEntry, ...]:
        """One tick: snapshot, decisions with their situations, lines, memories, and what became of old decisions."""
        rows = [DecisionRow(d.view, to_json(d.situation), d.memory_delta, self._is_news(d.view)) for d in decided]
        lines = [
            JournalEntry(0, d.view.at, "decision", d.view.pool, decision_text(d.view), snapshot.tick, decision=d.view)
            for d, row in zip(decided, rows, strict=True)
            if row.changed
        ]
        written = self.store.write_tick(snapshot, rows, (*lines, *entries), state, text, regrets)
        for d in decided:
            self._told[d.view.pool] = _mark(d.view)
        return written

    def _is_news(self, view: DecisionView) -> bool:
        return self._told.get(view.pool) != _mark(view)

    def write_holds(self, holds: Holds, order: HoldView) -> None:
        """A standing order, in force from the next tick and after every restart."""
        self.store.put_state("holds", holds.to_json(), order.at)
        self.say(order.at, "mode", order.pool, words(order, order.at), order.by)

    def write_silences(self, silences: Sequence[Silence], newest: Silence, at: float) -> None:
        self.store.put_state("silences", json.dumps([to_json(s) for s in silences]), at)
        about = f"{newest.rule} of {newest.subject}" if newest.subject else newest.rule
        note = f": {newest.note}" if newest.note else ""
        self.say(at, "alert", "", f"{about} silenced for {newest.until - at:.0f} s{note}", newest.by)

    def told(self) -> tuple[AlertView, ...]:
        """The alerts that somebody was told of and that had not ended when the last process did."""
        return self._items("told", AlertView)

    def write_told(self, alerts: Sequence[AlertView], at: float) -> None:
        self.store.put_state("told", json.dumps([to_json(alert) for alert in alerts]), at)

    def say(self, at: float, kind: str, pool: str, text: str, who: str = "auto") -> JournalEntry:
        """One line outside a tick."""
        written = self.store.write_entries([JournalEntry(0, at, kind, pool, text, who=who)])
        log_entries(written)
        return written[0]


def alert_entries(changes: Sequence[Change], snapshot: FleetSnapshot) -> tuple[JournalEntry, ...]:
    return tuple(
        JournalEntry(
            0,
            snapshot.at,
            "alert",
            change.alert.subject.partition("/")[0],
            f"{change.alert.rule} {'fires' if change.fired else 'is over'}: {change.alert.text}",
            snapshot.tick,
        )
        for change in changes
    )


def _mark(view: DecisionView) -> tuple[int, int, str]:
    return (view.current, view.target, view.binding)
