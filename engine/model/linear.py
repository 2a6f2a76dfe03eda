"""Matrix products with weights prepared once, in the form the machine multiplies fastest.

Must not know: layers, files. Trap: a packed weight must not keep its float32 origin alive, or memory doubles unseen.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch.nn import functional

from engine.kernels.compiled import INT8, KINDS, CompiledOperators, Matrix


class Linear(Protocol):
    """rows [n, inputs] -> [n, outputs]."""

    @property
    def nbytes(self) -> int: ...

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class MakeLinear(Protocol):
    """Packs a weight [outputs, inputs] and a bias [outputs]."""

    def __call__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, *, precise: bool, gated: bool = False
    ) -> Linear:
        """`precise`: some inputs dwarf the others, as after an RMSNorm or a gate; 8 bits would lose the rest.
        `gated`: the first half of the outputs gates the second, silu(first) * second comes out."""
        ...


class PlainLinear:
    """torch's own product, in the dtype of the weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, gated: bool = False) -> None:
        self.weight, self.bias, self._gated = weight, bias, gated

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.linear(x, self.weight, self.bias)
        if not self._gated:
            return out
        gate, up = out.chunk(2, dim=-1)
        return functional.silu(gate) * up


class PackedLinear:
    """float32 or bf16 in the order that the C operators read; a row's sum runs in one order whatever its batch."""

    def __init__(
        self, ops: CompiledOperators, weight: torch.Tensor, bias: torch.Tensor | None, *, gated: bool = False
    ) -> None:
        self._ops, self.nbytes = ops, weight.nbytes
        self._packed, self._bias = ops.pack_float(_paired(weight, gated)), _float_bias(bias, gated)
        self.matrix = _matrix(weight, self._packed, None, self._bias, KINDS[weight.dtype], fine=False, gated=gated)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._ops.multiply(x, self.matrix)


class Int8Linear:
    """8-bit weights, one scale per output; activations quantised row by row inside the product, float in and out.
    `fine` gives the activations 16 bits at the price of twice the multiplications, not of more memory read."""

    def __init__(
        self,
        ops: CompiledOperators,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        *,
        fine: bool,
        gated: bool = False,
    ) -> None:
        self._ops = ops
        (self._packed, self._scales), self._bias = ops.pack_int8(_paired(weight, gated)), _float_bias(bias, gated)
        self.matrix = _matrix(weight, self._packed, self._scales, self._bias, INT8, fine=fine, gated=gated)

    @property
    def nbytes(self) -> int:
        return self._packed.nbytes + self._scales.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._ops.multiply(x, self.matrix)


def _matrix(
    weight: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor | None,
    bias: torch.Tensor | None,
    kind: int,
    *,
    fine: bool,
    gated: bool,
) -> Matrix:
    return Matrix(
        weights=packed.data_ptr(),
        scales=None if scales is None else scales.data_ptr(),
        bias=None if bias is None else bias.data_ptr(),
        inputs=weight.shape[1],
        width=weight.shape[0],
        kind=kind,
        fine=fine,
        gated=gated,
    )


def _paired(rows: torch.Tensor, gated: bool) -> torch.Tensor:
    """Gates and what they gate side by side, 16 and 16, as the operators finish 32 outputs together."""
    if not gated:
        return rows
    return rows.view(2, -1, 16, *rows.shape[1:]).transpose(0, 1).reshape(rows.shape)


def _float_bias(bias: torch.Tensor | None, gated: bool) -> torch.Tensor | None:
    return None if bias is None else _paired(bias.float(), gated).contiguous()
