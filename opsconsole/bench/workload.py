"""What is asked: prompts and output lengths of the named workloads, drawn from a seed.

Prompts are token ids (no tokenizer is needed to measure) or plain words for servers that take text alone. Trap: a
repeated seed meets a warm prefix cache and measures nothing (throughput has been seen 2.3 times too high): callers take
a fresh seed for every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from opsconsole.bench.arrivals import Arrival
from opsconsole.errors import UsageError

FIRST_ID, LAST_ID = 100, 30_000  # past the special tokens, and inside every vocabulary in use
WORDS = [
    "river",
    "stone",
    "light",
    "paper",
    "garden",
    "winter",
    "letter",
    "market",
    "window",
    "silver",
    "morning",
    "engine",
    "forest",
    "bridge",
    "signal",
    "copper",
    "harbor",
    "planet",
    "simple",
    "theory",
    "common",
    "answer",
    "number",
    "circle",
    "thread",
    "carbon",
    "summer",
    "little",
    "travel",
    "system",
    "object",
    "branch",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request's body: a prompt as token ids or text, and how many tokens to produce."""

    prompt: tuple[int, ...] | str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A length distribution: lognormal by mean and sigma, clipped."""

    mean: float
    sigma: float
    low: int
    high: int

    def draw(self, draw: Random) -> int:
        centre = math.log(self.mean) - self.sigma**2 / 2
        return min(self.high, max(self.low, round(draw.lognormvariate(centre, self.sigma))))


CHAT_PROMPT, CHAT_OUTPUT = Shape(256, 0.5, 32, 1024), Shape(64, 0.4, 16, 160)
DEMO_PROMPT, DEMO_OUTPUT = Shape(64, 0.5, 16, 192), Shape(32, 0.3, 12, 64)
PREFIX_TOKENS, TAIL_TOKENS, PREFIX_OUTPUT = 1500, 100, 48
LONG_TOKENS, LONG_SHARE = 3000, 0.10
DEMO_PREFIXES, DEMO_PREFIX_TOKENS = 3, 48

WORKLOADS = {
    "A": "chat: prompts of about 256 tokens, answers of about 64",
    "B": "shared prefix: 1,500 common tokens and 100 of its own, answers of 48",
    "C": "mixed: A with one prompt in ten of 3,000 tokens",
    "demo": "small chat with three common openings, in plain words; answers of about 32",
}


def build(name: str, arrivals: Sequence[Arrival], seed: int, *, text: bool = False) -> list[Ask]:
    """One ask per arrival. A trace's own sizes win over the workload's."""
    if name not in WORKLOADS:
        raise UsageError(f"'{name}' is not a workload; known are {', '.join(WORKLOADS)}")
    draw = Random(seed)
    size = _SIZES[name](draw)
    words = text or name == "demo"
    openings = [_tokens(count, draw) for count in _OPENINGS[name]]
    asks = []
    for arrival in arrivals:
        length, output = size()
        length, output = arrival.prompt_tokens or length, arrival.output_tokens or output
        opening = draw.choice(openings) if openings and length > len(openings[0]) else ()
        ids = opening + _tokens(length - len(opening), draw)
        asks.append(Ask(_as_text(ids) if words else ids, output))
    return asks


def _tokens(count: int, draw: Random) -> tuple[int, ...]:
    return tuple(draw.choices(range(FIRST_ID, LAST_ID), k=count))


def _as_text(ids: Sequence[int]) -> str:
    """About one token a word; equal ids give equal words, so that common openings stay common."""
    return " ".join(WORDS[i % len(WORDS)] for i in ids)


def _chat(draw: Random) -> Callable[[], tuple[int, int]]:
    return lambda: (CHAT_PROMPT.draw(draw), CHAT_OUTPUT.draw(draw))


def _shared_prefix(draw: Random) -> Callable[[], tuple[int, int]]:
    return lambda: (PREFIX_TOKENS + TAIL_TOKENS, PREFIX_OUTPUT)


def _mixed(draw: Random) -> Callable[[], tuple[int, int]]:
    def size() -> tuple[int, int]:
        prompt = LONG_TOKENS if draw.random() < LONG_SHARE else CHAT_PROMPT.draw(draw)
        return prompt, CHAT_OUTPUT.draw(draw)

    return size


def _demo(draw: Random) -> Callable[[], tuple[int, int]]:
    return lambda: (DEMO_PROMPT.draw(draw), DEMO_OUTPUT.draw(draw))


_SIZES: dict[str, Callable[[Random], Callable[[], tuple[int, int]]]] = {
    "A": _chat,
    "B": _shared_prefix,
    "C": _mixed,
    "demo": _demo,
}
_OPENINGS = {"A": (), "B": (PREFIX_TOKENS,), "C": (), "demo": (DEMO_PREFIX_TOKENS,) * DEMO_PREFIXES}
