"""SGLang's names, 0.4.0 to 0.5.23, all modes.

A table and nothing else. The traps: `num_queue_reqs` holds neither grammar nor disaggregation queues, so they are
added; `gen_throughput`, `cache_hit_rate` and `utilization` are not state and are not mapped; `prompt_tokens_total`
moves at the finish of a request, so the live `realtime_tokens_total` comes first.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import (
    Dialect,
    Field,
    Name,
    counter,
    gauge,
    histogram,
    info,
    level,
    mean,
    occupancy,
    ratio,
)

_LIVE = "sglang_realtime_tokens"

LOAD: tuple[Field, ...] = (
    gauge("running", "sglang_num_running_reqs", note="frozen up to 30 s after idle before 0.5.16"),
    gauge(
        "waiting",
        "sglang_num_queue_reqs",
        plus=(
            "sglang_num_grammar_queue_reqs",
            Name("sglang_num_prefill_bootstrap_queue_reqs", ">=0.5.12"),
            Name("sglang_num_prefill_prealloc_queue_reqs", "0.4.8..0.5.11"),
            Name("sglang_num_decode_prealloc_queue_reqs", ">=0.4.8"),
            Name("sglang_num_decode_transfer_queue_reqs", ">=0.4.8"),
            Name("sglang_num_decode_host_receive_queue_reqs", ">=0.5.21"),
        ),
    ),
    occupancy("kv_usage", "sglang_token_usage", note="the greatest of its pools"),
    gauge("kv_used_tokens", Name("sglang_kv_used_tokens", ">=0.5.11"), "sglang_num_used_tokens"),
    gauge("kv_capacity_tokens", Name("sglang_max_total_num_tokens", ">=0.5.6")),
    counter("preemptions", Name("sglang_num_retracted_requests", ">=0.5.7")),
    ratio("occupancy", Name("sglang_fwd_occupancy", ">=0.5.12", scale=0.01, note="percent, NaN when idle")),
    gauge("lora_slots_used", Name("sglang_lora_pool_slots_used", ">=0.5.7")),
    gauge("lora_slots", Name("sglang_lora_pool_slots_total", ">=0.5.7", note="a gauge despite its name")),
)

WORK: tuple[Field, ...] = (
    counter(
        "prompt_tokens",
        Name(_LIVE, ">=0.5.7", where=("mode", "prefill_cache", "prefill_compute")),
        Name("sglang_prompt_tokens", note="moves when a request finishes"),
    ),
    counter("prompt_tokens_computed", Name(_LIVE, ">=0.5.7", where=("mode", "prefill_compute"))),
    counter("generation_tokens", Name(_LIVE, ">=0.5.7", where=("mode", "decode")), "sglang_generation_tokens"),
    counter(
        "prefix_hits",
        Name(_LIVE, ">=0.5.7", where=("mode", "prefill_cache")),
        Name("sglang_cached_tokens", ">=0.4.4"),
    ),
    counter(
        "prefix_queries",
        Name(_LIVE, ">=0.5.7", where=("mode", "prefill_cache", "prefill_compute")),
        "sglang_prompt_tokens",
    ),
    counter("finished_total", "sglang_num_requests"),
    counter(
        "failed_total",
        Name("sglang_num_aborted_requests", ">=0.4.8"),
        plus=("sglang_num_bootstrap_failed_reqs", "sglang_num_transfer_failed_reqs"),
    ),
    mean("spec_mean_length", Name("sglang_spec_accept_length", ">=0.4.2")),
    ratio("spec_acceptance", Name("sglang_spec_accept_rate", ">=0.5.4")),
)

TIMES: tuple[Field, ...] = (
    histogram("ttft", "sglang_time_to_first_token_seconds", note="nothing below 100 ms"),
    histogram(
        "itl",
        Name("sglang_inter_token_latency_seconds", ">=0.4.4"),
        Name("sglang_time_per_output_token_seconds", "0.4.0..0.4.4"),
    ),
    histogram("tpot", Name("sglang_request_time_per_output_token_seconds", ">=0.5.22")),
    histogram("e2e", "sglang_e2e_request_latency_seconds"),
    histogram("queue", Name("sglang_queue_time_seconds", ">=0.5.3"), Name("sglang_queue_time_s", "0.5.2..0.5.2")),
)

SHAPE: tuple[Field, ...] = (
    level("block_size", Name("sglang_page_size", ">=0.5.11")),
    info("block_size", Name("sglang_cache_config_info", "0.5.9..0.5.10", label="page_size")),
    gauge("num_blocks", Name("sglang_num_pages", ">=0.5.11")),
    info("num_blocks", Name("sglang_cache_config_info", "0.5.9..0.5.10", label="num_pages")),
    level("max_model_len", Name("sglang_context_len", ">=0.5.11")),
)

SGLANG = Dialect(
    engine="sglang",
    title="SGLang",
    prefixes=("sglang_",),
    versions="0.4.0 to 0.5.23",
    fields=LOAD + WORK + TIMES + SHAPE,
    rank_labels=("dp_rank",),
    copy_labels=("pid", "tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "cp_rank", "attn_cp_rank", "attn_tp_rank"),
    total_labels=("priority",),
    freeze_s=30.0,
    hints=("needs --enable-metrics",),
)
