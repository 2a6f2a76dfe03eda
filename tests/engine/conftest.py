"""Engines over the stand-in runner, whose tokens prove the block tables, and what they must answer."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn

from engine.assembly import Engine, EngineOptions, stand_in_engine
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.request import Request, SamplingParams
from engine.server import EngineApp, QuietServer, ServerOptions
from engine.service import EngineService, Phase
from engine.step_time import StandInRunner, StandInSampler, StepTimeModel, fingerprint
from opsconsole.clock import SystemClock

VOCABULARY = 1000
BuildCore = Callable[..., EngineCore]
MakeRequest = Callable[..., Request]
Oracle = Callable[[Request], list[int]]


@pytest.fixture
def build() -> BuildCore:
    """A core on a clock that only steps move. `seed` shuffles the physical blocks."""

    def make(kv_blocks: int = 64, seed: int | None = None, **settings: object) -> EngineCore:
        defaults = EngineConfig("m", kv_blocks=kv_blocks, max_model_len=min(kv_blocks * 16, 512), chunk=64)
        config = replace(defaults, **settings)  # type: ignore[arg-type]
        order = list(range(kv_blocks))
        if seed is not None:
            random.Random(seed).shuffle(order)
        time = [0.0]

        def elapse(seconds: float) -> None:
            time[0] += seconds

        runner = StandInRunner(kv_blocks, config.block_size, VOCABULARY, StepTimeModel(), elapse)
        return EngineCore(config, runner, StandInSampler(VOCABULARY), lambda: time[0], block_order=order)

    return make


@pytest.fixture
def ask() -> MakeRequest:
    """A greedy request of `length` tokens (drawn from `seed`) or of the tokens given."""

    def make(
        name: str, length: int = 20, output: int = 8, *, tokens: Sequence[int] = (), seed: int = 0, **more: object
    ) -> Request:
        params: dict[str, object] = {"temperature": 0.0, "max_tokens": output}
        fields: dict[str, object] = {"arrival": 0.0}
        for key, value in more.items():
            (fields if key in ("arrival", "priority", "slo", "salt") else params)[key] = value
        drawn = random.Random(f"{seed}:{length}")
        prompt = tuple(tokens) or tuple(drawn.randrange(VOCABULARY) for _ in range(length))
        return Request(name, prompt, SamplingParams(**params), **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def expected() -> Oracle:
    """The greedy output of a request, from its tokens alone."""

    def continue_alone(request: Request) -> list[int]:
        tokens = list(request.prompt)
        for _ in range(request.params.max_tokens):
            tokens.append(fingerprint(tokens) % VOCABULARY)
        return tokens[len(request.prompt) :]

    return continue_alone


class Served:
    """An engine behind a real socket."""

    def __init__(self, engine: Engine, app: EngineApp, url: str) -> None:
        self.core, self.service, self.app, self.url = engine.core, app.service, app, url

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30.0)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something the engine's thread brings about."""
        for _ in range(2000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("the condition did not come true in 10 s")


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def _serve(
    engine: Engine | None = None, *, step_s: float = 0.001, server: ServerOptions | None = None, **options: Any
) -> AsyncIterator[Served]:
    pause = threading.Event()
    clock = SystemClock()

    def elapse(seconds: float) -> None:
        pause.wait(step_s)

    engine = engine or stand_in_engine(
        StepTimeModel(), EngineOptions("tiny", **{"kv_blocks": 256, **options}), clock.monotonic, elapse
    )
    service = EngineService(engine.core, engine.text, clock.monotonic)
    app = EngineApp(service, server or ServerOptions(), clock.now)
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app.asgi(), log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    running = QuietServer(config)
    task = asyncio.create_task(running.serve([bound]))
    served = Served(engine, app, f"http://127.0.0.1:{bound.getsockname()[1]}")
    try:
        await served.until(lambda: service.phase is not Phase.STARTING)
        yield served
    finally:
        running.should_exit = True
        await task
        bound.close()


@pytest.fixture
def serve() -> Serve:
    """`async with serve(...) as served`: a stand-in engine, or the one given, on a port of its own."""
    return _serve
