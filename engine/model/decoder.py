"""The Llama family's decoder: one class, because its members differ by a bias, a norm or a window.

Reads top to bottom as the published model does. Must not know: files, scheduling, sampling. Trap: rows of different
requests stand side by side in one matrix; only `attend` knows which rows belong together, all else is row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.attention import AttentionBatch
from engine.kernels.operators import HeadShape, Operators, Stretch
from engine.kv_store import KvStore
from engine.model.config import ModelConfig
from engine.model.linear import Linear, PlainLinear
from engine.model.rope import rotations


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """One layer's weights: norms in float32, matrices packed."""

    attention_norm: torch.Tensor
    qkv: Linear  # q, k and v stacked
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear  # gate and up stacked; silu(gate) * up comes out
    down: Linear
    shape: HeadShape


@dataclass(frozen=True, slots=True)
class Embedding:
    """Token vectors, kept in the dtype of the matrices."""

    weight: torch.Tensor

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.weight[tokens].float()


@dataclass(frozen=True, slots=True)
class CausalModel:
    """Token ids in, logits out; keys and values go through the store that the caller owns."""

    config: ModelConfig
    dtype: torch.dtype  # of what feeds a matrix product
    kv_dtype: torch.dtype
    device: torch.device
    ops: Operators
    embedding: Embedding
    layers: tuple[DecoderLayer, ...]
    stretches: tuple[Stretch, ...]  # one more than layers
    head: Linear
    frequencies: torch.Tensor  # radians per position, [head_dim / 2]

    @property
    def weight_bytes(self) -> int:
        matrices = (m for layer in self.layers for m in (layer.qkv, layer.output, layer.gate_up, layer.down))
        shared = isinstance(self.head, PlainLinear) and self.head.weight is self.embedding.weight
        return sum(m.nbytes for m in matrices) + self.embedding.nbytes + (0 if shared else self.head.nbytes)

    def forward(self, batch: AttentionBatch, kv: KvStore) -> torch.Tensor:
        """Float32 logits [samples, vocab] of the rows the plan wants sampled."""
        x = self.embedding(batch.tokens)
        turns = rotations(batch.positions, self.frequencies)
        mixed: torch.Tensor | None = None
        for index, layer in enumerate(self.layers):
            q = self.ops.between(x, mixed, turns, batch, kv, self.stretches[index])
            mixed = self.ops.attend(q, batch, kv, index, layer.shape)
        # Only sampled rows go further: after the last attention nobody asks for the others.
        x, mixed = x[batch.sampled], None if mixed is None else mixed[batch.sampled]
        return self.head(self.ops.between(x, mixed, turns, batch, kv, self.stretches[-1])).float()


def stretches(
    layers: Sequence[DecoderLayer], norm: torch.Tensor, eps: float, dtype: torch.dtype
) -> tuple[Stretch, ...]:
    """What lies before, between and after the attentions of all layers."""
    left, entered = (None, *layers), (*layers, None)
    return tuple(
        Stretch(before, after, index, norm if after is None else after.attention_norm, eps, dtype)
        for index, (before, after) in enumerate(zip(left, entered, strict=True))
    )
