"""Rotary position embedding: the frequencies of each scaling rule and the cosines and sines of a batch.

Must not know: layers, KV. Trap: the halves convention (dimension i turns with i + head_dim / 2), as Hugging Face stores
weights; GGUF files of the `llama` architecture are permuted for the other convention and are put back when loaded.
"""

from __future__ import annotations

import math

import torch

from engine.model.config import LinearScaling, Llama3Scaling, ModelConfig


def inverse_frequencies(config: ModelConfig, divisors: torch.Tensor | None = None) -> torch.Tensor:
    """Radians per position for each of the head_dim / 2 planes; `divisors` are GGUF's `rope_freqs`."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    plain = 1.0 / config.rope_theta**half
    if divisors is not None:
        return plain / divisors.float()
    if isinstance(config.rope_scaling, LinearScaling):
        return plain / config.rope_scaling.factor
    if isinstance(config.rope_scaling, Llama3Scaling):
        return _llama3(plain, config.rope_scaling)
    return plain


def _llama3(plain: torch.Tensor, rule: Llama3Scaling) -> torch.Tensor:
    wavelength = 2 * math.pi / plain
    longest, shortest = (rule.original_max_position / f for f in (rule.low_freq_factor, rule.high_freq_factor))
    smooth = (rule.original_max_position / wavelength - rule.low_freq_factor) / (
        rule.high_freq_factor - rule.low_freq_factor
    )
    blended = (1 - smooth) * plain / rule.factor + smooth * plain
    scaled = torch.where(wavelength > longest, plain / rule.factor, blended)
    return torch.where(wavelength < shortest, plain, scaled)


def rotations(positions: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    """Float32 [tokens, head_dim]: cosines of the half-planes, then their sines. Cheap enough to make anew each step,
    where a table over a context of 131,072 would hold 64 MB."""
    angles = torch.outer(positions.float(), frequencies)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)
