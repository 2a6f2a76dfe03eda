"""The queue in the router as the agent reads it."""

from __future__ import annotations

import asyncio

import pytest

from opsconsole.local.front import RouterQueue, queue_length
from tests.opsconsole.local.test_relay import front


@pytest.mark.parametrize(
    ("page", "length"),
    [
        ("# HELP opsconsole:router_queue Waiting\nopsconsole:router_queue 3.0\nopsconsole:router_queue_x 4\n", 3.0),
        ("opsconsole:router_queue 0.0\n", 0.0),
        ("opsconsole:router_workers_ready 1.0\n", None),
        ("opsconsole:router_queue many\n", None),
        ("", None),
    ],
    ids=["waiting", "none waits", "not told", "no number", "empty"],
)
def test_one_number_of_the_page_is_read_and_unknown_is_not_zero(page: str, length: float | None) -> None:
    assert queue_length(page) == length


async def test_requests_that_wait_for_a_first_worker_are_seen() -> None:
    async with front(patience=30.0) as made:
        queue = RouterQueue(made.url)
        assert await queue() == 0.0
        asking = [asyncio.create_task(made.ask()) for _ in range(3)]
        async with asyncio.timeout(5):
            while await queue() != 3.0:
                await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await queue.close()


async def test_a_router_that_does_not_answer_is_unknown() -> None:
    queue = RouterQueue("http://127.0.0.1:9")
    assert await queue() is None
    await queue.close()
