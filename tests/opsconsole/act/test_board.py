"""The counts that others bring about."""

from __future__ import annotations

import asyncio

import pytest

from opsconsole.act.board import PATIENCE_S, Board


def test_nothing_is_desired_before_a_decision() -> None:
    assert Board().desired("chat", 0.0) is None


def test_the_first_decision_publishes_what_is_there() -> None:
    board = Board()
    board.affirm("chat", 3, 10.0)
    found = board.desired("chat", 12.0)
    assert found is not None and (found.count, found.at) == (3, 10.0)


def test_a_decision_stands_by_the_published_count_and_not_by_what_is_there() -> None:
    board = Board()
    board.publish("chat", 5, 10.0)
    board.affirm("chat", 3, 20.0)  # the HPA has not followed yet
    found = board.desired("chat", 20.0)
    assert found is not None and (found.count, found.at) == (5, 20.0)


def test_a_count_that_no_decision_stands_by_is_unknown_again_and_comes_back() -> None:
    board = Board()
    board.publish("chat", 5, 10.0)
    assert board.desired("chat", 10.0 + PATIENCE_S) is not None
    assert board.desired("chat", 10.1 + PATIENCE_S) is None
    assert board.count("chat") == 5
    board.affirm("chat", 4, 100.0)
    found = board.desired("chat", 100.0)
    assert found is not None and found.count == 5


def test_a_clock_that_is_set_back_gives_a_count_no_more_time() -> None:
    board = Board()
    board.publish("chat", 5, 4000.0)
    assert board.desired("chat", 400.0) is None  # an hour back, and no decision since
    board.affirm("chat", 4, 401.0)
    found = board.desired("chat", 402.0)
    assert found is not None and (found.count, found.at) == (5, 401.0)
    assert board.desired("chat", 402.0 + PATIENCE_S) is None  # the loop died: not an hour later, but now


def test_zero_is_a_count_and_a_negative_one_is_an_error() -> None:
    board = Board()
    board.publish("chat", 0, 1.0)
    found = board.desired("chat", 1.0)
    assert found is not None and found.count == 0
    with pytest.raises(ValueError, match="-1 replicas"):
        board.publish("chat", -1, 2.0)


async def test_who_waits_hears_of_a_change_and_not_of_a_repetition() -> None:
    board = Board()
    board.publish("chat", 2, 1.0)
    waiting = asyncio.ensure_future(board.moved())
    await asyncio.sleep(0)
    board.publish("chat", 2, 2.0)
    await asyncio.sleep(0)
    assert not waiting.done()
    board.publish("chat", 3, 3.0)
    await asyncio.wait_for(waiting, 5)
