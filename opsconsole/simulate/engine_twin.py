"""The engine's own core on a virtual clock: what the simulated replica must equal, and what replays a real run exactly.

Its runner takes the time a step-time model says. It must not read a clock. The trap: prompts are real tokens here, so
equal prefix ids must become equal tokens and everything else must differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.request import Request, SamplingParams
from engine.step_time import StandInRunner, StandInSampler, StepTimeModel
from opsconsole.simulate.settings import Arrival, ReplicaModel

VOCABULARY = 64
MIX = 0x9E3779B97F4A7C15  # spreads consecutive numbers over 64 bits


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one request: seconds on the clock of the run."""

    arrived: float
    first: float | None
    last: float | None
    preemptions: int
    cached: int | None


def run_twin(model: ReplicaModel, step: StepTimeModel, arrivals: Iterable[Arrival]) -> list[Fate]:
    """Every request through the engine's scheduler, step by step."""
    clock = [0.0]

    def elapse(seconds: float) -> None:
        clock[0] += seconds

    runner = StandInRunner(model.kv_blocks, model.block_size, VOCABULARY, step, elapse)
    core = EngineCore(config_of(model), runner, StandInSampler(VOCABULARY), lambda: clock[0])
    requests = [request_of(number, arrival, model.hash_tokens) for number, arrival in enumerate(arrivals)]
    coming = iter(requests)
    ahead = next(coming, None)
    while ahead is not None or core.has_work:
        while ahead is not None and ahead.arrival <= clock[0]:
            core.add(ahead)
            ahead = next(coming, None)
        if core.has_work:
            core.step()
            core.check()
        elif ahead is not None:
            clock[0] = ahead.arrival
    return [fate_of(request) for request in requests]


def config_of(model: ReplicaModel) -> EngineConfig:
    """The engine's settings that mean the same as the replica's."""
    return EngineConfig(
        model.name,
        kv_blocks=model.kv_blocks,
        max_model_len=model.kv_tokens,
        block_size=model.block_size,
        chunk=model.chunk,
        max_seqs=model.max_seqs,
        prefix_cache=model.prefix_cache,
        watermark=model.watermark,
    )


def request_of(number: int, arrival: Arrival, hash_tokens: int, vocabulary: int = 1 << 40, low: int = 0) -> Request:
    """Equal ids give equal tokens; what follows them is the request's own."""
    shared = [block * hash_tokens + i for block in arrival.blocks for i in range(hash_tokens)][: arrival.prompt_tokens]
    own = (number + 1) * 1_000_003
    tokens = (*shared, *(own * 31 + i for i in range(arrival.prompt_tokens - len(shared))))
    ids = tuple(low + (token * MIX % 2**64 >> 20) % vocabulary for token in tokens)
    return Request(
        str(number), ids, SamplingParams(arrival.output_tokens, temperature=0.0, ignore_eos=True), arrival.at
    )


def fate_of(request: Request) -> Fate:
    return Fate(
        request.arrival, request.first_token_at, request.last_token_at, request.preemptions, request.cached_tokens
    )
