"""Asking the laws: one decision a pool, what each baseline would have said, and the memory that comes of it.

It knows policies by name and never what they think. The trap: a law that raises must not move anything: its pool is
held where it is, the error is told, and its memory stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opsconsole.control.delta import difference
from opsconsole.control.settings import PoolSettings
from opsconsole.control.words import decision_view
from opsconsole.domain.records import DecisionView
from policies.compose import picture_of
from policies.decision import Decision, Policy
from policies.memory import Memory
from policies.situation import Situation

log = logging.getLogger(__name__)
Laws = Callable[[str], Policy]


@dataclass(frozen=True, slots=True)
class Decided:
    """One pool's decision with all it was made from."""

    situation: Situation
    view: DecisionView
    memory_delta: Mapping[str, Any]
    error: str | None = None


@dataclass(slots=True)
class Decider:
    """Holds each law's memory by "pool/law" and asks it."""

    laws: Laws
    baselines: tuple[str, ...] = ()
    memories: dict[str, Memory] = field(default_factory=dict)

    def decide(self, situation: Situation, pool: PoolSettings) -> Decided:
        before = self.memories.get(_key(pool.name, pool.policy), Memory())
        try:
            decision, after = self.laws(pool.policy).decide(situation, before)
        except Exception as error:
            log.exception("law %s raised for pool %s", pool.policy, pool.name)
            words = f"law {pool.policy} failed ({type(error).__name__}: {error}); nothing is changed"
            held = Decision(pool.name, situation.want, situation.want, "error", words, held=True)
            return Decided(situation, decision_view(held, situation.now), {}, words)
        self.memories[_key(pool.name, pool.policy)] = after
        names = (name for name in self.baselines if name != pool.policy)
        others = {name: target for name in names if (target := self._other(name, situation, pool)) is not None}
        delta = {} if after is before else difference(_plain(before), _plain(after))
        view = decision_view(decision, situation.now, others, picture_of(situation, after))
        return Decided(situation, view, delta)

    def _other(self, name: str, situation: Situation, pool: PoolSettings) -> int | None:
        key = _key(pool.name, name)
        try:
            decision, self.memories[key] = self.laws(name).decide(situation, self.memories.get(key, Memory()))
        except Exception:
            log.exception("baseline %s raised for pool %s", name, pool.name)
            return None
        return decision.target

    def to_state(self) -> dict[str, str]:
        """The memories as rows of standing state."""
        return {f"memory/{key}": memory.to_json() for key, memory in self.memories.items()}

    def recall(self, state: Mapping[str, str]) -> tuple[str, ...]:
        """Take memories back from rows of standing state; sentences about those that cannot be read."""
        problems: list[str] = []
        for key, text in state.items():
            try:
                self.memories[key.removeprefix("memory/")] = Memory.from_json(text)
            except ValueError as error:
                problems.append(f"{key}: {error}")
        return tuple(problems)


def _key(pool: str, law: str) -> str:
    return f"{pool}/{law}"


def _plain(memory: Memory) -> dict[str, Any]:
    return {"rows": dict(memory.rows), "since": dict(memory.since)}
