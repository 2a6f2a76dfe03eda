"""From a path to a model ready to run: which precision, which packing, which operators.

Must not know: requests. Trap: tensors are read, packed and dropped one matrix at a time; gathering them first would
need the float32 model in memory beside the packed one.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.kernels.operators import HeadShape
from engine.model.checkpoint import Checkpoint, GgufCheckpoint, open_checkpoint
from engine.model.config import ModelConfig
from engine.model.decoder import CausalModel, DecoderLayer, Embedding, stretches
from engine.model.gguf_file import forget_pages, gguf_metadata
from engine.model.linear import Linear, MakeLinear
from engine.model.recipe import DtypeName, Quantize, Recipe, choose_recipe
from engine.model.rope import inverse_frequencies
from engine.model.sidecars import chat_template, end_of_text_ids, gguf_chat_template, gguf_end_of_text_ids


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
    path = Path(path).resolve()
    checkpoint = open_checkpoint(path)
    recipe = choose_recipe(
        checkpoint.config, checkpoint.is_quantised, dtype=dtype, quantize=quantize, threads=threads or cores()
    )
    model = _build(checkpoint, recipe)
    _give_back(checkpoint)
    template, eos = _chat_facts(path, checkpoint)
    return LoadedModel(
        model=model,
        config=checkpoint.config,
        tokenizer_source=path,
        chat_template=template,
        eos_ids=eos,
        max_position=checkpoint.config.max_position,
        weight_bytes=model.weight_bytes,
        dtype_name=recipe.name,
        notices=recipe.notices,
    )


def _give_back(checkpoint: Checkpoint) -> None:
    """What reading left behind: mapped pages, and the C library's free lists (150 MB after 100 MB of GGUF)."""
    if isinstance(checkpoint, GgufCheckpoint):
        forget_pages(checkpoint.path)
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def cores() -> int:
    """Those this process may run on, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _build(checkpoint: Checkpoint, recipe: Recipe) -> CausalModel:
    config, make, device = checkpoint.config, recipe.make_linear, recipe.device
    # Dequantising is numpy, which lets the other thread run meanwhile.
    with ThreadPoolExecutor(recipe.threads) as pool:
        layers = tuple(pool.map(lambda index: _layer(checkpoint, index, make, device), range(config.layers)))
    embedding = checkpoint.tensor("embed_tokens.weight").to(device, recipe.stored_dtype)
    head = embedding if config.tied_embeddings else checkpoint.tensor("lm_head.weight")
    norm = checkpoint.tensor("norm.weight").to(device, torch.float32)
    return CausalModel(
        config=config,
        dtype=recipe.dtype,
        kv_dtype=recipe.kv_dtype,
        device=device,
        ops=recipe.ops,
        embedding=Embedding(embedding),
        layers=layers,
        stretches=stretches(layers, norm, config.eps, recipe.dtype),
        head=make(head, None, precise=True),
        frequencies=inverse_frequencies(config, checkpoint.rope_divisors).to(device),
    )


def _layer(checkpoint: Checkpoint, index: int, make: MakeLinear, device: torch.device) -> DecoderLayer:
    config, name = checkpoint.config, f"layers.{index}."

    def norm(part: str) -> torch.Tensor:
        return checkpoint.tensor(f"{name}{part}.weight").to(device, torch.float32)

    def stacked(*parts: str, bias: bool, precise: bool, gated: bool = False) -> Linear:
        weight = torch.cat([checkpoint.tensor(f"{name}{part}.weight") for part in parts])
        added = torch.cat([checkpoint.tensor(f"{name}{part}.bias") for part in parts]) if bias else None
        return make(weight, added, precise=precise, gated=gated)

    return DecoderLayer(
        attention_norm=norm("input_layernorm"),
        qkv=stacked(
            "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", bias=config.attention_bias, precise=True
        ),
        output=stacked("self_attn.o_proj", bias=config.output_bias, precise=False),
        mlp_norm=norm("post_attention_layernorm"),
        gate_up=stacked("mlp.gate_proj", "mlp.up_proj", bias=config.mlp_bias, precise=True, gated=True),
        down=stacked("mlp.down_proj", bias=config.mlp_bias, precise=True),
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
