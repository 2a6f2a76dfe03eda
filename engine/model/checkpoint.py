"""Weights on disk, by one set of names: a Hugging Face folder of safetensors, or a GGUF file.

Must not know: how weights are used or packed. Names are those of Hugging Face without the `model.` prefix, so that a
layer asks for `layers.3.self_attn.q_proj.weight` whatever the file is. Trap: GGUF's `llama` architecture permutes the
rows of q and k for another rotary convention; they are put back here, as nothing downstream can tell.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from engine.model.config import ModelConfig, UnsupportedModelError, from_gguf, from_hugging_face
from engine.model.gguf_file import gguf_metadata, open_gguf

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Checkpoint(Protocol):
    """A source of named tensors, each read when asked for and kept by nobody."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def is_quantised(self) -> bool:
        """Whether the matrices were stored in fewer than 16 bits."""
        ...

    @property
    def rope_divisors(self) -> torch.Tensor | None: ...

    def has(self, name: str) -> bool: ...

    def tensor(self, name: str) -> torch.Tensor:
        """In the floating dtype it is stored in, or float32 where it is stored quantised."""
        ...


class SafetensorsCheckpoint:
    """A folder with `config.json` and one or many safetensors files, memory mapped."""

    is_quantised = False
    rope_divisors = None

    def __init__(self, folder: Path) -> None:
        self.config = from_hugging_face(json.loads((folder / "config.json").read_text()))
        self._open = ExitStack()
        self._files: dict[str, Any] = {}  # tensor name -> the open file that holds it
        from safetensors import safe_open

        for path in _safetensors_files(folder):
            file = self._open.enter_context(safe_open(path, framework="pt"))
            self._files.update(dict.fromkeys(file.keys(), file))
        self._prefix = "model." if any(name.startswith("model.") for name in self._files) else ""

    def has(self, name: str) -> bool:
        return self._stored(name) in self._files

    def tensor(self, name: str) -> torch.Tensor:
        stored = self._stored(name)
        if stored not in self._files:
            raise UnsupportedModelError(f"The weights have no tensor {stored!r}, which this architecture needs.")
        tensor: torch.Tensor = self._files[stored].get_tensor(stored)
        if tensor.dtype not in DTYPES:
            raise UnsupportedModelError(f"Tensor {stored!r} is stored as {tensor.dtype}, which is not supported.")
        return tensor

    def _stored(self, name: str) -> str:
        return name if name.startswith("lm_head.") else self._prefix + name


def _safetensors_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = set(json.loads(index.read_text())["weight_map"].values())
        paths = [folder / name for name in sorted(names)]
        if missing := [path.name for path in paths if not path.exists()]:
            raise UnsupportedModelError(f"{folder} lacks {', '.join(missing)}, which its index names.")
        return paths
    if not (paths := sorted(folder.glob("*.safetensors"))):
        raise UnsupportedModelError(f"{folder} has no safetensors files; other formats are not read.")
    return paths


GGUF_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
GGUF_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GGUF_WHOLE = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


class GgufCheckpoint:
    """One GGUF file, memory mapped, dequantised tensor by tensor."""

    def __init__(self, path: Path) -> None:
        self.path, reader = path, open_gguf(path)
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.config = from_gguf(gguf_metadata(path), frozenset(self._tensors))
        kinds = {tensor.tensor_type.name: tensor.name for tensor in reader.tensors}
        if unknown := sorted(set(kinds) - set(GGUF_TYPES)):
            raise UnsupportedModelError(
                f"Tensor {kinds[unknown[0]]!r} is of type {unknown[0]}, which is not supported; "
                f"these are: {', '.join(GGUF_TYPES)}."
            )
        self.is_quantised = any(kind.startswith("Q") for kind in kinds)

    @property
    def rope_divisors(self) -> torch.Tensor | None:
        return self._float("rope_freqs.weight") if "rope_freqs.weight" in self._tensors else None

    def has(self, name: str) -> bool:
        return gguf_name(name) in self._tensors

    def tensor(self, name: str) -> torch.Tensor:
        stored = gguf_name(name)
        if stored not in self._tensors:
            raise UnsupportedModelError(f"The weights have no tensor {stored!r}, which this architecture needs.")
        tensor = self._float(stored)
        if self.config.architecture == "llama" and ("attn_q." in stored or "attn_k." in stored):
            heads = self.config.heads if "attn_q." in stored else self.config.kv_heads
            return _to_halves(tensor, heads)
        return tensor

    def _float(self, stored: str) -> torch.Tensor:
        tensor = self._tensors[stored]
        values = tensor.data if tensor.tensor_type.name == "F16" else _dequantised(tensor.data, tensor.tensor_type)
        return torch.from_numpy(np.require(values, requirements=["C", "W", "O"]))  # a copy only of what is mapped


def _dequantised(data: np.ndarray[Any, Any], kind: Any) -> np.ndarray[Any, Any]:
    """The package dequantises 16 rows at a time, which for narrow rows is thousands of small numpy calls; rows that
    follow each other are taken as one, as quantisation blocks do not know rows. About a million values at a time."""
    from gguf.quants import dequantize

    data = data.view(np.ndarray)  # a memmap's views are each made twice as slowly
    rows = data.shape[0] if data.ndim == 2 else 1
    joined = max(n for n in range(1, rows + 1) if rows % n == 0 and (n == 1 or n * 16 * data.nbytes < rows << 19))
    values: np.ndarray[Any, Any] = dequantize(data.reshape(rows // joined, -1), kind)
    return values.reshape(rows, -1) if data.ndim == 2 else values.reshape(-1)


def gguf_name(name: str) -> str:
    """`layers.3.mlp.up_proj.weight` -> `blk.3.ffn_up.weight`."""
    if name in GGUF_WHOLE:
        return GGUF_WHOLE[name]
    _, layer, rest = name.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_PARTS[part]}.{kind}"


def _to_halves(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of every head from the interleaved order (0, h, 1, h + 1, ...) to (0, 1, ..., h, h + 1, ...)."""
    size = tensor.shape[0] // heads
    return tensor.reshape(heads, size // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def open_checkpoint(path: Path) -> Checkpoint:
    """A folder in Hugging Face layout, or a GGUF file."""
    if path.is_dir() and (path / "config.json").exists():
        return SafetensorsCheckpoint(path)
    if path.is_file() and path.suffix == ".gguf":
        return GgufCheckpoint(path)
    if path.is_dir() and len(files := sorted(path.glob("*.gguf"))) == 1:
        return GgufCheckpoint(files[0])
    raise UnsupportedModelError(f"{path} is neither a folder with config.json and safetensors nor a GGUF file.")
