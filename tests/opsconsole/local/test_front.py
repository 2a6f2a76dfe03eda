"""The queue in the router as the agent reads it."""

from __future__ import annotations

import asyncio

import pytest

from opsconsole.clock import SystemClock
from opsconsole.local.front import RouterPrefixes, RouterQueue, queue_length
from tests.opsconsole.local.test_relay import front, member


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


async def test_shared_prefixes_are_told_to_who_knows_the_word_and_never_as_text() -> None:
    async with front() as made:
        made.know(member("w1", "http://127.0.0.1:9"))
        for tail in range(3):
            made.router.table.choose((11, 22, 100 + tail), 64.0, "default", "key")
        clock = SystemClock()
        ours, others = RouterPrefixes(made.url, "rt", clock), RouterPrefixes(made.url, "guess", clock)
        (prefix,) = await ours()
        assert (prefix.prefix, prefix.tokens, prefix.requests, prefix.forks) == ("00000000", 128.0, 3, 3)
        assert prefix.holders == ("w1",) and 0 <= clock.now() - prefix.last_at < 5
        assert await others() == ()
        await ours.close()
        await others.close()


async def test_a_router_that_does_not_answer_shares_nothing() -> None:
    nobody = RouterPrefixes("http://127.0.0.1:9", "rt", SystemClock())
    assert await nobody() == ()
    await nobody.close()
