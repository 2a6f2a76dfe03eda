"""What the decoder asks of its operators, and the pure torch answer.

The C operators (`compiled.py`) must give the same numbers; tests hold them to these. Must not know: requests, files.
Trap: the residual stream is float32 in every precision, only what feeds a matrix product is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from engine.attention import AttentionBatch
from engine.kv_store import KvStore


@dataclass(frozen=True, slots=True)
class HeadShape:
    """How a row of q, k and v splits into heads, and what is done to each head."""

    heads: int
    kv_heads: int
    head_dim: int
    q_norm: torch.Tensor | None = None  # Qwen3: float32 [head_dim]
    k_norm: torch.Tensor | None = None
    eps: float = 1e-6
    window: int | None = None  # keys a query may see, itself included


class Operators(Protocol):
    """The five operators of a decoder layer that are not matrix products."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype) -> torch.Tensor:
        """x float32 [rows, hidden], normalised, in `dtype`."""
        ...

    def add_rms_norm(
        self, x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype
    ) -> torch.Tensor:
        """Adds `delta` to x in place, then as `rms_norm`."""
        ...

    def rotate_and_store(
        self,
        qkv: torch.Tensor,
        turns: torch.Tensor,
        batch: AttentionBatch,
        kv: KvStore,
        layer: int,
        shape: HeadShape,
    ) -> torch.Tensor:
        """Norms and turns q and k, stores k and v in their slots; gives q as [rows, heads * head_dim]."""
        ...

    def attend(self, q: torch.Tensor, batch: AttentionBatch, kv: KvStore, layer: int, shape: HeadShape) -> torch.Tensor:
        """Causal attention of every row over its own sequence's blocks: [rows, heads * head_dim]."""
        ...

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """silu(left half) * right half."""
        ...


class TorchOperators:
    """Plain torch: any device, any dtype; the meaning of the C operators."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, eps).to(dtype)

    def add_rms_norm(
        self, x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype
    ) -> torch.Tensor:
        x += delta
        return self.rms_norm(x, weight, eps, dtype)

    def rotate_and_store(
        self,
        qkv: torch.Tensor,
        turns: torch.Tensor,
        batch: AttentionBatch,
        kv: KvStore,
        layer: int,
        shape: HeadShape,
    ) -> torch.Tensor:
        rows, size = qkv.shape[0], shape.head_dim
        heads = qkv.float().view(rows, shape.heads + 2 * shape.kv_heads, size)
        q, k, v = torch.split(heads, [shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        if shape.q_norm is not None and shape.k_norm is not None:
            q = functional.rms_norm(q, (size,), shape.q_norm, shape.eps)
            k = functional.rms_norm(k, (size,), shape.k_norm, shape.eps)
        kv.write(layer, batch.slots, _turned(k, turns), v)
        return _turned(q, turns).to(qkv.dtype).reshape(rows, shape.heads * size)

    def attend(self, q: torch.Tensor, batch: AttentionBatch, kv: KvStore, layer: int, shape: HeadShape) -> torch.Tensor:
        out = torch.empty_like(q)
        group = shape.heads // shape.kv_heads
        for sequence, (first, rows, start) in enumerate(batch.spans):
            total = start + rows
            blocks = -(-total // kv.block_size)
            keys, values = kv.read(layer, batch.tables[sequence, :blocks].long(), total)
            queries = q[first : first + rows].view(rows, shape.heads, shape.head_dim).transpose(0, 1)
            seen = visible(rows, start, shape.window, q.device)
            mixed = functional.scaled_dot_product_attention(
                queries[None],
                keys.to(q.dtype).repeat_interleave(group, 0)[None],
                values.to(q.dtype).repeat_interleave(group, 0)[None],
                attn_mask=seen,
            )[0]
            out[first : first + rows] = mixed.transpose(0, 1).reshape(rows, -1)
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return functional.silu(gate) * up


def visible(rows: int, start: int, window: int | None, device: torch.device) -> torch.Tensor:
    """Which of start + rows keys each of `rows` queries may see."""
    query = torch.arange(start, start + rows, device=device)[:, None]
    key = torch.arange(start + rows, device=device)[None, :]
    seen = key <= query
    return seen if window is None else seen & (key > query - window)


def _turned(heads: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """[rows, heads, size] turned by each row's angles; dimension i pairs with i + size / 2."""
    half = heads.shape[-1] // 2
    cosine, sine = turns[:, None, :half], turns[:, None, half:]
    left, right = heads[..., :half], heads[..., half:]
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)
