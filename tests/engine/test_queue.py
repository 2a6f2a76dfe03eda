"""Both orders of waiting, and their books after any sequence of operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import QueueOrder
from engine.queue import make_queue
from engine.request import Request, SamplingParams


def request(name: str, priority: int = 0, arrival: float = 0.0, length: int = 3) -> Request:
    return Request(name, (1,) * length, SamplingParams(max_tokens=4), arrival, priority)


def ids(queue: object) -> list[str]:
    return [item.request_id for item in queue]  # type: ignore[attr-defined]


def test_first_come_is_first_served_and_a_preempted_one_goes_to_the_front() -> None:
    queue = make_queue(QueueOrder.FCFS)
    for name in "abc":
        queue.push(request(name))
    first = queue.pop()
    queue.push_front(first)
    assert ids(queue) == ["a", "b", "c"] and queue.peek() is first


def test_priority_comes_before_arrival() -> None:
    queue = make_queue(QueueOrder.PRIORITY)
    queue.push(request("late", 0, 2.0))
    queue.push(request("early", 0, 1.0))
    queue.push(request("urgent", -1, 3.0))
    assert ids(queue) == ["urgent", "early", "late"]
    assert [queue.pop().request_id for _ in range(3)] == ["urgent", "early", "late"]


def test_equal_requests_keep_their_order_of_entry() -> None:
    queue = make_queue(QueueOrder.PRIORITY)
    for name in "cab":
        queue.push(request(name))
    assert ids(queue) == ["c", "a", "b"]


@pytest.mark.parametrize("order", list(QueueOrder))
def test_a_request_waits_only_once(order: QueueOrder) -> None:
    queue = make_queue(order)
    queue.push(request("a"))
    with pytest.raises(ValueError, match="waits already"):
        queue.push(request("a"))


@pytest.mark.parametrize("order", list(QueueOrder))
def test_a_removed_request_may_come_back(order: QueueOrder) -> None:
    queue = make_queue(order)
    queue.push(request("a"))
    queue.push(request("b"))
    assert queue.remove("a") is not None and queue.remove("a") is None
    assert queue.peek() is not None and queue.pop().request_id == "b" and queue.peek() is None
    queue.push(request("a"))
    queue.check()
    assert ids(queue) == ["a"] and queue.tokens == 3


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["push", "front", "pop", "remove"]), st.integers(0, 9), st.integers(-2, 2)), max_size=60
)


@pytest.mark.parametrize("order", list(QueueOrder))
@settings(max_examples=40, deadline=None)
@given(OPERATIONS)
def test_books_agree_after_any_operations(order: QueueOrder, operations: list[tuple[str, int, int]]) -> None:
    queue = make_queue(order)
    inside: dict[str, Request] = {}
    acts: dict[str, Callable[[Request], None]] = {"push": queue.push, "front": queue.push_front}
    for number, (act, name, priority) in enumerate(operations):
        key = str(name)
        if act in acts and key not in inside:
            inside[key] = request(key, priority, float(number), length=name + 1)
            acts[act](inside[key])
        elif act == "pop" and inside:
            head = queue.peek()
            assert head is not None and queue.pop() is head
            del inside[head.request_id]
        elif act == "remove":
            assert queue.remove(key) is inside.pop(key, None)
        queue.check()
        assert set(ids(queue)) == set(inside) and len(queue) == len(inside)
