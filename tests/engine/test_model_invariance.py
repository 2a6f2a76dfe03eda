"""The real default model in float32: the ids of transformers, whatever chunks, batches, block order and cache do.

The expected ids were made by transformers (see `made_by` in the data). Every gap between the two best logits on the way
is above 1e-4, so no tie excuses a difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from engine.assembly import Engine, EngineOptions, model_engine
from engine.request import Request, SamplingParams
from opsconsole.clock import SystemClock
from opsconsole.errors import UsageError
from opsconsole.local.weights import default_weights

pytestmark = pytest.mark.model
GOLDEN = json.loads((Path(__file__).parents[1] / "data/engine/smollm2_greedy.json").read_text())["cases"]
Build = Callable[..., Engine]


@pytest.fixture(scope="module")
def weights() -> str:
    try:
        return str(default_weights())
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def load(weights: str) -> Build:
    def make(**options: Any) -> Engine:
        settings = EngineOptions("m", **{"kv_blocks": 200, "max_model_len": 600, **options})
        return model_engine(weights, settings, SystemClock().monotonic, dtype="fp32", quantize="none", threads=None)

    return make


def run(engine: Engine, cases: Sequence[dict[str, Any]], tokens: int = 64) -> list[list[int]]:
    """Greedy ids of all cases, submitted at once."""
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    requests = [Request(str(n), tuple(case["prompt_ids"]), params, 0.0) for n, case in enumerate(cases)]
    for request in requests:
        engine.core.add(request)
    while engine.core.has_work:
        engine.core.step()
    engine.core.check()
    return [request.tokens[len(request.prompt) :] for request in requests]


def test_the_data_has_no_ties_to_hide_behind() -> None:
    assert len(GOLDEN) == 20 and all(len(case["ids"]) == 64 and case["smallest_gap"] > 1e-4 for case in GOLDEN)


def test_prompts_are_tokenised_as_they_were(load: Build) -> None:
    codec = load(kv_blocks=40).text.codec
    assert [codec.encode(case["prompt"]) for case in GOLDEN] == [case["prompt_ids"] for case in GOLDEN]


def test_twenty_prompts_in_few_blocks_and_small_chunks_are_preempted_and_still_right(load: Build) -> None:
    engine = load(kv_blocks=40, chunk=16, shuffle_blocks=3)
    assert run(engine, GOLDEN) == [case["ids"] for case in GOLDEN]
    assert engine.core.stats().preemptions > 0


def test_one_alone_in_one_chunk_is_right(load: Build) -> None:
    engine = load(chunk=512)
    for case in GOLDEN[:2]:
        assert run(engine, [case], 32) == [case["ids"][:32]]


def test_a_cache_hit_changes_nothing(load: Build) -> None:
    engine = load(chunk=64)
    long = {"prompt_ids": [*GOLDEN[1]["prompt_ids"], *GOLDEN[1]["ids"]]}
    first = run(engine, [long], 16)
    again = run(engine, [long], 16)
    assert first == again and engine.core.stats().cache_hits > 32
    assert run(load(chunk=7, prefix_cache=False), [long], 16) == first


async def test_the_server_gives_the_same_ids_under_preemption(
    load: Build, serve: Callable[..., AbstractAsyncContextManager[Any]]
) -> None:
    import asyncio

    engine = load(kv_blocks=40, chunk=16)
    codec = engine.text.codec
    async with serve(engine) as served, served.client() as client:

        async def ask(case: dict[str, Any]) -> str:
            body = {"model": "m", "prompt": case["prompt"], "max_tokens": 64, "temperature": 0, "ignore_eos": True}
            return str((await client.post("/v1/completions", json=body)).json()["choices"][0]["text"])

        answers = await asyncio.gather(*map(ask, GOLDEN))
        page = (await client.get("/metrics")).text
    assert answers == [codec.decode(case["ids"]) for case in GOLDEN]
    preemptions = next(line for line in page.splitlines() if line.startswith("vllm:num_preemptions_total"))
    assert float(preemptions.rsplit(" ", 1)[1]) > 0


async def test_logprobs_name_the_tokens_of_the_text(
    load: Build, serve: Callable[..., AbstractAsyncContextManager[Any]]
) -> None:
    async with serve(load(kv_blocks=40)) as served, served.client() as client:
        body: dict[str, Any] = {"model": "m", "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
        choice = (await client.post("/v1/completions", json={**body, "logprobs": 2})).json()["choices"][0]
        found = choice["logprobs"]
        assert "".join(found["tokens"]) == choice["text"] and len(found["token_logprobs"]) == 8
        assert [max(top.values()) for top in found["top_logprobs"]] == found["token_logprobs"]
        assert found["text_offset"] == [len("".join(found["tokens"][:n])) for n in range(8)]
        chat: dict[str, Any] = {
            "model": "m",
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": 6,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
        }
        choice = (await client.post("/v1/chat/completions", json=chat)).json()["choices"][0]
        entries = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
        assert all(entry["top_logprobs"][0]["logprob"] == entry["logprob"] <= 0.0 for entry in entries)
        assert bytes(entries[0]["bytes"]).decode() == entries[0]["token"]
