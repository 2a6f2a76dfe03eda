"""The decoder against transformers, family by family, and against itself under every way to cut the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.loader import LoadedModel, load_model
from engine.model_runner import ModelRunner
from engine.plan import BatchPlan, BlockCopy, ScheduledRequest

OracleOf = Callable[[str], tuple[Path, Any]]
LogitsOf = Callable[[Any, Sequence[int]], torch.Tensor]
FAMILIES = ("llama3", "llama-bias", "mistral", "qwen2", "qwen2-window", "qwen3")
TIE = 1e-4  # greedy ids may differ where the two best logits are closer


def drawn(count: int, vocabulary: int, seed: int) -> list[int]:
    return torch.randint(3, vocabulary, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def every_logit(loaded: LoadedModel, ids: Sequence[int], chunk: int) -> torch.Tensor:
    """Logits of every position, `chunk` tokens a step, each position asked for as a request's last."""
    runner = ModelRunner(loaded.model, 64, 16)
    table, rows = tuple(range(63, 63 - -(-len(ids) // 16), -1)), []
    for start in range(0, len(ids), chunk):
        tokens = tuple(ids[start : start + chunk])
        rows.append(runner.run(BatchPlan(1, (ScheduledRequest("a", tokens, start, table, True),))))
    return torch.cat(rows)


def assert_greedy(texts: Sequence[Sequence[int]], prompts: Sequence[Sequence[int]], oracle: Any, of: LogitsOf) -> None:
    """Every id is what the oracle would choose after the same text: so by induction the same continuation."""
    for text, prompt in zip(texts, prompts, strict=True):
        logits = of(oracle, [*prompt, *text])[len(prompt) - 1 : -1]
        best = logits.max(dim=-1).values
        ours = logits[torch.arange(len(text)), torch.tensor(list(text))]
        assert (best - ours).max() <= TIE


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family: str, oracle_of: OracleOf, logits_of: LogitsOf) -> None:
    folder, oracle = oracle_of(family)
    loaded = load_model(folder, dtype="fp32", threads=2)
    ids = drawn(150, 256, seed=1)
    expected = logits_of(oracle, ids)
    assert (every_logit(loaded, ids, chunk=1) - expected).abs().max() < 1e-3
    assert (every_logit(loaded, ids, chunk=50) - expected[49::50]).abs().max() < 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_ids_equal_transformers_in_any_batch_and_chunk(
    family: str, oracle_of: OracleOf, logits_of: LogitsOf, walk: Any
) -> None:
    folder, oracle = oracle_of(family)
    runner = ModelRunner(load_model(folder, dtype="fp32", threads=2).model, 256, 16)
    prompts = [drawn(7 + 11 * i, 256, seed=i) for i in range(6)]
    for seed, chunk in ((1, 1), (2, 9), (3, 64)):
        assert_greedy(walk(runner, seed).greedy(prompts, 12, chunk), prompts, oracle, logits_of)


def test_the_window_is_honoured(oracle_of: OracleOf) -> None:
    """With three layers of 24 keys nothing older than 3 * 23 tokens can reach the last one."""
    folder, _ = oracle_of("mistral")
    loaded = load_model(folder, dtype="fp32", threads=2)
    ids = drawn(120, 256, seed=5)
    outside, inside = [*ids], [*ids]
    outside[120 - 1 - 70] = (ids[49] + 1) % 256
    inside[120 - 1 - 60] = (ids[59] + 1) % 256
    last = every_logit(loaded, ids, 120)
    assert torch.allclose(every_logit(loaded, outside, 120), last, atol=1e-5)
    assert not torch.allclose(every_logit(loaded, inside, 120), last, atol=1e-5)


def test_a_copied_block_serves_as_the_original(oracle_of: OracleOf) -> None:
    folder, _ = oracle_of("qwen3")
    runner = ModelRunner(load_model(folder, dtype="fp32", threads=2).model, 16, 16)
    ids = tuple(drawn(24, 256, seed=2))
    runner.run(BatchPlan(1, (ScheduledRequest("a", ids[:20], 0, (3, 4), False),)))
    plain = runner.run(BatchPlan(2, (ScheduledRequest("a", ids[20:], 20, (3, 4), True),)))
    copied = runner.run(BatchPlan(3, (ScheduledRequest("b", ids[20:], 20, (3, 9), True),), (BlockCopy(4, 9),)))
    assert torch.equal(plain, copied)


def test_only_the_rows_asked_for_come_back(oracle_of: OracleOf) -> None:
    folder, _ = oracle_of("llama3")
    runner = ModelRunner(load_model(folder, dtype="fp32", threads=2).model, 16, 16)
    items = tuple(ScheduledRequest(str(i), (5, 6 + i), 0, (i,), i != 1) for i in range(3))
    logits = runner.run(BatchPlan(1, items))
    assert logits.shape == (2, 256) and logits.dtype == torch.float32
    alone = runner.run(BatchPlan(2, (items[2],)))
    assert torch.allclose(logits[1], alone[0], atol=1e-5)
    assert runner.run(BatchPlan(3, (items[1],))).shape == (0, 256)


@pytest.mark.model
def test_default_weights_give_transformers_logits(
    smollm2_fp32: LoadedModel, smollm2_oracle: Any, logits_of: LogitsOf
) -> None:
    ids = drawn(256, 49_152, seed=11)
    expected = logits_of(smollm2_oracle, ids)
    assert (every_logit(smollm2_fp32, ids, chunk=16) - expected[15::16]).abs().max() < 1e-3
    assert (every_logit(smollm2_fp32, ids, chunk=256) - expected[-1:]).abs().max() < 1e-3


@pytest.mark.model
def test_default_weights_continue_as_transformers_does(
    smollm2_fp32: LoadedModel, smollm2_oracle: Any, logits_of: LogitsOf, walk: Any
) -> None:
    prompts = [drawn(5 + 3 * i, 49_152, seed=i) for i in range(20)]
    texts = walk(ModelRunner(smollm2_fp32.model, 256, 16), seed=4).greedy(prompts, 64, 24)
    assert all(len(text) == 64 for text in texts)
    assert_greedy(texts, prompts, smollm2_oracle, logits_of)
