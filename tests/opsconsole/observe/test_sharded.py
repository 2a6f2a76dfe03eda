"""Scraping over several processes: the same observations, and a shard that dies is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from opsconsole.clock import SystemClock
from opsconsole.errors import SourceErrorKind as Kind
from opsconsole.observe.fetch import FetchOptions
from opsconsole.observe.scrape import ScrapeOptions
from opsconsole.observe.sharded import ShardedSource
from opsconsole.observe.source import Observation
from opsconsole.observe.targets import StaticTargets, target_at

PATIENT = ScrapeOptions(FetchOptions(timeout_s=3.0), budget_s=8.0, spread_s=0.0)


def samples(found: Sequence[Observation]) -> dict[str, float | None]:
    return {o.replica.name: None if o.sample is None else o.sample.running for o in found}


@pytest.fixture
def wanted(server: Any) -> list[Any]:
    return [target_at(f"{server.url}/ok?n={n}", name=f"r{n}") for n in range(8)] + [
        target_at(f"{server.url}/html", name="html"),
        target_at(f"{server.url}/ok?n=3", name="twice"),
    ]


async def test_shards_give_what_one_process_gives_and_survive_a_death(server: Any, wanted: list[Any]) -> None:
    source = ShardedSource(StaticTargets(wanted), SystemClock(), PATIENT, shards=2)
    try:
        found = await source.observe(SystemClock().now())
        assert samples(found) == {f"r{n}": 3.0 for n in range(8)} | {"html": None, "twice (again)": None}
        kinds = {o.replica.name: o.error.kind for o in found if o.error}
        assert kinds == {"html": Kind.NOT_METRICS, "twice (again)": Kind.DUPLICATE}
        assert source.status().ok and "not-metrics" in (source.status().error or "")

        victim = source._shards[0].process
        assert victim is not None
        victim.kill()
        await victim.wait()
        wounded = await source.observe(SystemClock().now())
        lost = [o for o in wounded if o.error is not None and o.error.kind is Kind.INTERNAL]
        assert lost and all(o.sample is None for o in lost)
        assert sum(o.sample is not None for o in wounded) >= 1  # the other shard does not notice
        assert samples(await source.observe(SystemClock().now())) == samples(found)
    finally:
        processes = [shard.process for shard in source._shards]
        await source.close()
    assert all(p is None or p.returncode is not None for p in processes)


async def test_a_shard_that_is_behind_is_an_error_and_its_late_answer_is_dropped(server: Any) -> None:
    gate = asyncio.Event()

    async def late(request: Any) -> Any:
        await gate.wait()
        return await server._ok(request)

    server._late = late
    options = ScrapeOptions(FetchOptions(timeout_s=30.0), budget_s=30.0, spread_s=0.0)
    source = ShardedSource(
        StaticTargets([target_at(f"{server.url}/late", name="late")]), SystemClock(), options, shards=1
    )
    try:
        asking = asyncio.create_task(source.observe(0.0))
        while not server.requests:
            await asyncio.sleep(0.02)
        asking.cancel()  # a tick that was given up
        await asyncio.gather(asking, return_exceptions=True)
        gate.set()
        found = await source.observe(1.0)
        assert samples(found) == {"late": 3.0}
    finally:
        await source.close()
