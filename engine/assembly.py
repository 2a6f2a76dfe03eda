"""Puts an engine together: weights, runner, sampler, text, sizes. The one place that knows both halves.

torch is imported when a model is loaded and not before, so an engine over a step-time model starts without it. The
trap: `kv_blocks` is either the operator's or a share of free memory; a number that ignores the weights just loaded
would be promised twice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.config import EngineConfig, QueueOrder, SloClass
from engine.core import EngineCore
from engine.step_time import StandInRunner, StandInSampler, StepTimeFit, StepTimeModel
from engine.text import BYTE_VOCABULARY, TextTools, byte_text

_DEFAULT_KV_BYTES = 512 * 1024 * 1024
_BLOCK = 16


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an operator may set; None means that the engine chooses."""

    model_name: str
    kv_blocks: int | None = None
    chunk: int = 512
    max_seqs: int = 64
    max_model_len: int | None = None
    long_prefill_threshold: int = 0
    order: QueueOrder = QueueOrder.FCFS
    prefix_cache: bool = True
    watermark: float = 0.0
    cap_chunks: bool = True
    max_queued_requests: int = 512
    max_queued_tokens: int | None = None
    slo_classes: Mapping[str, SloClass] | None = None
    shuffle_blocks: int | None = None  # a seed: physical block order must not matter


class Engine(NamedTuple):
    """A core with its text tools, and what was decided on the way, for the log."""

    core: EngineCore
    text: TextTools
    facts: Mapping[str, Any]


def model_engine(
    path: str, options: EngineOptions, now: Callable[[], float], *, dtype: str, quantize: str, threads: int | None
) -> Engine:
    """An engine over real weights."""
    import torch

    from engine.loader import load_model
    from engine.model_runner import ModelRunner
    from engine.sampler import TorchSampler
    from engine.tokenizer import IncrementalDecoder, load_tokenizer

    # torch's own default counts physical cores, which is one on many small virtual machines.
    threads = threads or len(os.sched_getaffinity(0))
    loaded = load_model(path, dtype=dtype, quantize=quantize, threads=threads)  # type: ignore[arg-type]
    tokenizer = load_tokenizer(loaded.tokenizer_source)
    per_token = 2 * loaded.config.layers * loaded.config.kv_heads * loaded.config.head_dim
    per_block = per_token * _BLOCK * torch.empty(0, dtype=loaded.model.kv_dtype).element_size()
    config = _config(options, loaded.max_position, max(1, _DEFAULT_KV_BYTES // per_block), frozenset(loaded.eos_ids))
    runner = ModelRunner(loaded.model, config.kv_blocks, config.block_size)
    core = EngineCore(config, runner, TorchSampler(config.eos_ids), now, block_order=_order(options, config.kv_blocks))
    text = TextTools(
        tokenizer,
        lambda: IncrementalDecoder(tokenizer),
        loaded.chat_template or tokenizer.chat_template,
        bos="" if tokenizer.bos_id is None else tokenizer.token_text(tokenizer.bos_id),
        eos=tokenizer.token_text(loaded.eos_ids[0]) if loaded.eos_ids else "",
    )
    facts = {
        "dtype": loaded.dtype_name,
        "weight_bytes": loaded.weight_bytes,
        "kv_bytes": per_block * config.kv_blocks,
        "threads": threads,
        "notices": list(loaded.notices),
    }
    return Engine(core, text, _facts(config) | facts)


def stand_in_engine(
    model: StepTimeModel, options: EngineOptions, now: Callable[[], float], elapse: Callable[[float], None]
) -> Engine:
    """An engine without a model: steps take the time the step-time model says, and tokens are bytes."""
    config = _config(options, max_position=4096, kv_blocks=2048, eos_ids=frozenset())
    # Printable ASCII only, so that the text of a stand-in is text.
    runner = StandInRunner(config.kv_blocks, config.block_size, 95, model, elapse, first_token=32)
    core = EngineCore(
        config,
        runner,
        StandInSampler(95, first_token=32),
        now,
        block_order=_order(options, config.kv_blocks),
        step_time=StepTimeFit(model),
    )
    return Engine(core, byte_text(), _facts(config) | {"dtype": "stand-in", "vocabulary": BYTE_VOCABULARY})


def _config(options: EngineOptions, max_position: int, kv_blocks: int, eos_ids: frozenset[int]) -> EngineConfig:
    blocks = options.kv_blocks or kv_blocks
    wanted = options.max_model_len or max_position
    classes = {"default": SloClass("default"), **(options.slo_classes or {})}
    return EngineConfig(
        model_name=options.model_name,
        kv_blocks=blocks,
        max_model_len=min(wanted, max_position, blocks * _BLOCK),
        block_size=_BLOCK,
        chunk=options.chunk,
        max_seqs=options.max_seqs,
        long_prefill_threshold=options.long_prefill_threshold,
        order=options.order,
        prefix_cache=options.prefix_cache,
        watermark=options.watermark,
        cap_chunks=options.cap_chunks,
        max_queued_requests=options.max_queued_requests,
        max_queued_tokens=options.max_queued_tokens,
        eos_ids=eos_ids,
        slo_classes=classes,
    )


def _order(options: EngineOptions, kv_blocks: int) -> list[int] | None:
    if options.shuffle_blocks is None:
        return None
    order = list(range(kv_blocks))
    random.Random(options.shuffle_blocks).shuffle(order)
    return order


def _facts(config: EngineConfig) -> dict[str, Any]:
    return {
        "model": config.model_name,
        "kv_blocks": config.kv_blocks,
        "kv_tokens": config.kv_tokens,
        "max_model_len": config.max_model_len,
        "chunk": config.chunk,
        "max_seqs": config.max_seqs,
        "pid": os.getpid(),
    }
