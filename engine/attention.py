"""Where the tokens of one step stand: positions, slots and block tables, made once and read by every layer.

Must not know: weights, sampling. Trap: a chunk of a prompt and a decode step are the same thing here, some new tokens
that follow `start` stored ones; there are no phases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from engine.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class AttentionBatch:
    """Rows are tokens of the step in plan order; sequences are the plan's items."""

    tokens: torch.Tensor  # int64 [rows]: ids
    positions: torch.Tensor  # int64 [rows]
    slots: torch.Tensor  # int64 [rows]: block * block_size + offset, where the row's key and value are stored
    tables: torch.Tensor  # int32 [sequences, most blocks]: physical blocks, padded with 0
    starts: torch.Tensor  # int32 [sequences]: tokens stored before this step
    offsets: torch.Tensor  # int32 [sequences + 1]: first row of each sequence, then the number of rows
    sampled: torch.Tensor  # int64 [samples]: rows whose logits are wanted
    spans: tuple[tuple[int, int, int], ...]  # (first row, rows, start) of each sequence, for loops in Python


def attention_batch(plan: BatchPlan, block_size: int, device: torch.device) -> AttentionBatch:
    """Lay the plan out as tensors."""
    items = plan.items
    lengths = np.array([len(item.tokens) for item in items])
    starts = np.array([item.start for item in items], dtype=np.int32)
    offsets = np.zeros(len(items) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    rows = int(offsets[-1])
    tables = np.zeros((len(items), max(len(item.blocks) for item in items)), dtype=np.int32)
    for row, item in zip(tables, items, strict=True):
        row[: len(item.blocks)] = item.blocks
    owner = np.repeat(np.arange(len(items)), lengths)
    positions = np.arange(rows) - offsets[owner] + starts[owner]
    slots = tables[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size
    tokens = np.fromiter((token for item in items for token in item.tokens), dtype=np.int64, count=rows)
    sampled = np.array([int(offsets[i + 1]) - 1 for i, item in enumerate(items) if item.sample], dtype=np.int64)

    def put(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    return AttentionBatch(
        tokens=put(tokens),
        positions=put(positions),
        slots=put(slots),
        tables=put(tables),
        starts=put(starts),
        offsets=put(offsets),
        sampled=put(sampled),
        spans=tuple((int(offsets[i]), int(lengths[i]), item.start) for i, item in enumerate(items)),
    )
