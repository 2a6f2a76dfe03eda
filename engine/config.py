"""What an engine is told once, at start: sizes, limits, queue order and service classes.

It must not know torch, files or the command line. The trap: `chunk` is the token budget of a whole step (decodes
and prefill together), not of one request; `long_prefill_threshold` is the limit per request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DEFAULT_CLASS = "default"


class QueueOrder(StrEnum):
    """Who is admitted first."""

    FCFS = "fcfs"  # in order of arrival
    PRIORITY = "priority"  # lower `priority` first, then order of arrival


@dataclass(frozen=True, slots=True)
class SloClass:
    """Bounds of one service class. A bound that is None does not bind."""

    name: str
    ttft_s: float | None = None  # arrival to first token
    tpot_s: float | None = None  # (last token - first token) / (tokens - 1)

    def is_met(self, ttft_s: float | None, tpot_s: float | None) -> bool:
        """Joint: every bound holds. A TPOT that is undefined (fewer than two tokens) cannot miss."""
        if self.ttft_s is not None and (ttft_s is None or ttft_s > self.ttft_s):
            return False
        return self.tpot_s is None or tpot_s is None or tpot_s <= self.tpot_s


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes and limits of one engine."""

    model_name: str
    kv_blocks: int
    max_model_len: int  # tokens of prompt and output together
    block_size: int = 16
    chunk: int = 512  # token budget of one step
    max_seqs: int = 64  # sequences that run at once
    long_prefill_threshold: int = 0  # prefill tokens per request and step while others exist; 0 = no limit
    min_chunk: int = 32  # prefill worth a step; so much passes the TPOT cap now and then, so that nobody starves
    order: QueueOrder = QueueOrder.FCFS
    prefix_cache: bool = True
    watermark: float = 0.0  # fraction of the blocks that admission leaves free
    cap_chunks: bool = True  # limit prefill so that mixed steps stay within the TPOT bound of the running requests
    max_queued_requests: int = 512
    max_queued_tokens: int | None = None  # None = no limit
    eos_ids: frozenset[int] = frozenset()
    slo_classes: Mapping[str, SloClass] = field(default_factory=lambda: {DEFAULT_CLASS: SloClass(DEFAULT_CLASS)})

    def __post_init__(self) -> None:
        for name in ("kv_blocks", "max_model_len", "block_size", "chunk", "max_seqs", "min_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if not 0.0 <= self.watermark < 1.0:
            raise ValueError(f"watermark is {self.watermark}; it is a fraction and must be in [0, 1).")
        if self.max_model_len > self.kv_tokens:
            raise ValueError(
                f"{self.kv_blocks} blocks hold {self.kv_tokens} tokens, less than one sequence of {self.max_model_len};"
                " raise kv_blocks or lower max_model_len."
            )

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values fit in the cache."""
        return self.kv_blocks * self.block_size

    def slo_class(self, name: str | None) -> SloClass | None:
        """The class called `name`; the default one where no name is given; None where the name is unknown."""
        return self.slo_classes.get(name or DEFAULT_CLASS)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


def parse_slo(text: str) -> SloClass:
    """Read `NAME:ttft=1s,tpot=80ms`; without `NAME:` it is the default class."""
    name, colon, bounds = text.partition(":")
    if not colon:
        name, bounds = DEFAULT_CLASS, text
    values: dict[str, float] = {}
    for part in bounds.split(","):
        key, _, value = part.partition("=")
        if key.strip() == "target":  # the share that has to meet the bounds is the fleet's business, not the engine's
            continue
        match = _DURATION.fullmatch(value.strip())
        if key.strip() not in ("ttft", "tpot") or match is None:
            raise ValueError(f"Cannot read {part!r} in the SLO {text!r}; write it like chat:ttft=1s,tpot=80ms.")
        values[key.strip()] = float(match[1]) / (1000.0 if match[2] == "ms" else 1.0)
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ValueError(f"{name!r} cannot name a service class; use letters, digits, '.', '_' and '-'.")
    return SloClass(name, values.get("ttft"), values.get("tpot"))
