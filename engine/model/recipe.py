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
    notices: tuple[str, ...] = ()


def choose_recipe(config: ModelConfig, quantised: bool, *, dtype: DtypeName, quantize: Quantize) -> Recipe:
    """A `dtype` that is named means no quantisation; int8 is the default only for weights that come quantised."""
    if dtype != "auto" and quantize == "int8":
        raise UnsupportedModelError("Give either --dtype or --quantize int8: int8 chooses its own precisions.")
    if dtype not in ("auto", *DTYPES) or quantize not in ("auto", "int8", "none"):
        raise UnsupportedModelError(f"Unknown precision: dtype {dtype!r}, quantize {quantize!r}.")
    if torch.cuda.is_available():
        precision = torch.bfloat16 if dtype == "auto" else DTYPES[dtype]
        return _plain(precision, torch.device("cuda"), TorchOperators(), ())
    precision = DTYPES[dtype] if dtype != "auto" else torch.bfloat16 if has_bf16_instructions() else torch.float32
    compiled, notices = _compiled(config)
    wanted = quantize == "int8" or (quantize == "auto" and dtype == "auto" and quantised)
    if wanted and compiled is not None:
        return _int8(compiled)
    if quantize == "int8":
        raise UnsupportedModelError("int8 needs the C operators. " + " ".join(notices))
    ops = compiled if compiled is not None and fits(config, precision) else TorchOperators()
    return _plain(precision, torch.device("cpu"), ops, notices)


def _compiled(config: ModelConfig) -> tuple[CompiledOperators | None, tuple[str, ...]]:
    if not fits(config, torch.float32):
        return None, ("The widths of this model are no multiples of 16, so the engine runs it on torch alone.",)
    try:
        return best_operators(torch.get_num_threads()), ()
    except BuildError as error:
        return None, (str(error),)


def has_bf16_instructions() -> bool:
    """On AVX2 alone torch emulates bf16, eight times slower than float32."""
    return bool(torch.backends.mkldnn.enabled and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _plain(dtype: torch.dtype, device: torch.device, ops: Operators, notices: tuple[str, ...]) -> Recipe:
    packs = dtype == torch.bfloat16 and device.type == "cpu" and has_bf16_instructions()

    def make(weight: torch.Tensor, bias: torch.Tensor | None, *, after_norm: bool) -> Linear:
        kept = None if bias is None else bias.to(device, dtype)
        return (PackedLinear if packs else PlainLinear)(weight.to(device, dtype), kept)

    name = next(name for name, value in DTYPES.items() if value == dtype)
    return Recipe(name, dtype, dtype, dtype, device, ops, make, notices)


def _int8(ops: CompiledOperators) -> Recipe:
    """float32 between the products; keys and values in bf16, which every variant widens with a shift."""

    def make(weight: torch.Tensor, bias: torch.Tensor | None, *, after_norm: bool) -> Linear:
        return Int8Linear(ops, weight, bias, fine=after_norm)

    return Recipe("int8", torch.float32, torch.bfloat16, torch.bfloat16, torch.device("cpu"), ops, make)
