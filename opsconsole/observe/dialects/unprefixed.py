"""Engines whose families bear no prefix: NVIDIA NIM 1.x and MindIE.

Tables and nothing else. The trap: the names are vLLM's without `vllm:`, and TensorRT-LLM 1.0 to 1.2 uses some of them
too; they are told apart by families and labels that only one has, so these tables come after all others.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Field, Name, counter, gauge, histogram, level, occupancy, ratio

_SHARED: tuple[Field, ...] = (
    gauge("running", "num_requests_running"),
    gauge("waiting", "num_requests_waiting"),
    gauge("swapped", "num_requests_swapped"),
    counter("prompt_tokens", "prompt_tokens"),
    counter("generation_tokens", "generation_tokens"),
    counter("preemptions", "num_preemptions"),
    histogram("ttft", "time_to_first_token_seconds"),
    histogram("itl", "time_per_output_token_seconds"),
    histogram("e2e", "e2e_request_latency_seconds"),
    level("process_start", "process_start_time_seconds"),
)

NIM = Dialect(
    engine="nim",
    title="NVIDIA NIM for LLMs 1.x",
    prefixes=(),
    versions="1.0 to 1.15",
    fingerprints=("num_request_max", "request_finish", "num_requests_running", "gpu_cache_usage_perc"),
    fields=(
        *_SHARED,
        level("max_running", "num_request_max"),
        occupancy("kv_usage", "gpu_cache_usage_perc"),
        counter("finished", "request_finish", by="finished_reason"),
        counter("finished_total", "request_success"),
        counter("failed_total", "request_failure"),
    ),
    hints=("its page is at /v1/metrics",),
)

MINDIE = Dialect(
    engine="mindie",
    title="MindIE",
    prefixes=("npu_",),
    versions="2",
    fingerprints=("request_received",),
    fields=(
        *_SHARED,
        occupancy("kv_usage", "npu_cache_usage_perc"),
        ratio("prefix_hit_rate", "npu_prefix_cache_hit_rate"),
        counter("arrivals", "request_received"),
        counter("finished_total", Name("request_success")),
        counter("failed_total", "request_failed"),
    ),
)
