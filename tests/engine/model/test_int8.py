"""Weights in 8 bits: a row's answer is its own, and the text stays as likely as in float32."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from engine.attention import attention_batch
from engine.loader import LoadedModel, load_model
from engine.model_runner import ModelRunner
from engine.plan import BatchPlan, ScheduledRequest
from engine.tokenizer import load_tokenizer

TEXTS = (Path(__file__).parents[2] / "data" / "engine" / "prose.txt", Path(__file__).parents[3] / "LICENSE")


@pytest.fixture(scope="module")
def int8(smollm2: Path) -> LoadedModel:
    return load_model(smollm2, threads=2, quantize="int8")


@torch.inference_mode()
def perplexity(loaded: LoadedModel, ids: list[int], window: int = 400) -> float:
    """e to the mean surprise per token, over windows that do not see one another."""
    runner, surprise, count = ModelRunner(loaded.model, 32, 16), 0.0, 0
    for begin in range(0, len(ids), window):
        piece = ids[begin : begin + window]
        item = ScheduledRequest("a", tuple(piece), 0, tuple(range(-(-len(piece) // 16))), True)
        batch = replace(
            attention_batch(BatchPlan(1, (item,)), 16, loaded.model.device), sampled=torch.arange(len(piece))
        )
        logits = loaded.model.forward(batch, runner.kv)
        surprise += float(functional.cross_entropy(logits[:-1], torch.tensor(piece[1:]), reduction="sum"))
        count += len(piece) - 1
    return math.exp(surprise / count)


@pytest.mark.model
def test_perplexity_stays_within_one_percent_of_float32(
    int8: LoadedModel, smollm2_fp32: LoadedModel, smollm2: Path
) -> None:
    tokenizer = load_tokenizer(smollm2)
    ids = [token for path in TEXTS for token in tokenizer.encode(path.read_text())[:1200]]
    assert perplexity(int8, ids) <= 1.01 * perplexity(smollm2_fp32, ids)


@pytest.mark.model
def test_the_default_for_quantised_weights_where_the_operators_are_built(int8: LoadedModel, smollm2: Path) -> None:
    assert int8.dtype_name == "int8"
    assert load_model(smollm2, threads=2).dtype_name == "int8"
    assert load_model(smollm2, threads=2, dtype="fp32").dtype_name == "fp32"


@pytest.mark.model
def test_a_tokens_logits_do_not_depend_on_its_batch_or_chunks(int8: LoadedModel) -> None:
    runner = ModelRunner(int8.model, 64, 16)
    ids = torch.randint(3, 49_152, (70,), generator=torch.Generator().manual_seed(3)).tolist()
    table = (9, 3, 27, 14, 50)
    runner.run(BatchPlan(1, (ScheduledRequest("a", tuple(ids[:69]), 0, table, False),)))
    alone = runner.run(BatchPlan(2, (ScheduledRequest("a", (ids[69],), 69, table, True),)))
    other = ScheduledRequest("b", tuple(ids[:40]), 0, (0, 1, 2), True)
    for start in range(0, 64, 8):
        runner.run(BatchPlan(3, (ScheduledRequest("a", tuple(ids[start : start + 8]), start, table, False), other)))
    together = runner.run(BatchPlan(4, (other, ScheduledRequest("a", tuple(ids[64:]), 64, table, True))))
    assert torch.equal(alone[0], together[1])


@pytest.mark.model
def test_greedy_ids_are_the_same_for_any_cut(int8: LoadedModel, walk: Any) -> None:
    runner = ModelRunner(int8.model, 256, 16)
    prompts = [
        torch.randint(3, 49_152, (9 + 7 * i,), generator=torch.Generator().manual_seed(i)).tolist() for i in range(5)
    ]
    first, second = (walk(runner, seed).greedy(prompts, 10, chunk) for seed, chunk in ((1, 3), (2, 40)))
    assert first == second
