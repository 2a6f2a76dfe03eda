"""The open loop against a scripted server: on time whatever happens, no limit of its own, nothing dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from opsconsole.bench import openloop
from opsconsole.bench.arrivals import Arrival, constant
from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Ending, Target
from opsconsole.bench.goodput import summarise
from opsconsole.bench.openloop import run_closed_loop, run_open_loop
from opsconsole.bench.workload import Ask
from opsconsole.clock import SystemClock
from tests.opsconsole.bench.scripted_server import DONE, Step, scripted, text, usage

CLOCK = SystemClock()
SHORT: Sequence[Step] = [text("a"), text("b", "length"), usage(2), DONE]


def asks(count: int) -> list[Ask]:
    return [Ask("x", 2)] * count


async def test_sending_never_waits_for_answers_and_has_no_pool_limit() -> None:
    count = 150
    arrivals = [Arrival(0.0)] * count
    async with scripted(lambda index: (200, [0.6, *SHORT])) as server:
        records = await run_open_loop(Target(server.url), arrivals, asks(count), CLOCK, grace=10)
        assert server.most_open == count
    assert all(record.is_success for record in records)


async def test_an_absolute_schedule_keeps_its_rate_although_each_send_costs_time() -> None:
    arrivals = constant(200.0, 1.0)
    async with scripted(lambda index: (200, SHORT)) as server:
        began = CLOCK.monotonic()
        records = await run_open_loop(Target(server.url), arrivals, asks(len(arrivals)), CLOCK)
        assert CLOCK.monotonic() - began < 2.5
    assert len(records) == 200
    lag = sorted(record.sent - record.intended for record in records)
    assert all(late >= 0 for late in lag)
    assert lag[len(lag) // 2] < 0.25


async def test_what_is_unfinished_after_the_grace_is_offered_and_bad() -> None:
    def script(index: int) -> tuple[int, Sequence[Step]]:
        return 200, SHORT if index == 0 else [text("a"), 5.0]

    async with scripted(script) as server:
        arrivals = [Arrival(0.0), Arrival(0.1)]
        records = await run_open_loop(Target(server.url), arrivals, asks(2), CLOCK, grace=0.3)
    assert [record.ending for record in records] == [Ending.OK, Ending.TIMEOUT]
    summary = summarise(records, Bounds(ttft=1.0), window=0.2)
    assert summary.attainment is not None
    assert (summary.offered, summary.attainment.value) == (2, 0.5)


async def test_stopping_ends_the_arrivals_and_keeps_what_was_sent() -> None:
    stop = asyncio.Event()
    async with scripted(lambda index: (200, SHORT)) as server:
        asyncio.get_running_loop().call_later(0.3, stop.set)
        records = await run_open_loop(Target(server.url), constant(20.0, 30.0), asks(600), CLOCK, stop=stop)
    assert 3 <= len(records) <= 20
    assert all(record.is_success for record in records)


async def test_stopping_shortens_the_grace_of_what_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openloop, "STOP_GRACE", 0.2)
    stop = asyncio.Event()
    async with scripted(lambda index: (200, [text("a"), 30.0])) as server:
        asyncio.get_running_loop().call_later(0.2, stop.set)
        async with asyncio.timeout(5):
            records = await run_open_loop(Target(server.url), [Arrival(0.0)], asks(1), CLOCK, grace=30.0, stop=stop)
    assert [record.ending for record in records] == [Ending.TIMEOUT]


async def test_the_scripted_share_of_failures_comes_out_and_the_rate_is_over_the_arrival_window() -> None:
    def script(index: int) -> tuple[int, Sequence[Step]]:
        if index % 10 == 3:
            return 503, [b"{}"]
        if index % 10 == 7:
            return 200, [text("a"), 0.01, None]
        return 200, [*SHORT[:1], 0.6, *SHORT[1:]]

    async with scripted(script) as server:
        records = await run_open_loop(Target(server.url), constant(40.0, 0.5), asks(20), CLOCK)
    summary = summarise(records, Bounds(ttft=30.0), window=0.5)
    assert summary.endings == {"ok": 16, "refused": 2, "cut": 2}
    assert summary.goodput == 32.0  # 16 in half a second of arrivals, although the last answer came later
    assert summary.attainment is not None and summary.attainment.value == 0.8


async def test_a_closed_loop_keeps_so_many_users_busy() -> None:
    async with scripted(lambda index: (200, [0.02, *SHORT])) as server:
        records, took = await run_closed_loop(Target(server.url), asks(500), CLOCK, users=3, seconds=0.4)
        assert server.most_open == 3
    assert len(records) >= 6 and took >= 0.4
