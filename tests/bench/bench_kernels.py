"""What each operator of a decoder layer costs here, by number of rows: best of many, as machines are busy.

    python tests/bench/bench_kernels.py [--threads 2] [--variant avx2] [--rows 1,8,32,512]

The shapes are SmolLM2-135M's. A step is 30 layers and a head; the last line of each block is that sum.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from engine.attention import AttentionBatch, attention_batch
from engine.kernels.build import VARIANTS, cpu_features, fitting
from engine.kernels.compiled import CompiledOperators
from engine.kernels.operators import HeadShape
from engine.kv_store import KvStore
from engine.model.config import ModelConfig
from engine.model.linear import Int8Linear, PackedLinear
from engine.model.rope import inverse_frequencies, rotations
from engine.plan import BatchPlan, ScheduledRequest

SHAPE = ModelConfig(
    architecture="llama", layers=1, hidden=576, ffn=1536, heads=9, kv_heads=3, head_dim=64, vocab=49_152, eps=1e-5,
    max_position=8_192, rope_theta=100_000.0, tied_embeddings=True,
)  # fmt: skip
LAYERS, CONTEXT = 30, 512
LINEARS = {
    "qkv": (576, 960, True),
    "output": (576, 576, False),
    "gate_up": (576, 3072, True),  # and silu(gate) * up
    "down": (1536, 576, False),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One operator at one number of rows."""

    name: str
    seconds: float
    calls: int  # per step
    work: float  # multiply-adds of one call
    moved: float  # bytes read and written by one call

    @property
    def step(self) -> float:
        return self.seconds * self.calls


def best(call: Callable[[], object], seconds: float = 0.25) -> float:
    """The quickest of as many calls as fit; the first warms caches and is not counted."""
    call()
    least, spent, count = float("inf"), 0.0, 0
    while spent < seconds or count < 5:
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        least, spent, count = min(least, took), spent + took, count + 1
    return least


def batch_of(rows: int, block_size: int = 16) -> AttentionBatch:
    """Up to 64 rows: that many sequences decoding at CONTEXT; more: one prompt chunk from the start."""
    if rows <= 64:
        each = CONTEXT // block_size
        items: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
            ((0,), CONTEXT - 1, tuple(range(i * each, (i + 1) * each))) for i in range(rows)
        ]
    else:
        items = [((0,) * rows, 0, tuple(range(-(-rows // block_size))))]
    plan = BatchPlan(1, tuple(ScheduledRequest(str(i), *item, True) for i, item in enumerate(items)))
    return attention_batch(plan, block_size, torch.device("cpu"))


def linear_costs(ops: CompiledOperators, rows: int, kind: str) -> list[Cost]:
    costs = []
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    for name, (inputs, outputs, fine) in {**LINEARS, "head": (576, 49_152, True)}.items():
        taken = min(rows, 32) if name == "head" else rows
        weight = torch.randn(outputs, inputs)
        if kind == "int8":
            linear: Callable[[torch.Tensor], torch.Tensor] = Int8Linear(
                ops, weight, None, fine=fine, gated=name == "gate_up"
            )
        else:
            linear = PackedLinear(ops, weight.to(dtype), None, gated=name == "gate_up")
        x = torch.randn(taken, inputs).to(dtype)
        size = {"int8": 1, "bf16": 2, "fp32": 4}[kind] * inputs * outputs + x.nbytes + taken * outputs * x.itemsize
        calls = 1 if name == "head" else LAYERS
        costs.append(Cost(name, best(partial(linear, x)), calls, taken * inputs * outputs, size))
    return costs


def other_costs(ops: CompiledOperators, rows: int, kind: str) -> list[Cost]:
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    kv_dtype = torch.float32 if kind == "fp32" else torch.bfloat16
    batch = batch_of(rows)
    blocks = int(batch.tables.max()) + 1
    kv = KvStore(SHAPE, blocks, 16, dtype=kv_dtype, device=torch.device("cpu"))
    shape = HeadShape(SHAPE.heads, SHAPE.kv_heads, SHAPE.head_dim)
    turns = rotations(batch.positions, inverse_frequencies(SHAPE))
    x, delta, weight = torch.randn(rows, 576), torch.randn(rows, 576).to(dtype), torch.ones(576)
    qkv = torch.randn(rows, 960).to(dtype)
    q = ops.rotate_and_store(qkv, turns, batch, kv, 0, shape)
    seen = sum(count * start + count * (count + 1) / 2 for _, count, start in batch.spans)
    read = sum(start + count for _, count, start in batch.spans) * 2 * SHAPE.kv_width * kv_dtype.itemsize
    return [
        Cost("norm", best(lambda: ops.add_rms_norm(x, delta, weight, 1e-5, dtype)), 2 * LAYERS, 0, 3 * x.nbytes),
        Cost("rotate", best(lambda: ops.rotate_and_store(qkv, turns, batch, kv, 0, shape)), LAYERS, 0, 2 * qkv.nbytes),
        Cost("attend", best(lambda: ops.attend(q, batch, kv, 0, shape)), LAYERS, 2 * seen * 576, read),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--variant", choices=[variant.name for variant in VARIANTS])
    parser.add_argument("--rows", default="1,8,32,512")
    parser.add_argument("--kinds", default="int8,bf16,fp32")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    able = fitting(cpu_features())
    variant = next(v for v in able if given.variant in (None, v.name))
    ops = CompiledOperators(variant, given.threads)
    for kind in given.kinds.split(","):
        for rows in map(int, given.rows.split(",")):
            costs = linear_costs(ops, rows, kind) + other_costs(ops, rows, kind)
            step = sum(cost.step for cost in costs)
            table = Table(title=f"{variant.name}, {kind}, {rows} rows: {step * 1e3:.1f} ms, {rows / step:.0f} rows/s")
            for heading in ("operator", "us a call", "ms a step", "GMAC/s", "GB/s"):
                table.add_column(heading, justify="left" if heading == "operator" else "right")
            for cost in costs:
                rates = (f"{cost.work / cost.seconds / 1e9:.0f}", f"{cost.moved / cost.seconds / 1e9:.1f}")
                table.add_row(cost.name, f"{cost.seconds * 1e6:.0f}", f"{cost.step * 1e3:.2f}", *rates)
            Console().print(table)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
