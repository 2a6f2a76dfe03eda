"""Every C variant this CPU can run against the torch operators, and products in integers against exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest
import torch

from engine.attention import AttentionBatch, attention_batch
from engine.kernels.build import BuildError, cpu_features, fitting
from engine.kernels.compiled import CompiledOperators
from engine.kernels.operators import HeadShape, Operators, Stretch, TorchOperators
from engine.kv_store import KvStore
from engine.model.config import ModelConfig
from engine.model.decoder import DecoderLayer
from engine.model.linear import Int8Linear, Linear, PackedLinear, PlainLinear
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
    mixed = operators(name).attend(expected.clone(), batch, theirs, 1, shape)
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
        return operators(name).attend(q[start : start + count].clone(), batch, store, 0, shape)

    whole = attend(0, 200)
    assert torch.equal(whole[150:151], attend(150, 1))
    assert torch.equal(whole[97:160], attend(97, 63))


@pytest.mark.parametrize("fine", [False, True], ids=["8 bits", "16 bits"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 17, 40, 300])
@pytest.mark.parametrize("name", VARIANTS)
def test_int8_products_are_exact_in_integers(name: str, rows: int, fine: bool) -> None:
    weight, x, bias = torch.randn(112, 80), torch.randn(rows, 80), torch.randn(112)
    x[0] *= 100  # one loud row must not touch the others
    linear = Int8Linear(operators(name), weight, bias, fine=fine)
    steps = 127 * 254 if fine else 127
    row_scales = x.abs().amax(1, keepdim=True) / steps
    whole = (x * (steps / x.abs().amax(1, keepdim=True))).round()
    scales = weight.abs().amax(1) / 127
    columns = (weight / scales[:, None]).round()
    expected = (whole.double() @ columns.double().T).float() * row_scales * scales + bias
    ours = linear(x)
    # A value on the edge between two integers may fall either way: one step of the largest weight.
    assert ((ours - expected).abs() <= 2 * row_scales * weight.abs().max() + 1e-5 * expected.abs()).all()
    assert torch.equal(ours[-1:], linear(x[-1:]))


@pytest.mark.parametrize("weight_dtype", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 7, 16, 33, 250])
@pytest.mark.parametrize("name", VARIANTS)
def test_float_products_equal_torchs_and_do_not_depend_on_the_batch(
    name: str, rows: int, weight_dtype: torch.dtype
) -> None:
    weight, x, bias = torch.randn(112, 80).to(weight_dtype), torch.randn(rows, 80).bfloat16().float(), torch.randn(112)
    linear = PackedLinear(operators(name), weight, bias)
    ours = linear(x)
    assert close(ours, (x.double() @ weight.double().T + bias).float(), torch.float32)
    assert torch.equal(ours[-1:], linear(x[-1:]))


@pytest.mark.parametrize("packing", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_gated_product_is_silu_of_the_first_half_times_the_second(name: str, packing: str) -> None:
    weight, x, bias = torch.randn(96, 80) / 4, torch.randn(50, 80), torch.randn(96)
    if packing == "int8":
        ours = Int8Linear(operators(name), weight, bias, fine=True, gated=True)(x)
        plain = Int8Linear(operators(name), weight, bias, fine=True)(x)
    else:
        dtype = getattr(torch, packing)
        ours = PackedLinear(operators(name), weight.to(dtype), bias, gated=True)(x)
        plain = PackedLinear(operators(name), weight.to(dtype), bias)(x)
    gate, up = plain.chunk(2, dim=-1)
    assert close(ours, torch.nn.functional.silu(gate) * up, torch.float32)
    assert close(ours, PlainLinear(weight, bias, gated=True)(x), torch.bfloat16)


def layer(make: Callable[..., Linear]) -> DecoderLayer:
    """Of CONFIG's shape, the same weights for every `make`."""
    draw = torch.Generator().manual_seed(5)

    def linear(outputs: int, inputs: int, **kind: bool) -> Linear:
        return make(torch.randn(outputs, inputs, generator=draw) / inputs**0.5, None, **kind)

    return DecoderLayer(
        attention_norm=torch.rand(192, generator=draw) + 0.5,
        qkv=linear(320, 192, precise=True),
        output=linear(192, 192, precise=False),
        mlp_norm=torch.rand(192, generator=draw) + 0.5,
        gate_up=linear(192, 192, precise=True, gated=True),
        down=linear(192, 96, precise=True),
        shape=HeadShape(6, 2, 32),
    )


@pytest.mark.parametrize("rows", [1, 60, 64, 290])
@pytest.mark.parametrize("packing", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", VARIANTS)
def test_what_lies_between_attentions_as_torch_has_it_and_row_by_row(name: str, packing: str, rows: int) -> None:
    ops, dtype = operators(name), torch.bfloat16 if packing == "bfloat16" else torch.float32
    kv_dtype = torch.float32 if packing == "float32" else torch.bfloat16

    def make(weight: torch.Tensor, bias: None, *, precise: bool, gated: bool = False) -> Linear:
        if packing == "int8":
            return Int8Linear(ops, weight, bias, fine=precise, gated=gated)
        return PackedLinear(ops, weight.to(dtype), bias, gated=gated)

    ours = layer(make)
    plain = layer(lambda weight, bias, *, precise, gated=False: PlainLinear(weight.to(dtype), bias, gated=gated))
    store, other = stores(16, kv_dtype)
    x, mixed = torch.randn(rows, 192), torch.randn(rows, 192).to(dtype)
    blocks = tuple(torch.randperm(96)[: -(-rows // 16)].tolist())
    final = torch.rand(192) + 0.5

    def walk(
        steps: Operators, layers: DecoderLayer, kv: KvStore, first: int, last: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Into a layer, then out of the last: queries and normed rows of `first` to `last`."""
        item = ScheduledRequest("a", (0,) * (last - first), first, blocks, True)
        batch = attention_batch(BatchPlan(1, (item,)), 16, torch.device("cpu"))
        turns = rotations(batch.positions, inverse_frequencies(CONFIG))
        residual = x[first:last].clone()
        entering = Stretch(None, layers, 1, layers.attention_norm, 1e-5, dtype)
        leaving = Stretch(layers, None, 2, final, 1e-5, dtype)
        q = steps.between(residual, None, turns, batch, kv, entering)
        return q, steps.between(residual, mixed[first:last].clone(), turns, batch, kv, leaving)

    allowed = torch.float32 if packing == "float32" else torch.bfloat16
    got, expected = walk(ops, ours, store, 0, rows), walk(PLAIN, plain, other, 0, rows)
    assert all(close(mine.float(), theirs.float(), allowed) for mine, theirs in zip(got, expected, strict=True))
    assert close(store.keys, other.keys, kv_dtype) and close(store.values, other.values, kv_dtype)
    alone = walk(ops, ours, store, rows - 1, rows)
    assert all(torch.equal(whole[-1:], one) for whole, one in zip(got, alone, strict=True))


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
