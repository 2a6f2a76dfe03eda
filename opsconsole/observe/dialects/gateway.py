"""What stands before engines: Dynamo, the Gateway API inference extension (EPP, llm-d) and LiteLLM.

Tables and nothing else. The traps: Dynamo's `queued_requests` lasts to the first token and lies inside the requests in
flight, so the two are never added; completions are not arrivals; the EPP's flow-control queue is outside the pods and
adds to their backlog.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import (
    Dialect,
    Name,
    counter,
    each,
    gauge,
    histogram,
    level,
    mean,
    occupancy,
    ratio,
)

_FRONT, _WORK = "dynamo_frontend_", "dynamo_component_"

DYNAMO = Dialect(
    engine="dynamo",
    title="NVIDIA Dynamo",
    prefixes=(_FRONT, _WORK, "dynamo_work_handler_"),
    versions="0.4 to 1.6",
    fields=(
        gauge("active", Name(_FRONT + "active_requests", ">=1.3"), Name(_FRONT + "inflight_requests", "..1.2")),
        gauge("before_first_token", _FRONT + "queued_requests", note="HTTP entry to first token, inside `active`"),
        gauge("running", _WORK + "inflight_requests"),
        gauge("waiting", "dynamo_work_handler_queue_depth", _FRONT + "router_queue_pending_requests"),
        occupancy(
            "kv_usage",
            Name(_WORK + "gpu_cache_usage_percent", ">=1.0", note="0..1"),
            Name(_WORK + "kvstats_gpu_cache_usage_percent", "0.4..0.8"),
        ),
        ratio("prefix_hit_rate", _WORK + "kv_cache_hit_rate", _WORK + "kvstats_gpu_prefix_cache_hit_rate"),
        counter("arrivals", _FRONT + "requests_started", _WORK + "router_requests_started"),
        counter("finished", _FRONT + "requests", by="status"),
        counter("finished_total", _WORK + "requests"),
        counter("rejected_total", _FRONT + "model_rejection"),
        counter("prompt_tokens", Name(_FRONT + "input_sequence_tokens", part="sum")),
        counter(
            "generation_tokens",
            _FRONT + "output_tokens",
            Name(_FRONT + "output_sequence_tokens", part="sum"),
        ),
        histogram("ttft", _FRONT + "time_to_first_token_seconds"),
        histogram("itl", _FRONT + "inter_token_latency_seconds"),
        histogram("e2e", _FRONT + "request_duration_seconds", _WORK + "request_duration_seconds"),
        level("max_model_len", _FRONT + "model_context_length"),
        level("block_size", _FRONT + "model_kv_cache_block_size"),
        gauge("num_blocks", _FRONT + "model_total_kv_blocks", _WORK + "total_blocks", _WORK + "kvstats_total_blocks"),
        level("max_running", _FRONT + "model_max_num_seqs"),
    ),
    model_labels=("model", "model_name"),
    hints=("families appear after the first matching request", "workers tell nothing unless DYN_SYSTEM_PORT is set"),
)

_POOL, _ASK, _EXT = "inference_pool_", "inference_objective_", "inference_extension_"

EPP = Dialect(
    engine="epp",
    title="Gateway API inference extension (EPP)",
    prefixes=(_POOL, _ASK, _EXT, "llm_d_", "inference_model_"),
    versions="2025 to 2026-08",
    fields=(
        gauge("waiting", _EXT + "flow_control_queue_size", note="the gateway's own queue, outside the pods"),
        gauge("running", _ASK + "running_requests", "inference_model_running_requests"),
        mean("pool_kv_usage", _POOL + "average_kv_cache_utilization"),
        mean("pool_queue", _POOL + "average_queue_size"),
        mean("pool_running", _POOL + "average_running_requests"),
        gauge("pool_ready", _POOL + "ready_pods"),
        each("pool_queue_by_pod", _POOL + "per_pod_queue_size", by="model_server_pod|pod"),
        ratio("pool_saturation", _EXT + "flow_control_pool_saturation"),
        counter("arrivals", _ASK + "request", "inference_model_request"),
        counter("failed", _ASK + "request_error", "inference_model_request_error", by="error_code"),
        counter("prompt_tokens", Name(_ASK + "input_tokens", part="sum")),
        counter("generation_tokens", Name(_ASK + "output_tokens", part="sum")),
        histogram("e2e", _ASK + "request_duration_seconds", "inference_model_request_duration_seconds"),
        histogram("ttft", _ASK + "request_ttft_seconds"),
        histogram("tpot", _ASK + "request_tpot_seconds"),
    ),
    model_labels=("model_name",),
)

LITELLM = Dialect(
    engine="litellm",
    title="LiteLLM proxy",
    prefixes=("litellm_",),
    versions="1.110",
    fields=(
        gauge("running", "litellm_in_flight_requests"),
        counter("finished_total", "litellm_proxy_total_requests_metric"),
        counter("failed_total", "litellm_proxy_failed_requests_metric"),
        counter("prompt_tokens", "litellm_input_tokens_metric"),
        counter("generation_tokens", "litellm_output_tokens_metric"),
        histogram("ttft", "litellm_llm_api_time_to_first_token_metric"),
        histogram("e2e", "litellm_request_total_latency_metric"),
        histogram("queue", "litellm_request_queue_time_seconds"),
        level("process_start", "process_start_time_seconds"),
    ),
    model_labels=(),
    hints=("several workers without PROMETHEUS_MULTIPROC_DIR answer with a random worker's numbers",),
)
