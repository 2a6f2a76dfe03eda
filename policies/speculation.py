"""Whether to speculate, and how deep: draft tokens are free while the batch is small and theft once it is large.

It must not know a model. The trap: a gate without hysteresis flips with every batch, and each flip costs the draft
model a catch-up; once off it stays off until the gain is clear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policies.wording import number, percent

StepTime = Callable[[float], float]  # tokens in the batch -> seconds of one forward pass


@dataclass(frozen=True, slots=True)
class SpeculationFacts:
    """What a step costs and how often drafts are accepted."""

    batch: float  # running requests
    acceptance: float  # share of draft tokens accepted, each independently
    step_time: StepTime
    draft_time: float = 0.0  # seconds a draft token, for the whole batch
    deepest: int = 8


@dataclass(frozen=True, slots=True)
class Depth:
    """Draft tokens a step (0 is off), the predicted gain over not speculating, and why."""

    depth: int
    gain: float
    text: str


def expected_tokens(acceptance: float, depth: int) -> float:
    """Tokens a verified step yields: 1 + a + a^2 + ... + a^depth."""
    return sum(acceptance**i for i in range(depth + 1))


def gain(facts: SpeculationFacts, depth: int) -> float:
    """Token throughput at this depth over throughput without speculation."""
    plain = 1.0 / facts.step_time(facts.batch)
    drafted = facts.step_time(facts.batch * (depth + 1)) + depth * facts.draft_time
    return expected_tokens(facts.acceptance, depth) / drafted / plain


def gate(facts: SpeculationFacts, before: int, *, on_from: float = 1.05, off_below: float = 1.0) -> Depth:
    """The best depth; from off it takes `on_from` to turn on, from on it takes less than `off_below` to turn off."""
    best = max(range(1, facts.deepest + 1), key=lambda depth: (gain(facts, depth), -depth))
    found = gain(facts, best)
    bar = off_below if before > 0 else on_from
    words = f"batch {number(facts.batch)}, acceptance {percent(facts.acceptance)}"
    if found < bar:
        return Depth(0, 1.0, f"no speculation: {words}, best depth {best} gains {number(found)}x < {number(bar)}x")
    if before > 0 and gain(facts, before) >= found * 0.98 and gain(facts, before) >= bar:
        best, found = before, gain(facts, before)
    return Depth(best, found, f"speculate {best} deep: {words}, gains {number(found)}x")


def latency(arrivals: float, base_s: float, slope_s: float) -> float | None:
    """Time a token under load, t0 / (1 - lambda t1), from two fitted constants; None when the load exceeds it."""
    left = 1.0 - arrivals * slope_s
    return base_s / left if left > 0 else None


def crossover(plain: tuple[float, float], drafted: tuple[float, float]) -> float | None:
    """The arrival rate at which two modes (t0, t1) are equally fast; None where they never are."""
    (a0, a1), (b0, b1) = plain, drafted
    divisor = b0 * a1 - a0 * b1
    if divisor == 0:
        return None
    rate = (b0 - a0) / divisor
    return rate if rate > 0 and latency(rate, a0, a1) is not None and latency(rate, b0, b1) is not None else None
