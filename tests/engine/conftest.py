"""Engines over the stand-in runner, whose tokens prove the block tables, and what they must answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.request import Request, SamplingParams
from engine.step_time import StandInRunner, StandInSampler, StepTimeModel, fingerprint

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
