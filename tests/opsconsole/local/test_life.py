"""One worker's life with a real scripted process: drained without a cut, cut at its deadline, not left hung."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from opsconsole.clock import SystemClock
from opsconsole.local import life
from opsconsole.local.life import WorkerLife
from opsconsole.local.settings import UpSettings
from opsconsole.local.workers import Phase, Worker, Workers

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SCRIPT_START_S", "0.1")
    monkeypatch.setenv("SCRIPT_TOKEN_S", "0.05")
    with tempfile.TemporaryDirectory(prefix="life-") as made:
        (Path(made) / "logs").mkdir()
        yield Path(made)


async def until(what: object, limit: float = 20.0) -> None:
    assert callable(what)
    async with asyncio.timeout(limit):
        while not what():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def living(folder: Path) -> AsyncIterator[tuple[WorkerLife, Worker, Workers]]:
    settings = UpSettings(
        str(folder), "run", "m", "m", worker_module="tests.opsconsole.local.scripted_worker", worker_args=()
    )
    workers = Workers(1)
    worker = workers.add(CLOCK.now(), CLOCK.now())
    made = WorkerLife(worker, workers, settings, CLOCK, lambda: None, {})
    try:
        await until(lambda: worker.is_ready)
        yield made, worker, workers
    finally:
        await made.stop(0.0)


async def stream(url: str, tokens: int) -> str:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        try:
            reply = await client.post(f"{url}/v1/completions", json={"stream": True, "max_tokens": tokens})
        except httpx.HTTPError as error:
            return type(error).__name__
        return reply.text if reply.status_code == 200 else str(reply.status_code)


async def test_a_drain_waits_for_its_stream_refuses_new_ones_and_cuts_none(folder: Path) -> None:
    async with living(folder) as (made, worker, workers):
        assert worker.url is not None
        running = asyncio.create_task(stream(worker.url, 40))
        await asyncio.sleep(0.3)
        made.drain(30.0)
        await asyncio.sleep(0.3)
        assert await stream(worker.url, 1) == "503"
        assert (await running).endswith("data: [DONE]\n\n")
        await until(lambda: worker.phase is Phase.GONE)
        assert workers.events[-1].facts == {"cut": 0.0}
        assert workers.get("w1") is None


async def test_a_drain_that_reaches_its_deadline_cuts_and_counts_what_still_runs(folder: Path) -> None:
    async with living(folder) as (made, worker, workers):
        assert worker.url is not None
        running = [asyncio.create_task(stream(worker.url, 400)) for _ in range(2)]
        await asyncio.sleep(0.3)
        made.drain(0.6)
        await until(lambda: worker.phase is Phase.GONE)
        assert workers.events[-1].text == "w1 is gone, with 2 streams cut at the deadline"
        assert all("[DONE]" not in text for text in await asyncio.gather(*running))


async def test_a_drain_can_be_taken_back_while_streams_run(folder: Path) -> None:
    async with living(folder) as (made, worker, _):
        assert worker.url is not None
        running = asyncio.create_task(stream(worker.url, 30))
        await asyncio.sleep(0.2)
        made.drain(30.0)
        await asyncio.sleep(0.2)
        assert await made.undrain()
        assert worker.is_ready
        assert (await stream(worker.url, 1)).endswith("data: [DONE]\n\n")
        assert (await running).endswith("data: [DONE]\n\n")
        await asyncio.sleep(0.5)
        assert worker.is_ready


async def test_a_worker_that_hangs_is_killed_and_started_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "MUTE_LIMIT", 1.0)
    monkeypatch.setattr(life, "READY_POLL", 0.1)
    monkeypatch.setattr("opsconsole.local.processes.ASK_TIMEOUT", 0.3)
    async with living(folder) as (_, worker, workers):
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        await until(lambda: worker.restarts == 1)
        assert any(event.kind == "mute" for event in workers.events)
        await until(lambda: worker.is_ready)
