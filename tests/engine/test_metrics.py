"""The page under vLLM's names, read back by the Prometheus client's own parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.config import EngineConfig, SloClass
from engine.core import EngineStats
from engine.metrics import Condition, Ended, EngineMetrics
from engine.process_facts import process_lines
from engine.request import FinishReason, Request, SamplingParams

CONFIG = EngineConfig(
    'm"1', kv_blocks=64, max_model_len=500, slo_classes={"default": SloClass("default"), "chat": SloClass("chat", 1.0)}
)
STATS = EngineStats(2, 1, 30, 0.25, 3, 100, 40, 60, 9, 1.5)
READY = Condition(True, False, 3)


def samples(metrics: EngineMetrics, stats: EngineStats = STATS) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.expose(stats, READY)):
        for sample in family.samples:
            labels = {k: v for k, v in sorted(sample.labels.items()) if k not in ("model_name", "engine")}
            found[sample.name + (str(labels) if labels else "")] = sample.value
    return found


def finished(tokens: int) -> Ended:
    request = Request("r", (1,) * 30, SamplingParams(max_tokens=40), arrival=10.0)
    request.scheduled_at, request.cached_tokens = 10.5, 16
    return Ended(request, FinishReason.LENGTH, 12.0, tokens, 11.0, 11.9, 1)


def test_every_family_of_the_dialect_is_there_before_any_traffic() -> None:
    page = EngineMetrics(CONFIG).expose(STATS, READY)
    names = {family.name for family in text_string_to_metric_families(page)}
    assert {
        *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        *("vllm:num_preemptions", "vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:prompt_tokens"),
        *("vllm:generation_tokens", "vllm:request_success", "vllm:time_to_first_token_seconds"),
        *("vllm:inter_token_latency_seconds", "vllm:request_time_per_output_token_seconds"),
        *("vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:cache_config_info"),
        *("opsconsole:slo_requests", "opsconsole:engine_ready", "opsconsole:engine_draining"),
    } <= names


def test_gauges_and_counters_say_what_the_engine_says() -> None:
    found = samples(EngineMetrics(CONFIG))
    assert found["vllm:num_requests_running"] == 2 and found["vllm:kv_cache_usage_perc"] == 0.25
    assert found["vllm:num_preemptions_total"] == 3 and found["vllm:prefix_cache_hits_total"] == 40
    assert found["vllm:prompt_tokens_by_source_total{'source': 'local_compute'}"] == 60
    assert found["opsconsole:streams_running"] == 3


def test_what_the_warm_up_did_is_not_traffic() -> None:
    metrics = EngineMetrics(CONFIG)
    metrics.begin(STATS)
    found = samples(metrics)
    assert found["vllm:prefix_cache_queries_total"] == 0 and found["opsconsole:engine_steps_total"] == 0
    assert found["vllm:num_requests_running"] == 2


def test_a_finished_sequence_fills_the_histograms() -> None:
    metrics = EngineMetrics(CONFIG)
    request = finished(10).request
    metrics.token(request, 11.0, None)
    metrics.token(request, 11.1, 11.0)
    metrics.ended(finished(10))
    found = samples(metrics)
    assert found["vllm:time_to_first_token_seconds_bucket{'le': '1.0'}"] == 1
    assert found["vllm:time_to_first_token_seconds_bucket{'le': '0.75'}"] == 0
    assert found["vllm:inter_token_latency_seconds_sum"] == pytest.approx(0.1)
    assert found["vllm:request_time_per_output_token_seconds_sum"] == pytest.approx(0.1)
    assert found["vllm:request_queue_time_seconds_sum"] == 0.5
    assert found["vllm:e2e_request_latency_seconds_count"] == 1
    assert found["vllm:prompt_tokens_total"] == 30 and found["vllm:generation_tokens_total"] == 2
    assert found["vllm:request_success_total{'finished_reason': 'length'}"] == 1


def test_one_token_has_no_time_per_token() -> None:
    metrics = EngineMetrics(CONFIG)
    metrics.ended(finished(1))
    assert samples(metrics)["vllm:request_time_per_output_token_seconds_count"] == 0


def test_outcomes_are_counted_by_class_and_a_rejection_is_a_miss() -> None:
    metrics = EngineMetrics(CONFIG)
    metrics.outcome("chat", True)
    metrics.reject("max_num_queued_reqs", "chat")
    found = samples(metrics)
    assert found["opsconsole:slo_requests_total{'outcome': 'met', 'slo_class': 'chat'}"] == 1
    assert found["opsconsole:slo_requests_total{'outcome': 'missed', 'slo_class': 'chat'}"] == 1
    assert found["vllm:admission_rejections_total{'reason': 'max_num_queued_reqs'}"] == 1


def test_the_process_is_told_by_the_kernel(tmp_path: Path) -> None:
    lines = process_lines()
    assert any(line.startswith("process_start_time_seconds ") for line in lines)
    assert process_lines(tmp_path) == []
