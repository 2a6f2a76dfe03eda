"""The C operators behind the same questions as `TorchOperators`.

Must not know: layers. Trap: C sees raw pointers; every tensor handed over must be contiguous, on the CPU, of a
checked dtype, and alive until the call returns. All of that is settled here, nothing of it in C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int, c_int64, c_void_p
from typing import Any

import torch

from engine.attention import AttentionBatch
from engine.kernels.build import BuildError, Variant, built_library, cpu_features, fitting
from engine.kernels.operators import HeadShape
from engine.kv_store import KvStore
from engine.model.config import ModelConfig

KINDS = {torch.float32: 0, torch.bfloat16: 1}  # as in vector.h
P, N, L, F = c_void_p, c_int, c_int64, c_float  # pointer, number, length, fraction
SIGNATURES = {
    "add_rms_norm": (P, P, N, P, P, N, L, L, F, N),
    "silu_mul": (P, P, N, L, L, N),
    "rotate_and_store": (P, N, P, P, P, F, P, P, P, N, P, L, L, L, L, L, N),
    "attend": (P, N, P, P, N, P, L, P, P, L, L, L, L, L, L, P, N, N),
    "pack_int8": (P, L, L, P, P, N),
    "pack_float": (P, N, L, L, P, N),
    "linear_float": (P, N, L, L, P, N, P, L, P, P, N, N),
    "linear_int8": (P, N, L, L, P, P, P, L, P, P, P, N, N, N),
}
QUICK_ROWS = 64  # calls of so many rows take microseconds


def _bound(library: ctypes.CDLL) -> dict[str, Callable[..., Any]]:
    library.may_use_tiles.restype = c_int
    functions: dict[str, Callable[..., Any]] = {"may_use_tiles": library.may_use_tiles}
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = list(arguments), None
        functions[name] = function
    return functions


class CompiledOperators:
    """Operators of one variant, run with a fixed number of threads."""

    def __init__(self, variant: Variant, threads: int) -> None:
        self.variant, self.threads = variant, threads
        path = built_library(variant)
        self._patient, self._quick = _bound(ctypes.CDLL(path)), _bound(ctypes.PyDLL(path))
        self._has_tiles = bool(self._patient["may_use_tiles"]())

    def _run(self, name: str, rows: int, *arguments: int | float | None) -> None:
        """A step makes 300 calls. Letting go of Python's lock around each gives the HTTP thread 300 chances to keep it
        for a while; short calls hold on to it, and Python hands it over every 5 ms anyway."""
        (self._quick if rows <= QUICK_ROWS else self._patient)[name](*arguments)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype) -> torch.Tensor:
        return self._normed(x, None, weight, eps, dtype)

    def add_rms_norm(
        self, x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype
    ) -> torch.Tensor:
        return self._normed(x, delta, weight, eps, dtype)

    def _normed(
        self, x: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor, eps: float, dtype: torch.dtype
    ) -> torch.Tensor:
        rows, width = x.shape
        out = torch.empty((rows, width), dtype=dtype)
        given, kind = (None, 0) if delta is None else (delta.data_ptr(), KINDS[delta.dtype])
        self._run(
            "add_rms_norm",
            rows,
            x.data_ptr(),
            given,
            kind,
            weight.data_ptr(),
            out.data_ptr(),
            KINDS[dtype],
            rows,
            width,
            eps,
            self.threads,
        )
        return out

    def rotate_and_store(
        self, qkv: torch.Tensor, turns: torch.Tensor, batch: AttentionBatch, kv: KvStore, layer: int, shape: HeadShape
    ) -> torch.Tensor:
        rows = qkv.shape[0]
        q = torch.empty((rows, shape.heads * shape.head_dim), dtype=qkv.dtype)
        keys, values = kv.layer(layer)
        self._run(
            "rotate_and_store",
            rows,
            qkv.data_ptr(),
            KINDS[qkv.dtype],
            turns.data_ptr(),
            None if shape.q_norm is None else shape.q_norm.data_ptr(),
            None if shape.k_norm is None else shape.k_norm.data_ptr(),
            shape.eps,
            batch.slots.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            KINDS[kv.keys.dtype],
            q.data_ptr(),
            rows,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            kv.block_size,
            self.threads,
        )
        return q

    def attend(self, q: torch.Tensor, batch: AttentionBatch, kv: KvStore, layer: int, shape: HeadShape) -> torch.Tensor:
        out, rows = torch.empty_like(q), q.shape[0]
        keys, values = kv.layer(layer)
        self._run(
            "attend",
            rows,
            q.data_ptr(),
            KINDS[q.dtype],
            keys.data_ptr(),
            values.data_ptr(),
            KINDS[kv.keys.dtype],
            batch.tables.data_ptr(),
            batch.tables.shape[1],
            batch.starts.data_ptr(),
            batch.offsets.data_ptr(),
            len(batch.spans),
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            kv.block_size,
            shape.window or 0,
            out.data_ptr(),
            int(self._has_tiles and shape.head_dim % 32 == 0),
            self.threads,
        )
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        rows, width = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty((rows, width), dtype=gate_up.dtype)
        self._run("silu_mul", rows, gate_up.data_ptr(), out.data_ptr(), KINDS[gate_up.dtype], rows, width, self.threads)
        return out

    def pack_float(self, weight: torch.Tensor) -> torch.Tensor:
        """float32 or bf16 weights in the order the products read them."""
        width, inputs = weight.shape
        weight = weight.contiguous()
        packed = torch.zeros(width * padded(inputs, 32), dtype=weight.dtype)
        self._patient["pack_float"](
            weight.data_ptr(), KINDS[weight.dtype], width, inputs, packed.data_ptr(), self.threads
        )
        return packed

    def multiply_float(
        self, x: torch.Tensor, packed: torch.Tensor, width: int, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x times packed weights; in the dtype of x."""
        rows, inputs = x.shape
        lines = torch.empty(padded(rows, 32) * padded(inputs, 32))
        out = torch.empty((rows, width), dtype=x.dtype)
        self._run(
            "linear_float",
            rows,
            x.data_ptr(),
            KINDS[x.dtype],
            rows,
            inputs,
            packed.data_ptr(),
            KINDS[packed.dtype],
            None if bias is None else bias.data_ptr(),
            width,
            lines.data_ptr(),
            out.data_ptr(),
            int(self._has_tiles and packed.dtype == torch.bfloat16),
            self.threads,
        )
        return out

    def pack_int8(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """int8 weights in the order the products read them, and the float32 scale of each output."""
        width, inputs = weight.shape
        weight = weight.float().contiguous()
        packed = torch.zeros(width * padded(inputs, 64), dtype=torch.int8)
        scales = torch.empty(width)
        self._patient["pack_int8"](weight.data_ptr(), width, inputs, packed.data_ptr(), scales.data_ptr(), self.threads)
        return packed, scales

    def multiply_int8(
        self, x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, *, fine: bool
    ) -> torch.Tensor:
        """x quantised row by row (to 16 bits when `fine`, else to 8), times packed weights; in the dtype of x."""
        rows, inputs = x.shape
        width, kind = scales.shape[0], KINDS[x.dtype]
        scratch = torch.empty((2 if fine else 1) * padded(rows, 32) * padded(inputs, 64), dtype=torch.int8)
        row_scales = torch.empty(rows)
        out = torch.empty((rows, width), dtype=x.dtype)
        self._run(
            "linear_int8",
            rows,
            x.data_ptr(),
            kind,
            rows,
            inputs,
            packed.data_ptr(),
            scales.data_ptr(),
            None if bias is None else bias.data_ptr(),
            width,
            scratch.data_ptr(),
            row_scales.data_ptr(),
            out.data_ptr(),
            int(fine),
            int(self._has_tiles and rows > 1),
            self.threads,
        )
        return out


def padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def fits(config: ModelConfig, dtype: torch.dtype, block_size: int = 16) -> bool:
    """The C loops take whole vectors of 16."""
    widths = (config.hidden, config.ffn, config.head_dim, config.vocab, block_size)
    return dtype in KINDS and all(width % 16 == 0 for width in widths)


def best_operators(threads: int) -> CompiledOperators:
    """For this CPU and this compiler; `BuildError` says why there are none."""
    failure = BuildError("This CPU fits no variant.")
    for variant in fitting(cpu_features()):
        try:
            return CompiledOperators(variant, threads)
        except BuildError as error:
            failure = error
    raise failure
