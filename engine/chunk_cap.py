"""How many prompt tokens a step may compute beside running decodes: the TPOT budget.

A running request with a TPOT bound has a deadline for its next token; what is left until the earliest of them is
how long this step may take. While first tokens have slack, prefill gets just that. When a waiting request would
miss its TTFT, running ones may also spend half of what their coming steps will save. Requests that can no longer
meet a bound do not hold anyone back. It is pure: it must not know blocks or queues. The trap: the cap bounds
*goodput* losses, it is not a promise; the scheduler always lets `min_chunk` tokens through so that nobody starves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.request import Request
from engine.step_time import StepShape

_MARGIN = 0.9  # of a bound is planned for; the rest pays for what the step-time model does not know
_LONGEST_GAP = 4.0  # times the TPOT bound: banked time never becomes one long stall


class StepTime(Protocol):
    """What the cap needs of a step-time model."""

    def predict(self, shape: StepShape) -> float: ...
    def prefill_that_fits(self, limit_s: float, shape: StepShape, start: int) -> int: ...


class Pending(NamedTuple):
    """A prompt to compute, and where it will start: what is stored or cached already is no work."""

    request: Request
    start: int


def decode_shape(decoding: Sequence[Request]) -> StepShape:
    """The step without any prefill."""
    return StepShape(len(decoding), sum(len(request.tokens) for request in decoding))


def prefill_allowance(
    now: float, decoding: Sequence[Request], prefilling: Sequence[Pending], step_time: StepTime
) -> int | None:
    """Prompt tokens that fit this step; None where nothing limits them.

    `prefilling` is in the order in which it will be served; only its head has to be accurate.
    """
    shape = decode_shape(decoding)
    plain = step_time.predict(shape)
    limit = _step_limit(now, decoding, plain, borrow=False)
    if limit is None or not prefilling:
        return None
    start = prefilling[0].start
    fits = step_time.prefill_that_fits(limit, shape, start)
    if _somebody_will_be_late(now, prefilling, fits, limit):
        borrowed = _step_limit(now, decoding, plain, borrow=True)
        fits = max(fits, step_time.prefill_that_fits(borrowed or limit, shape, start))
    return fits


def _step_limit(now: float, decoding: Sequence[Request], plain: float, *, borrow: bool) -> float | None:
    """How long the step may take, or None where no running request sets a limit it can still keep."""
    limits: list[float] = []
    for request in decoding:
        bound = request.slo.tpot_s
        if bound is None or request.first_token_at is None:
            continue
        target = _MARGIN * bound
        spare = request.first_token_at + target * request.output_count - now  # until its next token is late
        later = max(0, request.params.max_tokens - request.output_count - 1)  # steps that can make up for this one
        saved = later * (target - plain)
        if spare + max(0.0, saved) < plain:
            continue  # cannot be met any more
        if borrow:
            spare += 0.5 * max(0.0, saved)
        limits.append(min(max(spare, plain), _LONGEST_GAP * bound))
    return min(limits, default=None)


def _somebody_will_be_late(now: float, prefilling: Sequence[Pending], fits: int, step_s: float) -> bool:
    """Whether some first token that can still be on time will not be, at `fits` tokens per step of `step_s`."""
    work = 0
    for request, start in prefilling:
        work += len(request.tokens) - start
        if request.slo.ttft_s is None or request.first_token_at is not None:
            continue
        slack = request.arrival + _MARGIN * request.slo.ttft_s - now
        if slack > 0.0 and (fits == 0 or work / fits * step_s > slack):
            return True
    return False
