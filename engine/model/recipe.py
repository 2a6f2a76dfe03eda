"""How a model runs on this machine: precision, packing and operators, chosen once when it is loaded.

Must not know: files, layers. Trap: bf16 looks like the obvious choice for a CPU and is eight times slower than
float32 where the instructions are missing; the choice asks the CPU, not the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from engine.kernels.build import BuildError
from engine.kernels.compiled import CompiledOperators, best_operators, fits
from engine.kernels.operators import Operators, TorchOperators
from engine.model.config import ModelConfig, UnsupportedModelError
from engine.model.linear import Int8Linear, Linear, MakeLinear, PackedLinear, PlainLinear

DtypeName = Literal["auto", "fp32", "bf16", "fp16"]
Quantize = Literal["auto", "int8", "none"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the loader needs to build, and what the operator is told."""

    name: str  # fp32, bf16, fp16 or int8
    dtype: torch.dtype  # of what feeds a matrix product
    stored_dtype: torch.dtype  # of the embedding
    kv_dtype: torch.dtype
    device: torch.device
    ops: Operators
    make_linear: MakeLinear
    threads: int
    notices: tuple[str, ...] = ()


def choose_recipe(
    config: ModelConfig, quantised: bool, *, dtype: DtypeName, quantize: Quantize, threads: int
) -> Recipe:
    """A `dtype` that is named means no quantisation; int8 is the default only for weights that come quantised."""
    if dtype != "auto" and quantize == "int8":
        raise UnsupportedModelError("Give either --dtype or --quantize int8: int8 chooses its own precisions.")
    if dtype not in ("auto", *DTYPES) or quantize not in ("auto", "int8", "none"):
        raise UnsupportedModelError(f"Unknown precision: dtype {dtype!r}, quantize {quantize!r}.")
    if torch.cuda.is_available():
        return _torch(torch.bfloat16 if dtype == "auto" else DTYPES[dtype], torch.device("cuda"), threads, ())
    precision = DTYPES[dtype] if dtype != "auto" else torch.bfloat16 if has_bf16_instructions() else torch.float32
    ops, notices = _compiled(config, threads)
    if ops is None or not fits(config, precision):
        if quantize == "int8":
            raise UnsupportedModelError("int8 needs the C operators. " + " ".join(notices))
        torch.set_num_threads(threads)
        return _torch(precision, torch.device("cpu"), threads, notices)
    # The operators bring their own threads; torch's would spin beside them on the same cores.
    torch.set_num_threads(1)
    if quantize == "int8" or (quantize == "auto" and dtype == "auto" and quantised):
        return _int8(ops)
    return _packed(precision, ops)


def _compiled(config: ModelConfig, threads: int) -> tuple[CompiledOperators | None, tuple[str, ...]]:
    if not fits(config, torch.float32):
        return None, ("The widths of this model are no multiples of 16, so the engine runs it on torch alone.",)
    try:
        return best_operators(threads), ()
    except BuildError as error:
        return None, (str(error),)


def has_bf16_instructions() -> bool:
    """On AVX2 alone torch emulates bf16, eight times slower than float32."""
    return bool(torch.backends.mkldnn.enabled and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _name(dtype: torch.dtype) -> str:
    return next(name for name, value in DTYPES.items() if value == dtype)


def _torch(dtype: torch.dtype, device: torch.device, threads: int, notices: tuple[str, ...]) -> Recipe:
    def make(weight: torch.Tensor, bias: torch.Tensor | None, *, precise: bool, gated: bool = False) -> Linear:
        return PlainLinear(weight.to(device, dtype), None if bias is None else bias.to(device, dtype), gated=gated)

    return Recipe(_name(dtype), dtype, dtype, dtype, device, TorchOperators(), make, threads, notices)


def _packed(dtype: torch.dtype, ops: CompiledOperators) -> Recipe:
    def make(weight: torch.Tensor, bias: torch.Tensor | None, *, precise: bool, gated: bool = False) -> Linear:
        return PackedLinear(ops, weight.to(dtype), bias, gated=gated)

    return Recipe(_name(dtype), dtype, dtype, dtype, torch.device("cpu"), ops, make, ops.threads)


def _int8(ops: CompiledOperators) -> Recipe:
    """float32 between the products; keys and values in bf16, which every variant widens with a shift."""

    def make(weight: torch.Tensor, bias: torch.Tensor | None, *, precise: bool, gated: bool = False) -> Linear:
        return Int8Linear(ops, weight, bias, fine=precise, gated=gated)

    return Recipe("int8", torch.float32, torch.bfloat16, torch.bfloat16, torch.device("cpu"), ops, make, ops.threads)
