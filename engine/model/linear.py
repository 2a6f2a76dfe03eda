"""Matrix products with weights prepared once, in the form the machine multiplies fastest.

Must not know: layers, files. Trap: a packed weight must not keep its float32 origin alive, or memory doubles unseen.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn import functional

from engine.kernels.compiled import CompiledOperators


class Linear(Protocol):
    """rows [n, inputs] -> [n, outputs]."""

    @property
    def nbytes(self) -> int: ...

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class MakeLinear(Protocol):
    """Packs a weight [outputs, inputs] and a bias [outputs]."""

    def __call__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, precise: bool) -> Linear:
        """`precise`: some inputs dwarf the others, as after an RMSNorm or a gate; 8 bits would lose the rest."""
        ...


class PlainLinear:
    """torch's own product, in the dtype of the weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)


class PackedLinear:
    """float32 or bf16 in the order that the C operators read; a row's sum runs in one order whatever its batch."""

    def __init__(self, ops: CompiledOperators, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._ops, self._width, self.nbytes = ops, weight.shape[0], weight.nbytes
        self._packed = ops.pack_float(weight)
        self._bias = None if bias is None else bias.float().contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._ops.multiply_float(x, self._packed, self._width, self._bias)


class Int8Linear:
    """8-bit weights, one scale per output; activations quantised row by row inside the product, float in and out.
    `fine` gives the activations 16 bits at the price of twice the multiplications, not of more memory read."""

    def __init__(self, ops: CompiledOperators, weight: torch.Tensor, bias: torch.Tensor | None, *, fine: bool) -> None:
        self._fine = fine
        self._ops, self._inputs, self._width = ops, weight.shape[1], weight.shape[0]
        self._packed, self._scales = ops.pack_int8(weight)
        self._bias = None if bias is None else bias.float().contiguous()

    @property
    def nbytes(self) -> int:
        return self._packed.nbytes + self._scales.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._ops.multiply_int8(x, self._packed, self._scales, self._bias, fine=self._fine)
