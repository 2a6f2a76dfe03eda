"""Whose prompt comes next, and how much prefill a step may hold: the goodput rules with what they have to remember.

Prompts whose first token can still be on time go before those whose bound is lost, in queue order among themselves;
one admission in five goes to the head of the queue whatever its bound, and after eight steps without any prefill a
small chunk passes whatever the TPOT bound, so that nobody starves. It must not know block tables or plans. The
trap: without a step-time model nobody is late, and the line is the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from engine.block_manager import Match
from engine.chunk_cap import Pending, StepTime, can_be_on_time, prefill_allowance
from engine.config import EngineConfig
from engine.queue import RequestQueue
from engine.request import Request

_HEAD = 8  # waiting requests that the TPOT cap looks at
_TURN = 5  # one admission in so many goes to the head of the queue
_DRY = 8  # steps that the cap may leave without any prefill


class Cached(Protocol):
    """What the line asks about a waiting request."""

    def match(self, request: Request) -> Match: ...


class Line:
    """The order of prompts in one step; `begin` it anew for each."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._passed_over = 0  # admissions in a row that went past the head of the queue
        self._dry = 0  # steps in a row without prefill although somebody waited for it
        self._step_time: StepTime | None = None
        self.now = 0.0

    def begin(self, now: float, step_time: StepTime | None) -> None:
        self.now, self._step_time = now, step_time

    def allowance(
        self, decoding: Sequence[Request], prefilling: Sequence[Request], waiting: RequestQueue, cache: Cached
    ) -> int:
        """Prompt tokens that this step may compute."""
        config, step_time = self._config, self._step_time
        if step_time is None or not decoding or not (prefilling or waiting):
            return config.chunk
        pending = [Pending(request, request.computed) for request in prefilling]
        pending += [Pending(request, cache.match(request).tokens) for request in islice(waiting, _HEAD)]
        pending.sort(key=lambda each: not can_be_on_time(each, self.now, step_time))
        fits = prefill_allowance(self.now, decoding, pending, step_time)
        if fits is None or fits >= config.min_chunk:
            self._dry = 0
            return config.chunk if fits is None else fits
        self._dry += 1
        if self._dry <= _DRY:
            return 0
        self._dry = 0
        return config.min_chunk

    def in_order(self, prefilling: Sequence[Request]) -> Sequence[Request]:
        """Prompts partly computed, those that can be on time first."""
        if len(prefilling) < 2:
            return prefilling
        return sorted(prefilling, key=lambda request: not self._can_be_on_time(request, request.computed))

    def next_to_admit(self, waiting: RequestQueue, cache: Cached) -> Request | None:
        """The first that can be on time; the head where none can or where it is its turn."""
        head = waiting.peek()
        if head is None or self._passed_over + 1 >= _TURN:
            return head
        return next(self._on_time(waiting, cache), head)

    def admitted(self, request: Request, waiting: RequestQueue) -> None:
        """Take the request out of the queue and remember whether the head was passed over."""
        self._passed_over = 0 if request is waiting.peek() else self._passed_over + 1
        waiting.remove(request.request_id)

    def _on_time(self, waiting: RequestQueue, cache: Cached) -> Iterator[Request]:
        return (request for request in waiting if self._can_be_on_time(request, cache.match(request).tokens))

    def _can_be_on_time(self, request: Request, start: int) -> bool:
        step_time = self._step_time
        return step_time is None or can_be_on_time(Pending(request, start), self.now, step_time)
