"""The planner's performance model: how long a forward pass takes, and the rates that follow from it.

wall(tokens, context) = base + per_token x tokens + per_context x context, the regression it fits on forward-pass
samples. It must not know of fleets. The trap: a prompt longer than a batch is prefilled in chunks, each of which pays
the base again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.situation import StepProfile


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean tokens of a request, and the share of its prompt found in cache."""

    prompt: float
    output: float
    hit: float = 0.0

    @property
    def uncached(self) -> float:
        return self.prompt * (1.0 - self.hit)

    @property
    def context(self) -> float:
        """Mean context while decoding."""
        return self.prompt + self.output / 2


def wall(profile: StepProfile, tokens: float, context: float = 0.0) -> float:
    return profile.base_s + profile.per_token_s * tokens + profile.per_context_s * context


def prefill_time(profile: StepProfile, tokens: float) -> float:
    """Seconds to prefill, in chunks of the largest batch."""
    if tokens <= 0:
        return wall(profile, 0.0)
    chunk = float(profile.max_batch_tokens or tokens)
    whole = math.floor(tokens / chunk)
    rest = tokens - whole * chunk
    return whole * wall(profile, chunk) + (wall(profile, rest) if rest > 0 else 0.0)


def prefill_rate(profile: StepProfile, lengths: Lengths) -> float:
    """Requests a second one replica prefills."""
    return 1.0 / prefill_time(profile, lengths.uncached)


def decode_batch(profile: StepProfile, lengths: Lengths, itl: float) -> int:
    """The largest batch whose step stays within the inter-token bound and fits; at least 1."""
    per_request = profile.per_token_s + profile.per_context_s * lengths.context
    fits = math.inf if per_request <= 0 else (itl - profile.base_s) / per_request
    if profile.kv_tokens is not None:
        fits = min(fits, profile.kv_tokens / lengths.context)
    if profile.max_running is not None:
        fits = min(fits, profile.max_running)
    return max(1, math.floor(min(fits, 1e6) + 1e-9))


def decode_rate(profile: StepProfile, lengths: Lengths, itl: float) -> float:
    """Requests a second one replica decodes at that batch."""
    batch = decode_batch(profile, lengths, itl)
    return batch / (lengths.output * wall(profile, batch, batch * lengths.context))


def estimated_ttft(profile: StepProfile, lengths: Lengths, queued: float) -> float:
    """The queue's prefill and one's own."""
    return prefill_time(profile, queued * lengths.uncached + lengths.uncached)


def estimated_itl(profile: StepProfile, lengths: Lengths, running: float) -> float:
    return wall(profile, running, running * lengths.context)
