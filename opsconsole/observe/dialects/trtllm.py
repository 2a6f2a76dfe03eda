"""TensorRT-LLM's names: trtllm-serve (with and without prefix) and the Triton backend.

Tables and nothing else. The traps: before 1.3 trtllm-serve's five families had no prefix and the label values were
"undefined"; Triton has one family per topic with a selector label, whose sum is nonsense, and counts a request once for
every model of an ensemble.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Name, counter, gauge, histogram, level, occupancy, ratio

_OLD = "1.0..1.2"

TRTLLM = Dialect(
    engine="trtllm",
    title="TensorRT-LLM (trtllm-serve)",
    prefixes=("trtllm_",),
    versions="1.0 to 1.3",
    label_fingerprint=("engine_type", ""),
    fields=(
        gauge("running", "trtllm_num_requests_running"),
        gauge("waiting", "trtllm_num_requests_waiting"),
        gauge("paused", "trtllm_num_paused_requests"),
        level("max_running", "trtllm_max_num_active_requests"),
        occupancy("kv_usage", "trtllm_kv_cache_utilization"),
        gauge("num_blocks", "trtllm_kv_cache_max_blocks"),
        level("block_size", "trtllm_kv_cache_tokens_per_block"),
        counter("prompt_tokens", "trtllm_prompt_tokens", note="moves when a request finishes"),
        counter("generation_tokens", "trtllm_generation_tokens"),
        counter("prefix_hits", "trtllm_prompt_cached_tokens"),
        counter("prefix_queries", "trtllm_prompt_tokens"),
        ratio("prefix_hit_rate", "trtllm_kv_cache_hit_rate"),
        counter(
            "finished", "trtllm_request_success", Name("request_success", _OLD), by="finished_reason|finish_reason"
        ),
        counter("failed", "trtllm_request_error", by="http_code"),
        counter(
            "spec_draft_tokens",
            "trtllm_spec_decode_num_draft_tokens",
        ),
        counter("spec_accepted_tokens", "trtllm_spec_decode_num_accepted_tokens"),
        histogram("ttft", "trtllm_time_to_first_token_seconds", Name("time_to_first_token_seconds", _OLD)),
        histogram("tpot", "trtllm_time_per_output_token_seconds", Name("time_per_output_token_seconds", _OLD)),
        histogram("e2e", "trtllm_e2e_request_latency_seconds", Name("e2e_request_latency_seconds", _OLD)),
        histogram("queue", "trtllm_request_queue_time_seconds", Name("request_queue_time_seconds", _OLD)),
        histogram("prefill", "trtllm_request_prefill_time_seconds"),
        histogram("decode", "trtllm_request_decode_time_seconds"),
    ),
    copy_labels=("pid", "tp_rank", "pp_rank", "rank"),
    hints=(
        "its page is at /prometheus/metrics and needs return_perf_metrics: true",
        "queue and KV families need enable_iter_perf_stats: true and 1.3 or later",
    ),
)

_REQUESTS = "nv_trt_llm_request_metrics"
_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"
_MODELS = ("ensemble", "tensorrt_llm_bls", "tensorrt_llm")  # one of them counts each request once


def _block(kind: str) -> Name:
    return Name(_BLOCKS, where=("kv_cache_block_type", kind))


TRITON = Dialect(
    engine="triton",
    title="Triton with the TensorRT-LLM backend",
    prefixes=("nv_trt_llm_", "nv_inference_"),
    versions="2024 to 2026",
    fields=(
        gauge("running", Name(_REQUESTS, where=("request_type", "scheduled"))),
        gauge("waiting", Name(_REQUESTS, where=("request_type", "waiting"), note="absent in old builds")),
        level("max_running", Name(_REQUESTS, where=("request_type", "max"))),
        occupancy("kv_usage", Name(_BLOCKS, where=("kv_cache_block_type", "fraction"), note="absent in old builds")),
        gauge("kv_blocks_used", _block("used")),
        gauge("num_blocks", _block("max")),
        level("block_size", _block("tokens_per")),
        counter("finished_total", *(Name("nv_inference_request_success", where=("model", m)) for m in _MODELS)),
        counter("failed_total", *(Name("nv_inference_request_failure", where=("model", m)) for m in _MODELS)),
    ),
    copy_labels=("pid", "gpu_uuid"),
    model_labels=(),
    hints=("its page is on port 8002; an engine built without KV cache tells nothing",),
)
