"""Goodput rules of a step: how many prompt tokens it may compute beside running decodes, and which prompts step back.

A running request with a TPOT bound has a deadline for its next token; what is left until the earliest of them is
how long this step may take. While first tokens have slack, prefill gets just that. When a waiting request would
miss its TTFT, running ones also lend most of what their coming steps will save; where one more decode would make
all coming steps too slow, they keep what that will cost them. A request that can no longer meet a bound holds
nobody back: not running ones by its TPOT, and not waiting ones by its place in the queue.

It is pure: it must not know blocks or queues. The trap: a cap of 0 tokens is meant, so the scheduler sees to it
that nobody starves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.request import Request
from engine.step_time import StepShape

_MARGIN = 0.95  # of a bound is planned for; the rest pays for what the step-time model does not know
_LONGEST_GAP = 4.0  # times the TPOT bound: banked time never becomes one long stall
_LENT = 0.8  # of what a stream's coming steps will save
_FORESEEN = 32  # tokens that every stream is taken to have ahead, beside as many as it has behind


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
    if not prefilling:
        return None
    shape = decode_shape(decoding)
    head = prefilling[0]
    after = StepShape(shape.decodes + 1, shape.context + len(head.request.tokens))
    room = _room(now, decoding, step_time.predict(shape), step_time.predict(after))
    if room is None:
        return None
    fits = step_time.prefill_that_fits(room.limit, shape, head.start)
    steady = step_time.prefill_that_fits(room.pace, shape, head.start)
    if room.borrowed > room.limit and _somebody_will_be_late(now, prefilling, steady, room.pace):
        fits = max(fits, step_time.prefill_that_fits(room.borrowed, shape, head.start))
    return fits


def can_be_on_time(pending: Pending, now: float, step_time: StepTime) -> bool:
    """Whether the first token can still meet its bound, if nothing else ran."""
    request, start = pending
    if request.slo.ttft_s is None:
        return True
    if request.first_token_at is not None:
        return request.first_token_at - request.arrival <= request.slo.ttft_s
    work = step_time.predict(StepShape().with_prefill(len(request.tokens) - start, start))
    return now + work <= request.arrival + request.slo.ttft_s


class _Room(NamedTuple):
    """How long this step may take, in seconds."""

    limit: float  # so that no running request falls behind its bound
    borrowed: float  # if running requests also lend from what their later steps will save
    pace: float  # in the long run: the tightest target


def _room(now: float, decoding: Sequence[Request], plain: float, after: float) -> _Room | None:
    """None where no running request sets a limit that it can still keep.

    `plain` is the step without prefill, `after` the same with one more stream.
    """
    rooms: list[_Room] = []
    for request in decoding:
        bound = request.slo.tpot_s
        if bound is None or request.first_token_at is None:
            continue
        target = _MARGIN * bound
        spare = request.first_token_at + target * request.output_count - now  # until its next token is late
        # Steps that can make up for this one. Most requests end long before `max_tokens`.
        later = max(0, min(request.params.max_tokens, 2 * request.output_count + _FORESEEN) - request.output_count - 1)
        if spare + max(0.0, later * (target - plain)) < plain:
            continue  # cannot be met any more
        gain = later * (target - after)
        longest = _LONGEST_GAP * bound
        limit, borrowed = (
            min(max(time, plain), longest) for time in (spare + min(0.0, gain), spare + min(gain, _LENT * gain))
        )
        rooms.append(_Room(limit, borrowed, target))
    if not rooms:
        return None
    return _Room(
        min(room.limit for room in rooms), min(room.borrowed for room in rooms), min(room.pace for room in rooms)
    )


def _somebody_will_be_late(now: float, prefilling: Sequence[Pending], steady: int, pace: float) -> bool:
    """Whether some first token that can still be on time will not be, at `steady` prompt tokens per `pace` seconds."""
    work = 0
    for request, start in prefilling:
        work += len(request.tokens) - start
        if request.slo.ttft_s is None or request.first_token_at is not None:
            continue
        slack = request.arrival + _MARGIN * request.slo.ttft_s - now
        if slack > 0.0 and (steady == 0 or work / steady * pace > slack):
            return True
    return False
