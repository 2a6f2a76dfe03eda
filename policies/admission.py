"""Whether to take a request now: it is refused early when it could only miss, or only by making others miss.

It must not queue anything. The trap: a request refused with no word of when to come back comes back at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.wording import number, seconds


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """The request and what stands before it. `None` is unknown, and unknown admits."""

    prompt_tokens: float  # uncached
    queued_tokens: float | None = None  # prompt tokens waiting in front
    prefill_rate: float | None = None  # tokens/s of the replica or pool
    ttft_bound: float | None = None  # s
    kv_free_tokens: float | None = None
    kv_needed_tokens: float | None = None  # prompt and what is expected to be written
    queue_length: int = 0
    queue_limit: int | None = None
    priority: int = 0  # above 0 is never refused for the sake of latency


@dataclass(frozen=True, slots=True)
class Admission:
    """Taken or not; when not, the status to answer and the seconds after which it may fit."""

    admitted: bool
    text: str
    status: int = 200
    retry_after_s: float | None = None


def admit(facts: AdmissionFacts, *, safety: float = 0.65) -> Admission:
    """Queue limit, KV room, then time: waiting may use `safety` of what the bound leaves after the own prefill.

    0.6 to 0.7 of the bound's slack serves p90 to p99; the estimate is a mean and the bound is not.
    """
    if facts.queue_limit is not None and facts.queue_length >= facts.queue_limit:
        wait = _wait(facts)
        text = f"queue {facts.queue_length} >= {facts.queue_limit}"
        return Admission(False, text, 429, _retry(wait if wait is not None else 1.0))
    if facts.kv_free_tokens is not None and facts.kv_needed_tokens is not None and facts.queue_length == 0:
        missing = facts.kv_needed_tokens - facts.kv_free_tokens
        if missing > 0:
            text = f"needs {number(facts.kv_needed_tokens)} KV tokens, {number(facts.kv_free_tokens)} are free: waits"
            return Admission(True, text)
    wait = _wait(facts)
    if wait is None or facts.ttft_bound is None or not facts.prefill_rate or facts.priority > 0:
        return Admission(True, "admitted")
    own = facts.prompt_tokens / facts.prefill_rate
    if own > facts.ttft_bound:
        return Admission(True, f"admitted: its own prefill of {seconds(own)} misses the bound on any replica")
    allowed = safety * (facts.ttft_bound - own)
    if wait <= allowed:
        return Admission(True, f"admitted: waits {seconds(wait)} of {seconds(allowed)}")
    text = f"would wait {seconds(wait)}, the bound of {seconds(facts.ttft_bound)} allows {seconds(allowed)}"
    return Admission(False, text, 503, _retry(wait - allowed))


def _wait(facts: AdmissionFacts) -> float | None:
    if facts.queued_tokens is None or not facts.prefill_rate:
        return None
    return facts.queued_tokens / facts.prefill_rate


def _retry(wait: float) -> float:
    return float(max(1, math.ceil(wait)))
