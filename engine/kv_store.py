"""The tensors that hold every block of keys and values, and copying between blocks.

Must not know: requests, reference counts (the block manager's) or attention. Trap: the layout serves the inner loops,
not the eye. A block keeps its keys with the tokens innermost, so one load gives the same dimension of 16 tokens; bf16
on a CPU interleaves pairs, as its pair-wise multiply instructions read them (`pair` = 2). Elsewhere `pair` is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch

from engine.model.config import ModelConfig
from engine.plan import BlockCopy


class KvStore:
    """keys [layers, blocks, kv_heads, head_dim / pair, block_size, pair];
    values [layers, blocks, kv_heads, block_size / pair, head_dim, pair]."""

    def __init__(
        self, config: ModelConfig, blocks: int, block_size: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        if block_size % 2 or block_size < 2:
            raise ValueError(f"The block size must be even, not {block_size}.")
        self.blocks, self.block_size = blocks, block_size
        self.pair = 2 if dtype == torch.bfloat16 and device.type == "cpu" else 1
        heads, size, pair = config.kv_heads, config.head_dim, self.pair
        self.keys = _zeroed((config.layers, blocks, heads, size // pair, block_size, pair), dtype, device)
        self.values = _zeroed((config.layers, blocks, heads, block_size // pair, size, pair), dtype, device)
        self._layers = tuple(zip(self.keys.unbind(), self.values.unbind(), strict=True))

    @property
    def bytes_per_block(self) -> int:
        """Keys and values of one block, over all layers."""
        return (self.keys.nbytes + self.values.nbytes) // self.blocks

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """One layer's keys and values, as views."""
        return self._layers[index]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store [tokens, kv_heads, head_dim] at `slots` (block * block_size + offset)."""
        blocks, offsets = slots // self.block_size, slots % self.block_size
        tokens, heads, size = keys.shape
        paired = keys.to(self.keys.dtype).view(tokens, heads, size // self.pair, self.pair)
        self.keys[layer][blocks, :, :, offsets] = paired
        self.values[layer][blocks, :, offsets // self.pair, :, offsets % self.pair] = values.to(self.values.dtype)

    def read(self, layer: int, table: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The first `tokens` of the sequence whose blocks are `table`, as [kv_heads, tokens, head_dim] twice."""
        keys, values = self.keys[layer][table], self.values[layer][table]
        blocks, heads, paired, size, pair = keys.shape
        keys = keys.permute(1, 0, 3, 2, 4).reshape(heads, blocks * size, paired * pair)
        values = values.permute(1, 0, 2, 4, 3).reshape(heads, blocks * size, paired * pair)
        return keys[:, :tokens], values[:, :tokens]

    def copy(self, copies: Iterable[BlockCopy]) -> None:
        """In order, over all layers."""
        for copy in copies:
            self.keys[:, copy.dst] = self.keys[:, copy.src]
            self.values[:, copy.dst] = self.values[:, copy.src]


def _zeroed(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeroed, as a block's unused tail is multiplied by a weight of 0, and 0 times garbage may be NaN. On a CPU the
    pages are the system's own zeros, there only once written: half a second less to start, and memory as it is used."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    nbytes = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.zeros(nbytes, dtype=np.uint8)).view(dtype).view(shape)
