"""Matrix products with weights prepared once, in the form the machine multiplies fastest.

Must not know: layers, files. Trap: a packed weight must not keep its float32 origin alive, or memory doubles unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch.nn import functional


class Linear(Protocol):
    """rows [n, inputs] -> [n, outputs]."""

    @property
    def nbytes(self) -> int: ...

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


MakeLinear = Callable[[torch.Tensor, torch.Tensor | None], Linear]  # weight [outputs, inputs], bias


class PlainLinear:
    """torch's own product, in the dtype of the weight."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)
