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


class Product(Protocol):
    """rows [n, inputs] -> [n, outputs]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class Layer(Protocol):
    """What a stretch asks of a decoder layer; see engine/model/decoder.py."""

    @property
    def qkv(self) -> Product: ...
    @property
    def output(self) -> Product: ...
    @property
    def mlp_norm(self) -> torch.Tensor: ...
    @property
    def gate_up(self) -> Product: ...
    @property
    def down(self) -> Product: ...
    @property
    def shape(self) -> HeadShape: ...


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """What lies between two attentions: the rest of the layer left, and the beginning of the one entered.

    The first stretch leaves no layer, the last one enters none."""

    left: Layer | None
    entered: Layer | None
    index: int  # of the layer entered
    norm: torch.Tensor  # of the layer entered, or the final one
    eps: float
    dtype: torch.dtype  # of what feeds a matrix product


class Operators(Protocol):
    """A decoder's two halves, and the parts of the second that are not matrix products."""

    def between(
        self,
        x: torch.Tensor,
        mixed: torch.Tensor | None,
        turns: torch.Tensor,
        batch: AttentionBatch,
        kv: KvStore,
        stretch: Stretch,
    ) -> torch.Tensor:
        """From what attention `mixed` (None before the first) to the queries of the next, or after the last layer to
        the final normed rows. Updates the residual x in place and stores keys and values. `mixed` is used up: its
        memory may be the result's."""
        ...

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
        """Causal attention of every row over its own sequence's blocks: [rows, heads * head_dim]. q is used up: its
        memory may be the result's."""
        ...


class TorchOperators:
    """Plain torch: any device, any dtype; the meaning of the C operators."""

    def between(
        self,
        x: torch.Tensor,
        mixed: torch.Tensor | None,
        turns: torch.Tensor,
        batch: AttentionBatch,
        kv: KvStore,
        stretch: Stretch,
    ) -> torch.Tensor:
        left, entered, eps, dtype = stretch.left, stretch.entered, stretch.eps, stretch.dtype
        if left is None or mixed is None:
            normed = self.rms_norm(x, stretch.norm, eps, dtype)
        else:
            normed = self.add_rms_norm(x, left.output(mixed), left.mlp_norm, eps, dtype)
            normed = self.add_rms_norm(x, left.down(left.gate_up(normed)), stretch.norm, eps, dtype)
        if entered is None:
            return normed
        return self.rotate_and_store(entered.qkv(normed), turns, batch, kv, stretch.index, entered.shape)

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
