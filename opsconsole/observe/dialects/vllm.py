"""vLLM's names, V0 and V1, 0.3 to 0.33, and the embedded engine, which speaks vLLM's current V1.

A table and nothing else. The trap: `kv_cache_usage_perc` is a fraction in spite of its name, `iteration_tokens_total`
is a histogram, and `num_requests_waiting_by_reason` is a breakdown that must never be added to the total.
"""

from __future__ import annotations

from dataclasses import replace

from opsconsole.observe.dialects.table import (
    Dialect,
    Field,
    Name,
    counter,
    each,
    gauge,
    histogram,
    info,
    level,
    occupancy,
    ratio,
)

LOAD: tuple[Field, ...] = (
    gauge("running", "vllm_num_requests_running"),
    gauge("waiting", "vllm_num_requests_waiting", note="without deferred requests before 0.20"),
    each("waiting_by_reason", Name("vllm_num_requests_waiting_by_reason", ">=0.20.2"), by="reason"),
    gauge("swapped", Name("vllm_num_requests_swapped", "V0 ..0.9.0")),
    occupancy(
        "kv_usage",
        Name("vllm_kv_cache_usage_perc", ">=0.9.2"),
        Name("vllm_gpu_cache_usage_perc", "0.3.3..0.10.2", note="hidden in 0.11, gone in 0.12"),
    ),
    occupancy("cpu_cache_usage", Name("vllm_cpu_cache_usage_perc", "V0 ..0.9.0")),
    counter("preemptions", Name("vllm_num_preemptions", ">=0.4.3")),
    counter("rejected", Name("vllm_admission_rejections", ">=0.32"), by="reason"),
    level("awake", Name("vllm_engine_sleep_state", ">=0.11.2", where=("sleep_state", "awake"))),
)

WORK: tuple[Field, ...] = (
    counter("prompt_tokens", "vllm_prompt_tokens", note="includes cached tokens and aborted requests"),
    counter(
        "prompt_tokens_computed", Name("vllm_prompt_tokens_by_source", ">=0.16", where=("source", "local_compute"))
    ),
    counter("prompt_tokens_cached", Name("vllm_prompt_tokens_cached", ">=0.16")),
    counter("generation_tokens", "vllm_generation_tokens"),
    counter("finished", Name("vllm_request_success", ">=0.4.3"), by="finished_reason|finish_reason"),
    counter(
        "prefix_hits",
        Name("vllm_prefix_cache_hits", ">=0.9.2"),
        Name("vllm_gpu_prefix_cache_hits", "0.7.3..0.10.2"),
    ),
    counter(
        "prefix_queries",
        Name("vllm_prefix_cache_queries", ">=0.9.2"),
        Name("vllm_gpu_prefix_cache_queries", "0.7.3..0.10.2"),
    ),
    counter("external_prefix_hits", Name("vllm_external_prefix_cache_hits", ">=0.11.2")),
    counter("external_prefix_queries", Name("vllm_external_prefix_cache_queries", ">=0.11.2")),
    ratio("prefix_hit_rate", Name("vllm_gpu_prefix_cache_hit_rate", "V0 ..0.9.0")),
    counter("spec_drafts", Name("vllm_spec_decode_num_drafts", ">=0.8.5")),
    counter("spec_draft_tokens", Name("vllm_spec_decode_num_draft_tokens", ">=0.5")),
    counter("spec_accepted_tokens", Name("vllm_spec_decode_num_accepted_tokens", ">=0.5")),
    counter("spec_emitted_tokens", Name("vllm_spec_decode_num_emitted_tokens", "V0 ..0.9.0")),
    ratio("spec_acceptance", Name("vllm_spec_decode_draft_acceptance_rate", "V0 ..0.9.0")),
)

TIMES: tuple[Field, ...] = (
    histogram("ttft", "vllm_time_to_first_token_seconds"),
    histogram(
        "itl",
        Name("vllm_inter_token_latency_seconds", ">=0.10.2"),
        Name("vllm_time_per_output_token_seconds", "0.3.3..0.11.2", note="the same thing under its old name"),
    ),
    histogram("tpot", Name("vllm_request_time_per_output_token_seconds", ">=0.11.0")),
    histogram("e2e", "vllm_e2e_request_latency_seconds"),
    histogram(
        "queue", Name("vllm_request_queue_time_seconds", ">=0.6.6"), Name("vllm_time_in_queue_requests", "V0 ..0.9.0")
    ),
    histogram("prefill", Name("vllm_request_prefill_time_seconds", ">=0.6.6")),
    histogram("decode", Name("vllm_request_decode_time_seconds", ">=0.6.6")),
    histogram("iteration_tokens", Name("vllm_iteration_tokens_total", ">=0.6.6"), note="a histogram despite its name"),
)

SHAPE: tuple[Field, ...] = (
    info("block_size", Name("vllm_cache_config_info", label="block_size")),
    info("num_blocks", Name("vllm_cache_config_info", label="num_gpu_blocks")),
    info("kv_capacity_tokens", Name("vllm_cache_config_info", ">=0.24", label="kv_cache_size_tokens")),
    info("lora_info", Name("vllm_lora_requests_info", ">=0.6.6", label="*")),
)

PROCESS: tuple[Field, ...] = (level("process_start", "process_start_time_seconds"),)

VLLM = Dialect(
    engine="vllm",
    title="vLLM",
    prefixes=("vllm_",),
    versions="0.3.3 to 0.33.0, V0 and V1",
    fields=LOAD + WORK + TIMES + SHAPE + PROCESS,
    rank_labels=("engine",),
    copy_labels=("pid", "tp_rank", "pp_rank"),
    hints=("started with --disable-log-stats it exposes nothing but http_ and python_ families",),
)

EMBEDDED = replace(
    VLLM,
    engine="opsconsole",
    title="the embedded engine",
    prefixes=("opsconsole_",),
    versions="this release",
    fingerprints=("opsconsole_slo_requests", "opsconsole_engine_ready"),
    fields=(
        *VLLM.fields,
        counter("slo_outcomes", Name("opsconsole_slo_requests"), by="slo_class+outcome"),
        level("engine_ready", "opsconsole_engine_ready"),
        level("engine_draining", "opsconsole_engine_draining"),
        gauge("streams", "opsconsole_streams_running"),
    ),
    freeze_s=60.0,
)
