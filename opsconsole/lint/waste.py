"""Turns reusable tokens into prefill work, KV bytes and money: always an upper bound, never a promise of latency.

Knows shapes of models and measured rates, no logs. The trap: prefill work is not linear in tokens, since attention
grows with their square.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opsconsole.lint.model import Waste


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model the arithmetic needs. FLOPs and bytes follow from it."""

    active_parameters: float
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    kv_dtype_bytes: int = 2

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * self.kv_dtype_bytes

    def prefill_flops(self, total: int, cached: int) -> float:
        """Work to prefill `total` tokens of which `cached` are reused."""
        attention = 2.0 * self.layers * self.heads * self.head_dim * (total * total - cached * cached)
        return 2.0 * self.active_parameters * (total - cached) + attention


@dataclass(frozen=True, slots=True)
class Rates:
    """What a second or a token costs here; None where not given."""

    shape: ModelShape | None = None
    peak_flops: float | None = None
    mfu: float = 0.4
    tokens_per_gpu_second: float | None = None  # measured
    price_per_million: float | None = None
    read_share: float = 0.1
    write_share: float = 1.0


def waste(requests: Iterable[tuple[int, int, int]], rates: Rates, scale: float = 1.0) -> Waste:
    """Upper bound of what could be avoided over requests given as (total, reused, reusable) tokens, times `scale`."""
    items = list(requests)
    tokens = int(scale * sum(max(0, best - now) for _, now, best in items))
    seconds: float | None = None
    basis = ""
    if rates.tokens_per_gpu_second:
        seconds = tokens / rates.tokens_per_gpu_second
        basis = f"measured: {rates.tokens_per_gpu_second:,.0f} prompt tokens per GPU-second"
    elif rates.shape is not None and rates.peak_flops:
        shape = rates.shape
        work = sum(shape.prefill_flops(n, now) - shape.prefill_flops(n, max(now, best)) for n, now, best in items)
        seconds = scale * work / (rates.mfu * rates.peak_flops)
        basis = f"from the model's shape at {rates.mfu:.0%} of {rates.peak_flops / 1e12:,.0f} TFLOP/s"
    kv = tokens * rates.shape.kv_bytes_per_token if rates.shape is not None else None
    money: float | None = None
    if rates.price_per_million is not None:
        money = tokens / 1e6 * rates.price_per_million * (rates.write_share - rates.read_share)
    return Waste(tokens, seconds, kv, money, basis=basis)
