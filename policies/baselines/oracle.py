"""The two oracles: a bound nobody can reach, and the cheapest schedule that knows demand and pays cold starts.

They need the future, which is given as data: (time, demand in replicas' worth). The clairvoyant schedule needs no
search. Replicas are interchangeable, so its n-th one must be ready whenever demand exceeds n - 1. Between two such
times it is kept when the gap is shorter than a start, and otherwise given back and started one lead before: either way
it is held exactly when it is needed within the next lead. The trap: a future shorter than the lead makes it blind.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from policies.baselines.law import Count, decided
from policies.decision import Decision, Input
from policies.memory import Memory
from policies.situation import Situation
from policies.wording import number, seconds


@dataclass(frozen=True, slots=True)
class Oracle:
    """`ahead` is whether it pays cold starts; without, it is the perfect-system bound."""

    name: str
    ahead: bool
    period_s: float = 10.0
    needs: tuple[str, ...] = ()

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        lead = situation.lead_s if self.ahead else 0.0
        worth = highest(situation.future, situation.now, situation.now + lead)
        if worth is None:
            return decided(situation, self.name, Count(None, "the future was not given")), memory
        wants = math.ceil(worth - 1e-9)
        text = f"demand reaches {number(worth)} replicas' worth within {seconds(lead)}, wants {wants}"
        return decided(situation, self.name, Count(wants, text, (Input("worth", worth, "replicas"),))), memory


def highest(future: tuple[tuple[float, float], ...], first: float, last: float) -> float | None:
    """The largest demand in force between two times; a value holds from its time to the next one's."""
    start = max(0, bisect_right(future, (first, math.inf)) - 1)
    end = max(start + 1, bisect_right(future, (last, math.inf)))
    inside = [value for _, value in future[start:end]]
    return max(inside) if inside else None


BOUND = Oracle("bound", ahead=False)
ORACLE = Oracle("oracle", ahead=True)
