"""Asking the laws: one decision a pool, what each baseline would have said, and the memory that comes of it.

It knows policies by name and never what they think. The trap: a law that raises must not move anything: its pool is
held where it is, the error is told, and its memory stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opsconsole.control.delta import difference
from opsconsole.control.first_starts import FirstStarts
from opsconsole.control.settings import Budget, PoolSettings
from opsconsole.control.words import decision_view
from opsconsole.domain.records import DecisionView
from policies.compose import picture_of
from policies.decision import Decision, Policy
from policies.memory import Memory
from policies.pools import within
from policies.predictive import level_of
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


class _Answer(NamedTuple):
    """What a law said of one pool, and its memory before and after."""

    decision: Decision
    before: Memory
    after: Memory
    error: str | None = None


@dataclass(slots=True)
class Decider:
    """Holds each law's memory by "pool/law" and asks it."""

    laws: Laws
    baselines: tuple[str, ...] = ()
    memories: dict[str, Memory] = field(default_factory=dict)
    _starts: FirstStarts = field(default_factory=FirstStarts)

    def decide(
        self, asked: Sequence[tuple[Situation, PoolSettings]], budgets: Sequence[Budget] = ()
    ) -> tuple[Decided, ...]:
        """One decision a pool; pools that share a budget of GPUs get what is left of what they want."""
        answers = {pool.name: self._ask(situation, pool) for situation, pool in asked}
        for budget in budgets:
            self._share(budget, asked, answers)
        decided = tuple(self._decided(situation, pool, answers[pool.name]) for situation, pool in asked)
        for situation, _ in asked:
            self._starts.see(situation)
        return decided

    def _ask(self, situation: Situation, pool: PoolSettings) -> _Answer:
        before = self.memories.get(_key(pool.name, pool.policy), Memory())
        try:
            decision, after = self.laws(pool.policy).decide(situation, self._starts.teaching(before, situation))
        except Exception as error:
            log.exception("law %s raised for pool %s", pool.policy, pool.name)
            words = f"law {pool.policy} failed ({type(error).__name__}: {error}); nothing is changed"
            held = Decision(pool.name, situation.want, situation.want, "error", words, held=True)
            return _Answer(held, before, before, words)
        self.memories[_key(pool.name, pool.policy)] = after
        return _Answer(decision, before, after)

    def _share(
        self, budget: Budget, asked: Sequence[tuple[Situation, PoolSettings]], answers: dict[str, _Answer]
    ) -> None:
        """Cap what was decided by what the pools share. One that is held, or whose law failed, keeps what it has; the
        others share what that leaves."""
        mine = [(s, p) for s, p in asked if p.name in budget.pools]
        gpus = {p.name: p.spec.gpus_per_replica or 1 for _, p in mine}
        targets = {p.name: answers[p.name].decision.target for _, p in mine}
        still = [s for s, p in mine if _is_held(s) or answers[p.name].error is not None]
        taken = sum(gpus[s.pool] * max(s.want, len(s.replicas), targets[s.pool]) for s in still)
        free = [s for s, _ in mine if s not in still]
        decisions = {s.pool: answers[s.pool].decision for s in free}
        for name, decision in within(free, decisions, max(0, budget.gpus - taken), gpus).items():
            answers[name] = answers[name]._replace(decision=decision)

    def _decided(self, situation: Situation, pool: PoolSettings, answer: _Answer) -> Decided:
        if answer.error is not None:
            return Decided(situation, decision_view(answer.decision, situation.now), {}, answer.error)
        names = (name for name in self.baselines if name != pool.policy)
        others = {name: target for name in names if (target := self._other(name, situation, pool)) is not None}
        unchanged = answer.after is answer.before
        delta = {} if unchanged else difference(_plain(answer.before), _plain(answer.after))
        view = decision_view(answer.decision, situation.now, others, picture_of(situation, answer.after))
        return Decided(situation, view, delta)

    def _other(self, name: str, situation: Situation, pool: PoolSettings) -> int | None:
        key = _key(pool.name, name)
        try:
            before = self._starts.teaching(self.memories.get(key, Memory()), situation)
            decision, self.memories[key] = self.laws(name).decide(situation, before)
        except Exception:
            log.exception("baseline %s raised for pool %s", name, pool.name)
            return None
        return decision.target

    def level(self, pool: PoolSettings) -> float:
        """The quantile of demand that the pool's law buys for now, by the tightest target of its classes."""
        memory = self.memories.get(_key(pool.name, pool.policy), Memory())
        target = max((slo.target for slo in pool.spec.slos), default=None)
        return level_of(pool.thresholds, target, memory).level

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


def _is_held(situation: Situation) -> bool:
    """Whether a person or another owner of the scale says: leave it."""
    until = situation.paused_until
    return situation.frozen_reason is not None or (until is not None and situation.now < until)


def _key(pool: str, law: str) -> str:
    return f"{pool}/{law}"


def _plain(memory: Memory) -> dict[str, Any]:
    return {"rows": dict(memory.rows), "since": dict(memory.since)}
