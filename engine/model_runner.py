"""Runs a `BatchPlan`: copies blocks, lays the batch out, calls the model. The one place where plan and torch meet.

Must not know: why the plan is as it is, or what is done with the logits. Trap: a plan's blocks are trusted; two
requests given the same writable block would overwrite each other without an error.
"""

from __future__ import annotations

import torch

from engine.attention import attention_batch
from engine.kernels.operators import TorchOperators
from engine.kv_store import KvStore
from engine.model.decoder import CausalModel
from engine.plan import BatchPlan


class ModelRunner:
    """A model and the memory for its keys and values."""

    def __init__(self, model: CausalModel, kv_blocks: int, block_size: int = 16) -> None:
        if block_size % 16 and not isinstance(model.ops, TorchOperators):
            raise ValueError(f"The C operators read keys 16 at a time: the block size cannot be {block_size}.")
        self.model = model
        self.kv = KvStore(model.config, kv_blocks, block_size, dtype=model.kv_dtype, device=model.device)

    @property
    def kv_bytes_per_block(self) -> int:
        return self.kv.bytes_per_block

    @torch.inference_mode()
    def run(self, plan: BatchPlan) -> torch.Tensor:
        """Float32 logits [sampled items, vocab], in the order of the items that ask for them."""
        self.kv.copy(plan.copies)
        batch = attention_batch(plan, self.kv.block_size, self.model.device)
        return self.model.forward(batch, self.kv)
