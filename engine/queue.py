"""Waiting requests, in the order in which they may be admitted.

Two orders behind one interface: first come first served, and by priority. They must not know blocks or budgets. The
trap: a preempted request goes back to the *front*; under priority order its old arrival time puts it there among
equals.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from engine.config import QueueOrder
from engine.request import Request


class RequestQueue(Protocol):
    """A queue of waiting requests that also knows how many tokens wait."""

    @property
    def tokens(self) -> int: ...
    def push(self, request: Request) -> None: ...
    def push_front(self, request: Request) -> None: ...
    def peek(self) -> Request | None: ...
    def pop(self) -> Request: ...
    def remove(self, request_id: str) -> Request | None: ...
    def check(self) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...


class FcfsQueue:
    """First come, first served."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, Request] = OrderedDict()
        self.tokens = 0

    def push(self, request: Request) -> None:
        _refuse_twice(request, self._requests)
        self._requests[request.request_id] = request
        self.tokens += len(request.tokens)

    def push_front(self, request: Request) -> None:
        self.push(request)
        self._requests.move_to_end(request.request_id, last=False)

    def peek(self) -> Request | None:
        return next(iter(self._requests.values()), None)

    def pop(self) -> Request:
        _, request = self._requests.popitem(last=False)
        self.tokens -= len(request.tokens)
        return request

    def remove(self, request_id: str) -> Request | None:
        request = self._requests.pop(request_id, None)
        if request is not None:
            self.tokens -= len(request.tokens)
        return request

    def check(self) -> None:
        assert self.tokens == sum(len(request.tokens) for request in self), "the token count drifted"
        assert all(key == request.request_id for key, request in self._requests.items()), "a request moved its id"

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests.values())


class PriorityQueue:
    """Lower priority values first, then earlier arrivals, then order of entry. Removal is lazy."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, Request]] = []
        self._entries: dict[str, int] = {}  # request id -> the entry number that is valid
        self._numbers = itertools.count()
        self.tokens = 0

    def push(self, request: Request) -> None:
        _refuse_twice(request, self._entries)
        number = next(self._numbers)
        self._entries[request.request_id] = number
        heapq.heappush(self._heap, (request.priority, request.arrival, number, request))
        self.tokens += len(request.tokens)

    def push_front(self, request: Request) -> None:
        self.push(request)

    def peek(self) -> Request | None:
        self._drop_removed()
        return self._heap[0][3] if self._heap else None

    def pop(self) -> Request:
        self._drop_removed()
        request = heapq.heappop(self._heap)[3]
        del self._entries[request.request_id]
        self.tokens -= len(request.tokens)
        return request

    def remove(self, request_id: str) -> Request | None:
        number = self._entries.pop(request_id, None)
        if number is None:
            return None
        request = next(entry[3] for entry in self._heap if entry[2] == number)
        self.tokens -= len(request.tokens)
        return request

    def check(self) -> None:
        assert self.tokens == sum(len(request.tokens) for request in self), "the token count drifted"
        assert len(list(self)) == len(self._entries), "an entry without a place in the heap"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Request]:
        for _, _, number, request in sorted(self._heap, key=lambda entry: entry[:3]):
            if self._entries.get(request.request_id) == number:
                yield request

    def _drop_removed(self) -> None:
        while self._heap and self._entries.get(self._heap[0][3].request_id) != self._heap[0][2]:
            heapq.heappop(self._heap)


def _refuse_twice(request: Request, known: OrderedDict[str, Request] | dict[str, int]) -> None:
    if request.request_id in known:
        raise ValueError(f"Request {request.request_id} waits already; give every request an id of its own.")


def make_queue(order: QueueOrder) -> RequestQueue:
    """The queue for an order."""
    return PriorityQueue() if order is QueueOrder.PRIORITY else FcfsQueue()
