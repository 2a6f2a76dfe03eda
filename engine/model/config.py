"""The shape of a Llama-family decoder, read from a Hugging Face `config.json` or from GGUF metadata.

Must not know: torch, files. Trap: publishers spell RoPE scaling and sliding windows in several ways over the years, and
a field ignored silently gives fluent nonsense; what is not understood here is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


class UnsupportedModelError(ValueError):
    """The weights are of a kind this engine does not run; the text names it."""


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Llama 3.1's rule: long wavelengths are stretched by `factor`, short ones kept, the middle blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by `factor`."""

    factor: float


RopeScaling = Llama3Scaling | LinearScaling


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything the decoder needs to be built before a weight is read."""

    architecture: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float  # of RMSNorm
    max_position: int  # tokens, prompt and answer together
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    tied_embeddings: bool = False
    attention_bias: bool = False  # on q, k, v
    output_bias: bool = False  # on the attention's output projection
    mlp_bias: bool = False
    qk_norm: bool = False  # Qwen3: RMSNorm on every query and key head
    windows: tuple[int | None, ...] = ()  # per layer: keys a query may see, itself included; None is all

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise UnsupportedModelError(
                f"{self.heads} query heads cannot share {self.kv_heads} key/value heads evenly."
            )
        if self.head_dim % 2:
            raise UnsupportedModelError(f"Rotary embedding needs an even head size, this model has {self.head_dim}.")

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    def window(self, layer: int) -> int | None:
        return self.windows[layer] if self.windows else None


HF_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")


def from_hugging_face(raw: Mapping[str, Any]) -> ModelConfig:
    """Read `config.json`, of transformers 4 or 5."""
    named = next(iter(raw.get("architectures") or ()), None)
    if named not in HF_ARCHITECTURES:
        raise UnsupportedModelError(
            f"Architecture {named!r} is not supported; this engine runs {', '.join(HF_ARCHITECTURES)}."
        )
    architecture = HF_ARCHITECTURES[named]
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise UnsupportedModelError(f"Weights quantised by {method!r} are not supported; use a GGUF or plain weights.")
    if (activation := raw.get("hidden_act", "silu")) != "silu":
        raise UnsupportedModelError(f"Activation {activation!r} is not supported, only silu.")
    heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    rope = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    theta = rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0
    attention_bias = bool(raw.get("attention_bias", False))
    return ModelConfig(
        architecture=architecture,
        layers=int(raw["num_hidden_layers"]),
        hidden=hidden,
        ffn=int(raw["intermediate_size"]),
        heads=heads,
        kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=int(raw.get("head_dim") or hidden // heads),
        vocab=int(raw["vocab_size"]),
        eps=float(raw.get("rms_norm_eps", 1e-6)),
        max_position=int(raw["max_position_embeddings"]),
        rope_theta=float(theta),
        rope_scaling=_hugging_face_scaling(rope, int(raw["max_position_embeddings"])),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=architecture == "qwen2" or attention_bias,
        output_bias=architecture in ("llama", "qwen3") and attention_bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
        qk_norm=architecture == "qwen3",
        windows=_hugging_face_windows(architecture, raw),
    )


def _hugging_face_scaling(rope: Mapping[str, Any], max_position: int) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(float(rope["factor"]))
    if kind == "llama3":
        return Llama3Scaling(
            factor=float(rope["factor"]),
            low_freq_factor=float(rope["low_freq_factor"]),
            high_freq_factor=float(rope["high_freq_factor"]),
            original_max_position=int(rope.get("original_max_position_embeddings") or max_position),
        )
    raise UnsupportedModelError(f"RoPE scaling {kind!r} is not supported, only default, linear and llama3.")


def _hugging_face_windows(architecture: str, raw: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Mistral slides in every layer; Qwen only when told to, and then from `max_window_layers` on."""
    window, layers = raw.get("sliding_window"), int(raw["num_hidden_layers"])
    if window is None or architecture == "llama":
        return ()
    if kinds := raw.get("layer_types"):
        return tuple(int(window) if kind == "sliding_attention" else None for kind in kinds)
    if architecture == "mistral":
        return (int(window),) * layers
    if not raw.get("use_sliding_window", False):
        return ()
    first = int(raw.get("max_window_layers", layers))
    return tuple(int(window) if layer >= first else None for layer in range(layers))


def from_gguf(metadata: Mapping[str, Any], tensors: frozenset[str]) -> ModelConfig:
    """Read a GGUF file's key/value section; which tensors exist decides ties and biases."""
    architecture = str(metadata.get("general.architecture"))
    if architecture not in GGUF_ARCHITECTURES:
        raise UnsupportedModelError(
            f"GGUF architecture {architecture!r} is not supported; this engine runs {', '.join(GGUF_ARCHITECTURES)}."
        )

    def field(name: str, default: Any = None) -> Any:
        return metadata.get(f"{architecture}.{name}", default)

    if field("expert_count"):
        raise UnsupportedModelError("Mixture-of-experts weights are not supported.")
    heads, hidden, layers = (
        int(field("attention.head_count")),
        int(field("embedding_length")),
        int(field("block_count")),
    )
    head_dim = int(field("attention.key_length") or hidden // heads)
    if int(field("rope.dimension_count") or head_dim) != head_dim:
        raise UnsupportedModelError("Rotary embedding over a part of each head is not supported.")
    window = field("attention.sliding_window")
    return ModelConfig(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        ffn=int(field("feed_forward_length")),
        heads=heads,
        kv_heads=int(field("attention.head_count_kv") or heads),
        head_dim=head_dim,
        vocab=int(field("vocab_size") or len(metadata["tokenizer.ggml.tokens"])),
        eps=float(field("attention.layer_norm_rms_epsilon", 1e-6)),
        max_position=int(field("context_length")),
        rope_theta=float(field("rope.freq_base") or 10_000.0),
        rope_scaling=_gguf_scaling(field("rope.scaling.type"), field("rope.scaling.factor")),
        tied_embeddings="output.weight" not in tensors,
        attention_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        mlp_bias="blk.0.ffn_down.bias" in tensors,
        qk_norm="blk.0.attn_q_norm.weight" in tensors,
        windows=(int(window),) * layers if window else (),
    )


def _gguf_scaling(kind: str | None, factor: float | None) -> RopeScaling | None:
    """Llama 3's scaling is not here: GGUF carries it as a tensor of divisors (`rope_freqs.weight`)."""
    if kind in (None, "none"):
        return None
    if kind == "linear" and factor is not None:
        return LinearScaling(float(factor))
    raise UnsupportedModelError(f"GGUF RoPE scaling {kind!r} is not supported, only linear.")


def limited(config: ModelConfig, max_position: int) -> ModelConfig:
    """The same model with a shorter context."""
    return replace(config, max_position=min(config.max_position, max_position))
