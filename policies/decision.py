"""What a policy answers: a target, the rule that bound, and every rule's own account of itself.

Screens and logs print `text` and nothing else, so an explanation cannot drift from the code. The trap: a `target` equal
to `current` may be calm or may be a hold on unknown data; `held` tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from policies.memory import Memory
from policies.situation import Situation


class Verdict(StrEnum):
    """What a rule did to the target. The value is the word shown to the user."""

    RAISES = "raises"  # wants more than there is
    LOWERS = "lowers"  # wants less than there is
    AGREES = "agrees"  # wants what there is
    CAPS = "caps"  # cut the target down
    FLOORS = "floors"  # held the target up
    HOLDS = "holds"  # forbids a change for now
    UNKNOWN = "unknown"  # has not the data to say
    OFF = "off"  # does not apply here


@dataclass(frozen=True, slots=True)
class Input:
    """One number a rule looked at. `None` is unknown."""

    name: str
    value: float | None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule's account: what it saw, what it wants, and a sentence with numbers and units."""

    rule: str
    inputs: tuple[Input, ...]
    wants: int | None
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """From `current` to `target`: why, by which rule, and which replicas should go."""

    pool: str
    current: int
    target: int
    binding: str
    reason: str
    rules: tuple[RuleResult, ...] = ()
    drain: tuple[str, ...] = ()
    held: bool = False  # unknown data or a pause kept a change from happening


class Policy(Protocol):
    """A law: pure, deterministic, indifferent to the order of replicas."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Forecast models the caller must supply in `Situation.outlooks`, by name."""
        ...

    @property
    def period_s(self) -> float:
        """How often the law is meant to be asked."""
        ...

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]: ...


Counterfactual = Mapping[str, int]
