"""Every C variant this CPU can run against the torch operators, and products in integers against exact ones."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest
import torch

from engine.attention import AttentionBatch, attention_batch
from engine.kernels.build import BuildError, cpu_features, fitting
from engine.kernels.compiled import CompiledOperators
from engine.kernels.operators import HeadShape, TorchOperators
from engine.kv_store import KvStore
from engine.model.config import ModelConfig
from engine.model.rope import inverse_frequencies, rotations
from engine.plan import BatchPlan, ScheduledRequest

VARIANTS = [variant.name for variant in fitting(cpu_features())]
KINDS = (torch.float32, torch.bfloat16)
PLAIN = TorchOperators()
CONFIG = ModelConfig("llama", 2, 192, 96, 6, 2, 32, 64, 1e-5, 512, 10_000.0)


@lru_cache
def operators(name: str) -> CompiledOperators:
    variant = next(variant for variant in fitting(cpu_features()) if variant.name == name)
    try:
        return CompiledOperators(variant, 2)
    except BuildError as error:
        pytest.skip(str(error))


def close(ours: torch.Tensor, theirs: torch.Tensor, dtype: torch.dtype) -> bool:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    allowed = 2e-5 if dtype == torch.float32 else 0.02
    return bool((ours.float() - theirs.float()).abs().max() <= allowed * theirs.float().abs().max().clamp_min(1))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_norm_adds_and_scales(name: str, dtype: torch.dtype) -> None:
    x, delta, weight = torch.randn(300, 192), torch.randn(300, 192).to(dtype), torch.randn(192)
    ours, theirs = x.clone(), x.clone()
    normed = operators(name).add_rms_norm(ours, delta, weight, 1e-5, dtype)
    assert close(normed, PLAIN.add_rms_norm(theirs, delta, weight, 1e-5, dtype), dtype)
    assert torch.equal(ours, theirs)
    assert close(operators(name).rms_norm(x, weight, 1e-5, dtype), PLAIN.rms_norm(x, weight, 1e-5, dtype), dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_silu_of_the_left_half_times_the_right(name: str, dtype: torch.dtype) -> None:
    gate_up = (torch.randn(50, 2 * 96) * 20).to(dtype)
    assert close(operators(name).silu_mul(gate_up), PLAIN.silu_mul(gate_up.float()).to(dtype), dtype)


def mixed_batch(block_size: int) -> AttentionBatch:
    """A whole prompt, decodes at several depths, and chunks that begin inside a block, in scattered blocks."""
    free = torch.randperm(96).tolist()
    items = []
    for index, (start, count) in enumerate(((0, 37), (100, 1), (17, 3), (250, 140), (0, 1), (15, 1), (127, 2))):
        needed = -(-(start + count) // block_size)
        table, free = free[:needed], free[needed:]
        items.append(ScheduledRequest(str(index), tuple(range(count)), start, tuple(table), True))
    return attention_batch(BatchPlan(1, tuple(items)), block_size, torch.device("cpu"))


def stores(block_size: int, kv_dtype: torch.dtype) -> tuple[KvStore, KvStore]:
    """Two alike, full of noise: what is stored before the batch and what must not be read."""
    pair = tuple(KvStore(CONFIG, 96, block_size, dtype=kv_dtype, device=torch.device("cpu")) for _ in range(2))
    for name in ("keys", "values"):
        noise = torch.randn(getattr(pair[0], name).shape)
        for store in pair:
            getattr(store, name).copy_(noise)
    return pair[0], pair[1]


@pytest.mark.parametrize("kv_dtype", KINDS, ids=str)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(("block_size", "window", "normed"), [(16, None, False), (32, None, True), (16, 40, True)])
@pytest.mark.parametrize("name", VARIANTS)
def test_turned_stored_and_attended_as_torch_does(
    name: str, dtype: torch.dtype, kv_dtype: torch.dtype, block_size: int, window: int | None, normed: bool
) -> None:
    ours, theirs = stores(block_size, kv_dtype)
    batch = mixed_batch(block_size)
    norm = (torch.rand(32) + 0.5) if normed else None
    shape = HeadShape(6, 2, 32, norm, norm, 1e-6, window)
    turns = rotations(batch.positions, inverse_frequencies(CONFIG))
    qkv = torch.randn(len(batch.tokens), 10 * 32).to(dtype)
    q = operators(name).rotate_and_store(qkv, turns, batch, ours, 1, shape)
    expected = PLAIN.rotate_and_store(qkv, turns, batch, theirs, 1, shape)
    assert close(q, expected, dtype)
    assert close(ours.keys, theirs.keys, kv_dtype) and close(ours.values, theirs.values, kv_dtype)
    mixed = operators(name).attend(expected, batch, theirs, 1, shape)
    whole = PLAIN.attend(expected.float(), batch, theirs, 1, shape).to(dtype)
    # AMX rounds queries and weights to bf16 when the keys are bf16.
    assert close(mixed, whole, torch.bfloat16 if kv_dtype == torch.bfloat16 else dtype)


@pytest.mark.parametrize("kv_dtype", KINDS, ids=str)
@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_row_attends_the_same_alone_and_in_any_chunk(name: str, kv_dtype: torch.dtype, window: int | None) -> None:
    store, _ = stores(16, kv_dtype)
    shape = replace(HeadShape(6, 2, 32), window=window)
    q, table = torch.randn(200, 192), tuple(torch.randperm(96)[:20].tolist())

    def attend(start: int, count: int) -> torch.Tensor:
        item = ScheduledRequest("a", (0,) * count, start, table, True)
        batch = attention_batch(BatchPlan(1, (item,)), 16, torch.device("cpu"))
        return operators(name).attend(q[start : start + count].contiguous(), batch, store, 0, shape)

    whole = attend(0, 200)
    assert torch.equal(whole[150:151], attend(150, 1))
    assert torch.equal(whole[97:160], attend(97, 63))


@pytest.mark.parametrize("fine", [False, True], ids=["8 bits", "16 bits"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 17, 40, 300])
@pytest.mark.parametrize("name", VARIANTS)
def test_int8_products_are_exact_in_integers(name: str, rows: int, fine: bool) -> None:
    weight, x, bias = torch.randn(112, 80), torch.randn(rows, 80), torch.randn(112)
    x[0] *= 100  # one loud row must not touch the others
    packed, scales = operators(name).pack_int8(weight)
    steps = 127 * 254 if fine else 127
    row_scales = x.abs().amax(1, keepdim=True) / steps
    whole = (x * (steps / x.abs().amax(1, keepdim=True))).round()
    columns = (weight * (127 / weight.abs().amax(1, keepdim=True))).round()
    expected = (whole.double() @ columns.double().T).float() * row_scales * scales + bias
    ours = operators(name).multiply_int8(x, packed, scales, bias, fine=fine)
    # A value on the edge between two integers may fall either way: one step of the largest weight.
    assert ((ours - expected).abs() <= 2 * row_scales * weight.abs().max() + 1e-5 * expected.abs()).all()
    assert torch.equal(ours[-1:], operators(name).multiply_int8(x[-1:], packed, scales, bias, fine=fine))


@pytest.mark.parametrize("weight_dtype", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 7, 16, 33, 250])
@pytest.mark.parametrize("name", VARIANTS)
def test_float_products_equal_torchs_and_do_not_depend_on_the_batch(
    name: str, rows: int, weight_dtype: torch.dtype
) -> None:
    weight, x, bias = torch.randn(112, 80).to(weight_dtype), torch.randn(rows, 80).bfloat16().float(), torch.randn(112)
    packed = operators(name).pack_float(weight)
    ours = operators(name).multiply_float(x, packed, 112, bias)
    assert close(ours, (x.double() @ weight.double().T + bias).float(), torch.float32)
    assert torch.equal(ours[-1:], operators(name).multiply_float(x[-1:], packed, 112, bias))


def test_many_callers_at_once_get_their_own_answers() -> None:
    from concurrent.futures import ThreadPoolExecutor

    ops = operators(VARIANTS[0])
    inputs = [torch.randn(64, 192) for _ in range(8)]
    weight = torch.ones(192)
    expected = [PLAIN.rms_norm(x, weight, 1e-5, torch.float32) for x in inputs]

    def many(index: int) -> bool:
        return all(
            close(ops.rms_norm(inputs[index], weight, 1e-5, torch.float32), expected[index], torch.float32)
            for _ in range(200)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, range(8)))
