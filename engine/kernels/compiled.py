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
from engine.kernels.operators import HeadShape, Stretch
from engine.kv_store import KvStore
from engine.model.config import ModelConfig

KINDS = {torch.float32: 0, torch.bfloat16: 1}  # as in vector.h
INT8 = 2  # the kind of a matrix, as in operators.h
P, N, L, F = c_void_p, c_int, c_int64, c_float  # pointer, number, length, fraction
SIGNATURES = {
    "add_rms_norm": (P, P, N, P, P, N, L, L, F, N),
    "rotate_and_store": (P, N, P, P, P, F, P, P, P, N, P, L, L, L, L, L, N),
    "attend": (P, N, P, P, N, P, L, P, P, L, L, L, L, L, L, P, N, N),
    "pack_int8": (P, L, L, P, P, N),
    "pack_float": (P, N, L, L, P, N),
    "linear_float": (P, P, N, L, P, P, N, N),
    "linear_int8": (P, P, N, L, P, P, P, N, N),
    "between": (P, P, P, P, P, P, P, P, L, N),
}
QUICK_ROWS = 64  # calls of so many rows take microseconds


class Matrix(ctypes.Structure):
    """Packed weights as operators.h has them. Whoever made it keeps the tensors alive."""

    _fields_ = (
        ("weights", P), ("scales", P), ("bias", P), ("inputs", L), ("width", L), ("kind", N), ("fine", N), ("gated", N)
    )  # fmt: skip


class _Stretch(ctypes.Structure):
    """As between.c has it."""

    _fields_ = (
        ("output", P), ("gate_up", P), ("down", P), ("qkv", P),
        ("mlp_norm", P), ("norm", P), ("q_norm", P), ("k_norm", P),
        ("hidden", L), ("heads", L), ("kv_heads", L), ("size", L), ("block_size", L),
        ("eps", F), ("head_eps", F), ("kind", N), ("kv_kind", N), ("amx", N),
    )  # fmt: skip


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
        self._stretches: dict[int, tuple[Stretch, _Stretch]] = {}  # by identity; the first keeps it from being reused

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
        rows = q.shape[0]
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
            q.data_ptr(),
            int(self._has_tiles and shape.head_dim % 32 == 0),
            self.threads,
        )
        return q

    def between(
        self,
        x: torch.Tensor,
        mixed: torch.Tensor | None,
        turns: torch.Tensor,
        batch: AttentionBatch,
        kv: KvStore,
        stretch: Stretch,
    ) -> torch.Tensor:
        rows, entered = x.shape[0], stretch.entered
        width = x.shape[1] if entered is None else entered.shape.heads * entered.shape.head_dim
        out = torch.empty((rows, width), dtype=stretch.dtype) if mixed is None or mixed.shape[1] != width else mixed
        keys, values = kv.layer(stretch.index if entered is not None else 0)
        self._run(
            "between",
            rows,
            ctypes.addressof(self._described(stretch, kv)),
            x.data_ptr(),
            None if mixed is None else mixed.data_ptr(),
            turns.data_ptr(),
            batch.slots.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            out.data_ptr(),
            rows,
            self.threads,
        )
        return out

    def _described(self, stretch: Stretch, kv: KvStore) -> _Stretch:
        """The stretch as C reads it; made once."""
        known = self._stretches.get(id(stretch))
        if known is not None:
            return known[1]
        left, entered = stretch.left, stretch.entered
        shape = None if entered is None else entered.shape
        described = _Stretch(
            output=None if left is None else _address(left.output),
            gate_up=None if left is None else _address(left.gate_up),
            down=None if left is None else _address(left.down),
            qkv=None if entered is None else _address(entered.qkv),
            mlp_norm=None if left is None else left.mlp_norm.data_ptr(),
            norm=stretch.norm.data_ptr(),
            q_norm=None if shape is None or shape.q_norm is None else shape.q_norm.data_ptr(),
            k_norm=None if shape is None or shape.k_norm is None else shape.k_norm.data_ptr(),
            hidden=stretch.norm.shape[0],
            heads=0 if shape is None else shape.heads,
            kv_heads=0 if shape is None else shape.kv_heads,
            size=0 if shape is None else shape.head_dim,
            block_size=kv.block_size,
            eps=stretch.eps,
            head_eps=0.0 if shape is None else shape.eps,
            kind=KINDS[stretch.dtype],
            kv_kind=KINDS[kv.keys.dtype],
            amx=int(self._has_tiles),
        )
        self._stretches[id(stretch)] = stretch, described
        return described

    def pack_float(self, weight: torch.Tensor) -> torch.Tensor:
        """float32 or bf16 weights in the order the products read them."""
        width, inputs = weight.shape
        weight = weight.contiguous()
        packed = torch.zeros(width * padded(inputs, 32), dtype=weight.dtype)
        self._patient["pack_float"](
            weight.data_ptr(), KINDS[weight.dtype], width, inputs, packed.data_ptr(), self.threads
        )
        return packed

    def pack_int8(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """int8 weights in the order the products read them, and the float32 scale of each output."""
        width, inputs = weight.shape
        weight = weight.float().contiguous()
        packed = torch.zeros(width * padded(inputs, 64), dtype=torch.int8)
        scales = torch.empty(width)
        self._patient["pack_int8"](weight.data_ptr(), width, inputs, packed.data_ptr(), scales.data_ptr(), self.threads)
        return packed, scales

    def multiply(self, x: torch.Tensor, matrix: Matrix) -> torch.Tensor:
        """x times packed weights, in the dtype of x; for int8 weights x is quantised row by row."""
        rows, inputs = x.shape
        width, kind = matrix.width // 2 if matrix.gated else matrix.width, KINDS[x.dtype]
        out = torch.empty((rows, width), dtype=x.dtype)
        lines = torch.empty(padded(rows, 32) * padded(inputs, 64) * (2 if matrix.kind == INT8 else 4), dtype=torch.int8)
        scales = (torch.empty(rows),) if matrix.kind == INT8 else ()
        self._run(
            "linear_int8" if matrix.kind == INT8 else "linear_float",
            rows,
            ctypes.addressof(matrix),
            x.data_ptr(),
            kind,
            rows,
            lines.data_ptr(),
            *(scale.data_ptr() for scale in scales),
            out.data_ptr(),
            int(self._has_tiles),
            self.threads,
        )
        return out


def _address(linear: Any) -> int:
    """Of the matrix of a linear made by these operators."""
    return ctypes.addressof(linear.matrix)


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
