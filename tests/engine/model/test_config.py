"""What publishers write in config.json and GGUF metadata, understood or refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.model.config import (
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
    UnsupportedModelError,
    from_gguf,
    from_hugging_face,
    limited,
)
from engine.model.rope import inverse_frequencies, rotations

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
}  # fmt: skip
GGUF: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 64, "llama.context_length": 256,
    "llama.feed_forward_length": 96, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    "llama.vocab_size": 100,
}  # fmt: skip
MISTRAL = {**LLAMA, "architectures": ["MistralForCausalLM"]}
QWEN2 = {**LLAMA, "architectures": ["Qwen2ForCausalLM"]}


def test_defaults_are_the_publishers() -> None:
    config = from_hugging_face(LLAMA)
    assert (config.head_dim, config.kv_width, config.q_width, config.rope_theta) == (16, 32, 64, 10_000.0)
    assert config.windows == () and config.window(3) is None and not config.attention_bias and not config.qk_norm
    assert from_hugging_face({**LLAMA, "num_key_value_heads": None}).kv_heads == 4
    assert from_hugging_face({**LLAMA, "head_dim": 32}).head_dim == 32
    assert limited(config, 100).max_position == 100 and limited(config, 10_000).max_position == 512


@pytest.mark.parametrize(
    ("scaling", "read"),
    [
        ({"rope_theta": 5e5}, None),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, LinearScaling(2.0)),
        (
            {
                "rope_parameters": {
                    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
                }
            },
            Llama3Scaling(8.0, 1.0, 4.0, 128),
        ),
    ],
    ids=["theta", "linear as transformers 4 writes it", "llama3 as transformers 5 writes it"],
)  # fmt: skip
def test_rope_of_either_transformers(scaling: dict[str, Any], read: object) -> None:
    config = from_hugging_face({**LLAMA, **scaling})
    assert config.rope_scaling == read
    assert config.rope_theta == (10_000.0 if isinstance(read, LinearScaling) else 5e5)


@pytest.mark.parametrize(
    ("raw", "windows"),
    [
        ({**MISTRAL, "sliding_window": 32}, (32, 32, 32, 32)),
        ({**MISTRAL, "sliding_window": None}, ()),
        ({**QWEN2, "sliding_window": 32}, ()),
        ({**QWEN2, "sliding_window": 32, "use_sliding_window": True, "max_window_layers": 3}, (None, None, None, 32)),
        (
            {**QWEN2, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"] * 2},
            (None, 8, None, 8),
        ),
        ({**LLAMA, "sliding_window": 32}, ()),
    ],
)
def test_windows_per_layer(raw: dict[str, Any], windows: tuple[int | None, ...]) -> None:
    assert from_hugging_face(raw).windows == windows


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": None}, "None"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"num_key_value_heads": 3}, "4 query heads"),
        ({"head_dim": 15}, "15"),
    ],
)
def test_what_is_not_run_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModelError, match=named):
        from_hugging_face({**LLAMA, **change})


def test_gguf_metadata_and_the_tensors_present_decide() -> None:
    plain = from_gguf(GGUF, frozenset({"output.weight"}))
    assert (plain.layers, plain.head_dim, plain.tied_embeddings, plain.attention_bias) == (2, 16, False, False)
    names = {"blk.0.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_down.bias", "blk.0.attn_q_norm.weight"}
    full = from_gguf({**GGUF, "llama.attention.sliding_window": 64}, frozenset(names))
    assert full.tied_embeddings and full.attention_bias and full.output_bias and full.mlp_bias and full.qk_norm
    assert full.windows == (64, 64)
    scaled = from_gguf({**GGUF, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, frozenset())
    assert scaled.rope_scaling == LinearScaling(4.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "falcon"}, "falcon"),
        ({"llama.expert_count": 8}, "experts"),
        ({"llama.rope.dimension_count": 8}, "part of each head"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
    ],
)
def test_gguf_that_is_not_run_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModelError, match=named):
        from_gguf({**GGUF, **change}, frozenset())


def test_divisors_of_a_gguf_replace_the_rule() -> None:
    config = ModelConfig("llama", 1, 64, 96, 4, 2, 16, 100, 1e-5, 512, 10_000.0)
    plain = inverse_frequencies(config)
    assert torch.allclose(inverse_frequencies(config, torch.full((8,), 4.0)), plain / 4)
    turned = rotations(torch.tensor([0, 3]), plain)
    assert torch.equal(turned[0], torch.tensor([1.0] * 8 + [0.0] * 8))
    assert torch.allclose(turned[1, 8:], (3 * plain).sin())
