"""How long a step of a simulated replica takes: a curve over the tokens of the batch, and what the context costs.

It is pure arithmetic; it must not know requests or clocks. The default curve is a measured one: linear layers and norms
of Llama-3-8B on one A100-80GB (Vidur's published profile, medians), 12 % on top for attention kernels, and the keys of
decoding sequences read at 1.44 TB/s, 131,072 bytes a token. The trap: the engine's own model prices a decode and a
prompt token differently, and a curve over tokens does not; both are kept, and each is 0 in the other's case.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from engine.step_time import StepTimeModel
from opsconsole.errors import ConfigError

A100_8B_MS = ((1, 9.70), (32, 10.9), (128, 13.2), (256, 19.5), (512, 34.6), (2048, 141.8), (4096, 272.9))
KV_BYTES_PER_TOKEN = 131_072  # Llama-3-8B, 16 bit: 2 x 32 layers x 8 heads x 128 x 2 bytes
READ_BYTES_PER_S = 1.44e12  # what decoding reaches on this card
ATTENTION_OVERHEAD = 1.12


@dataclass(frozen=True, slots=True)
class StepCurve:
    """Seconds of a step: `knots` (tokens in the batch, seconds; linear between and beyond), and five slopes."""

    knots: tuple[tuple[float, float], ...]
    per_decode_s: float = 0.0  # per sequence that decodes
    per_context_s: float = 0.0  # per token of context that decoding sequences read
    per_prefill_s: float = 0.0  # per prompt token
    per_pair_s: float = 0.0  # per (query, key) pair of the prompt

    def __post_init__(self) -> None:
        if not self.knots or any(b[0] <= a[0] for a, b in itertools.pairwise(self.knots)):
            raise ConfigError("a step curve needs at least one point (tokens, seconds), in ascending order of tokens")
        slopes = (self.per_decode_s, self.per_context_s, self.per_prefill_s, self.per_pair_s)
        if any(seconds < 0 for _, seconds in self.knots) or any(slope < 0 for slope in slopes):
            raise ConfigError("a step curve has a negative time: every point and every slope must be 0 s or more")

    def batch_s(self, tokens: int) -> float:
        """What the batch alone costs, by the tokens in it."""
        knots = self.knots
        if len(knots) == 1:
            return knots[0][1]
        place = next((i for i in range(1, len(knots)) if tokens <= knots[i][0]), len(knots) - 1)
        (left, low), (right, high) = knots[place - 1], knots[place]
        return max(0.0, low + (high - low) * (tokens - left) / (right - left))

    def table(self, most: int) -> tuple[float, ...]:
        """`batch_s` of 0 to `most` tokens, for loops that cannot afford a search."""
        return _table(self, most)

    def seconds(self, decodes: int, context: int, prefill: int = 0, pairs: int = 0) -> float:
        """One whole step."""
        return (
            self.batch_s(decodes + prefill)
            + self.per_decode_s * decodes
            + self.per_context_s * context
            + self.per_prefill_s * prefill
            + self.per_pair_s * pairs
        )

    @classmethod
    def of_engine(cls, model: StepTimeModel) -> StepCurve:
        """The engine's own five coefficients."""
        return cls(
            ((0, model.fixed_s),),
            per_decode_s=model.per_decode_s,
            per_context_s=model.per_context_token_s,
            per_prefill_s=model.per_prefill_token_s,
            per_pair_s=model.per_attention_pair_s,
        )


@lru_cache(maxsize=32)
def _table(curve: StepCurve, most: int) -> tuple[float, ...]:
    return tuple(curve.batch_s(tokens) for tokens in range(most + 1))


def measured(milliseconds: Iterable[tuple[float, float]], overhead: float, context_s: float) -> StepCurve:
    """A curve from a profile of milliseconds by tokens."""
    return StepCurve(tuple((t, ms / 1e3 * overhead) for t, ms in milliseconds), per_context_s=context_s)


A100_8B = measured(A100_8B_MS, ATTENTION_OVERHEAD, KV_BYTES_PER_TOKEN / READ_BYTES_PER_S)
