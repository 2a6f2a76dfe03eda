"""Which precision, packing and operators a machine gets, and what the operator of it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.kernels.build import BuildError
from engine.kernels.compiled import CompiledOperators
from engine.kernels.operators import TorchOperators
from engine.loader import load_model
from engine.model import recipe
from engine.model.config import ModelConfig, UnsupportedModelError
from engine.model.recipe import DtypeName, Quantize, Recipe, choose_recipe
from engine.model_runner import ModelRunner
from engine.plan import BatchPlan, ScheduledRequest

CONFIG = ModelConfig("llama", 1, 64, 96, 4, 2, 16, 256, 1e-5, 512, 10_000.0)
OracleOf = Callable[[str], tuple[Path, Any]]


def choose(quantised: bool, dtype: DtypeName = "auto", quantize: Quantize = "auto", **change: Any) -> Recipe:
    return choose_recipe(replace(CONFIG, **change), quantised, dtype=dtype, quantize=quantize, threads=2)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return monkeypatch


@pytest.fixture
def without_compiler(on_cpu: pytest.MonkeyPatch) -> None:
    def none(threads: int) -> CompiledOperators:
        raise BuildError("No C compiler was found.")

    on_cpu.setattr(recipe, "best_operators", none)


@pytest.mark.parametrize(("able", "name"), [(True, "bf16"), (False, "fp32")])
def test_bf16_only_where_the_cpu_has_it(able: bool, name: str, on_cpu: pytest.MonkeyPatch) -> None:
    on_cpu.setattr(recipe, "has_bf16_instructions", lambda: able)
    assert choose(quantised=False).name == name
    assert choose(quantised=True, quantize="none").name == name


def test_weights_that_come_quantised_run_in_int8_unless_a_dtype_is_given(on_cpu: pytest.MonkeyPatch) -> None:
    assert choose(quantised=True).name == "int8"
    assert choose(quantised=False, quantize="int8").name == "int8"
    assert choose(quantised=True, dtype="fp32").name == "fp32"
    with pytest.raises(UnsupportedModelError, match="either --dtype or --quantize"):
        choose(quantised=True, dtype="bf16", quantize="int8")


def test_without_a_compiler_torch_does_it_all_and_says_so(without_compiler: None) -> None:
    chosen = choose(quantised=True)
    assert isinstance(chosen.ops, TorchOperators) and chosen.notices == ("No C compiler was found.",)
    with pytest.raises(UnsupportedModelError, match="int8 needs the C operators"):
        choose(quantised=True, quantize="int8")


def test_odd_widths_and_fp16_stay_with_torch(on_cpu: pytest.MonkeyPatch) -> None:
    odd = choose(quantised=False, dtype="fp32", ffn=100)
    assert isinstance(odd.ops, TorchOperators) and "multiples of 16" in odd.notices[0]
    assert isinstance(choose(quantised=False, dtype="fp16").ops, TorchOperators)


def test_torch_alone_gives_the_same_logits(without_compiler: None, oracle_of: OracleOf) -> None:
    folder, oracle = oracle_of("qwen3")
    loaded = load_model(folder, dtype="fp32", threads=2)
    assert isinstance(loaded.model.ops, TorchOperators)
    ids = tuple(range(3, 43))
    logits = ModelRunner(loaded.model, 8, 16).run(BatchPlan(1, (ScheduledRequest("a", ids, 0, (5, 1, 3), True),)))
    with torch.no_grad():
        assert (logits[0] - oracle(torch.tensor([ids])).logits[0, -1]).abs().max() < 1e-3


def test_bf16_stays_close_to_float32(oracle_of: OracleOf, on_cpu: pytest.MonkeyPatch) -> None:
    folder, _ = oracle_of("llama3")
    plan = BatchPlan(1, (ScheduledRequest("a", tuple(range(3, 60)), 0, (5, 1, 3, 2), True),))
    wide, narrow = (
        ModelRunner(load_model(folder, dtype=d, threads=2).model, 8, 16).run(plan) for d in ("fp32", "bf16")
    )
    assert 0 < (wide - narrow).abs().max() < 0.05 * wide.abs().max()


def test_the_facts_beside_the_weights_are_passed_on(oracle_of: OracleOf) -> None:
    loaded = load_model(oracle_of("qwen2")[0], dtype="fp32", threads=1)
    assert (loaded.max_position, loaded.eos_ids, loaded.dtype_name, loaded.chat_template) == (512, (2,), "fp32", None)
    parameters = 2 * 256 * 64 + 3 * (64 * 128 + 64 * 64 + 3 * 64 * 96)
    assert loaded.weight_bytes == 4 * parameters


def test_block_sizes_the_operators_cannot_read_are_refused(oracle_of: OracleOf) -> None:
    loaded = load_model(oracle_of("qwen2")[0], dtype="fp32", threads=1)
    if isinstance(loaded.model.ops, TorchOperators):
        pytest.skip("no C operators here")
    with pytest.raises(ValueError, match="block size cannot be 8"):
        ModelRunner(loaded.model, 8, 8)
