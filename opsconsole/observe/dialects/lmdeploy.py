"""LMDeploy's names, 0.9 to 0.18.

A table and nothing else. The trap: requests wait in two places, before the engine and in it; both are counted.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Name, counter, gauge, histogram, mean, occupancy, ratio

LMDEPLOY = Dialect(
    engine="lmdeploy",
    title="LMDeploy",
    prefixes=("lmdeploy_",),
    versions="0.9 to 0.18",
    fields=(
        gauge(
            "waiting", "lmdeploy_num_requests_waiting", plus=(Name("lmdeploy_num_api_requests_waiting", ">=0.12.3"),)
        ),
        gauge("running", "lmdeploy_num_requests_running"),
        occupancy("kv_usage", "lmdeploy_gpu_cache_usage_perc"),
        ratio("prefix_hit_rate", "lmdeploy_prefix_cache_hit_rate"),
        counter("prefix_hits", Name("lmdeploy_cached_tokens", ">=0.18")),
        counter("prompt_tokens", "lmdeploy_prompt_tokens"),
        counter("generation_tokens", "lmdeploy_generation_tokens"),
        counter("finished", "lmdeploy_request_success", by="finished_reason"),
        counter(
            "finished_total",
            Name("lmdeploy_num_requests_succeeded", ">=0.12.3"),
            Name("lmdeploy_num_requests_finished", "0.9..0.10", note="a gauge used as a counter"),
        ),
        counter("failed_total", Name("lmdeploy_num_requests_failed", ">=0.12.3")),
        histogram("ttft", "lmdeploy_time_to_first_token_seconds"),
        histogram("tpot", "lmdeploy_time_per_output_token_seconds"),
        histogram("itl", Name("lmdeploy_iter_token_latency", ">=0.10.2")),
        histogram("e2e", "lmdeploy_e2e_request_latency_seconds"),
        histogram("queue", "lmdeploy_request_queue_time_seconds"),
        histogram("prefill", "lmdeploy_request_prefill_time_seconds"),
        histogram("decode", "lmdeploy_request_decode_time_seconds"),
        counter("spec_drafts", "lmdeploy_spec_decode_num_drafts"),
        counter("spec_draft_tokens", "lmdeploy_spec_decode_num_draft_tokens"),
        counter("spec_accepted_tokens", "lmdeploy_spec_decode_num_accepted_tokens"),
        mean("spec_mean_length", Name("lmdeploy_spec_decode_mean_accept_length", ">=0.18")),
    ),
    rank_labels=("engine",),
    hints=("needs enable_metrics, which is off by default to 0.10.2",),
)
