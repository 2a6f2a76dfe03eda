"""From a path to a model ready to run: which precision, which packing, which operators.

Must not know: requests. Trap: tensors are read, packed and dropped one matrix at a time; gathering them first would
need the float32 model in memory beside the packed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from engine.kernels.operators import HeadShape, Operators, TorchOperators
from engine.model.checkpoint import Checkpoint, GgufCheckpoint, gguf_metadata, open_checkpoint
from engine.model.config import ModelConfig
from engine.model.decoder import CausalModel, DecoderLayer, Embedding
from engine.model.linear import Linear, MakeLinear, PlainLinear
from engine.model.rope import inverse_frequencies
from engine.model.sidecars import chat_template, end_of_text_ids, gguf_chat_template, gguf_end_of_text_ids

DtypeName = Literal["auto", "fp32", "bf16", "fp16"]
Quantize = Literal["auto", "int8", "none"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model and what the rest of the engine wants to know of it."""

    model: CausalModel
    config: ModelConfig
    tokenizer_source: Path  # what `load_tokenizer` takes
    chat_template: str | None
    eos_ids: tuple[int, ...]
    max_position: int
    weight_bytes: int
    dtype_name: str  # fp32, bf16, fp16 or int8
    notices: tuple[str, ...] = ()  # sentences for the operator, such as a missing compiler


@torch.inference_mode()
def load_model(
    path: str | Path, *, dtype: DtypeName = "auto", quantize: Quantize = "auto", threads: int | None = None
) -> LoadedModel:
    """Load weights from a Hugging Face folder or a GGUF file."""
    if threads is not None:
        torch.set_num_threads(threads)
    path = Path(path).resolve()
    checkpoint = open_checkpoint(path)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = _precision(dtype, device)
    model = _build(checkpoint, _plain(precision, device), precision, device, TorchOperators())
    template, eos = _chat_facts(path, checkpoint)
    return LoadedModel(
        model=model,
        config=checkpoint.config,
        tokenizer_source=path,
        chat_template=template,
        eos_ids=eos,
        max_position=checkpoint.config.max_position,
        weight_bytes=model.weight_bytes,
        dtype_name=next(name for name, value in DTYPES.items() if value == precision),
    )


def _precision(dtype: DtypeName, device: torch.device) -> torch.dtype:
    if dtype != "auto":
        return DTYPES[dtype]
    if device.type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if has_bf16_instructions() else torch.float32


def has_bf16_instructions() -> bool:
    """On AVX2 alone torch emulates bf16, eight times slower than float32."""
    return torch.backends.mkldnn.enabled and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _plain(dtype: torch.dtype, device: torch.device) -> MakeLinear:
    def make(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        kept = None if bias is None else bias.to(device, dtype)
        return PlainLinear(weight.to(device, dtype), kept)

    return make


def _build(
    checkpoint: Checkpoint, make: MakeLinear, dtype: torch.dtype, device: torch.device, ops: Operators
) -> CausalModel:
    config = checkpoint.config
    layers = tuple(_layer(checkpoint, index, make, device) for index in range(config.layers))
    embedding = checkpoint.tensor("embed_tokens.weight").to(device, dtype)
    head = embedding if config.tied_embeddings else checkpoint.tensor("lm_head.weight")
    return CausalModel(
        config=config,
        dtype=dtype,
        kv_dtype=dtype,
        device=device,
        ops=ops,
        embedding=Embedding(embedding),
        layers=layers,
        norm=checkpoint.tensor("norm.weight").to(device, torch.float32),
        head=make(head, None),
        frequencies=inverse_frequencies(config, checkpoint.rope_divisors).to(device),
    )


def _layer(checkpoint: Checkpoint, index: int, make: MakeLinear, device: torch.device) -> DecoderLayer:
    config, name = checkpoint.config, f"layers.{index}."

    def norm(part: str) -> torch.Tensor:
        return checkpoint.tensor(f"{name}{part}.weight").to(device, torch.float32)

    def stacked(*parts: str, bias: bool) -> Linear:
        weight = torch.cat([checkpoint.tensor(f"{name}{part}.weight") for part in parts])
        added = torch.cat([checkpoint.tensor(f"{name}{part}.bias") for part in parts]) if bias else None
        return make(weight, added)

    return DecoderLayer(
        attention_norm=norm("input_layernorm"),
        qkv=stacked("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", bias=config.attention_bias),
        output=stacked("self_attn.o_proj", bias=config.output_bias),
        mlp_norm=norm("post_attention_layernorm"),
        gate_up=stacked("mlp.gate_proj", "mlp.up_proj", bias=config.mlp_bias),
        down=stacked("mlp.down_proj", bias=config.mlp_bias),
        shape=HeadShape(
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            q_norm=norm("self_attn.q_norm") if config.qk_norm else None,
            k_norm=norm("self_attn.k_norm") if config.qk_norm else None,
            eps=config.eps,
            window=config.window(index),
        ),
    )


def _chat_facts(path: Path, checkpoint: Checkpoint) -> tuple[str | None, tuple[int, ...]]:
    if isinstance(checkpoint, GgufCheckpoint):
        facts = gguf_metadata(checkpoint.path)
        return gguf_chat_template(facts), gguf_end_of_text_ids(facts)
    return chat_template(path), end_of_text_ids(path)
