"""The Llama family's decoder: one class, because its members differ by a bias, a norm or a window.

Reads top to bottom as the published model does. Must not know: files, scheduling, sampling. Trap: rows of different
requests stand side by side in one matrix; only `attend` knows which rows belong together, all else is row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.attention import AttentionBatch
from engine.kernels.operators import HeadShape, Operators
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
    gate_up: Linear  # gate and up stacked
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
    norm: torch.Tensor
    head: Linear
    frequencies: torch.Tensor  # radians per position, [head_dim / 2]

    @property
    def weight_bytes(self) -> int:
        matrices = (m for layer in self.layers for m in (layer.qkv, layer.output, layer.gate_up, layer.down))
        shared = isinstance(self.head, PlainLinear) and self.head.weight is self.embedding.weight
        return sum(m.nbytes for m in matrices) + self.embedding.nbytes + (0 if shared else self.head.nbytes)

    def forward(self, batch: AttentionBatch, kv: KvStore) -> torch.Tensor:
        """Float32 logits [samples, vocab] of the rows the plan wants sampled."""
        ops, eps, dtype = self.ops, self.config.eps, self.dtype
        x = self.embedding(batch.tokens)
        turns = rotations(batch.positions, self.frequencies)
        normed = ops.rms_norm(x, self.layers[0].attention_norm, eps, dtype)
        for index, layer in enumerate(self.layers):
            q = ops.rotate_and_store(layer.qkv(normed), turns, batch, kv, index, layer.shape)
            mixed = layer.output(ops.attend(q, batch, kv, index, layer.shape))
            normed = ops.add_rms_norm(x, mixed, layer.mlp_norm, eps, dtype)
            fed = layer.down(ops.silu_mul(layer.gate_up(normed)))
            following = self.layers[index + 1].attention_norm if index + 1 < len(self.layers) else self.norm
            normed = ops.add_rms_norm(x, fed, following, eps, dtype)
        return self.head(normed[batch.sampled]).float()
