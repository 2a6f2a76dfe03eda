"""Label collapse, alternatives over versions, sentinels and hazards of every engine's table."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from opsconsole.domain.records import Buckets, RankLoad
from opsconsole.observe.dialects import DIALECTS
from opsconsole.observe.dialects.names import NameIndex, fold
from opsconsole.observe.dialects.normalise import new_memo, normalise, read
from opsconsole.observe.dialects.reading import Reading
from opsconsole.observe.dialects.table import Dialect, Name, histogram
from opsconsole.observe.exposition import SeriesMemo, scan

MEMO = new_memo()


def reading(text: str, at: float | None = None) -> Reading:
    return read(scan(text, MEMO), at)


def got(text: str, *names: str) -> dict[str, Any]:
    found = reading(text)
    return {name: found.values.get(name) for name in names}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            'vllm:num_requests_running{model_name="m",pid="11"} 5\n'
            'vllm:num_requests_running{model_name="m",pid="12"} 4\n',
            {"running": 5.0},
            id="copies by process are not added",
        ),
        pytest.param(
            'vllm:kv_cache_usage_perc{pid="1"} 0.5\nvllm:gpu_cache_usage_perc{pid="1"} 0.5\n',
            {"kv_usage": 0.5, "kv_usage_mean": 0.5},
            id="both spellings of KV at once are one fact",
        ),
        pytest.param(
            'vllm:num_requests_waiting{engine="0"} 3\nvllm_num_requests_waiting{engine="0"} 3\n',
            {"waiting": 3.0},
            id="a page with both separators is not counted twice",
        ),
        pytest.param(
            'vllm:prompt_tokens_total{model_name="base"} 10\nvllm:prompt_tokens_total{model_name="lora"} 5\n',
            {"prompt_tokens": 15.0},
            id="V0 names a LoRA as the model of a request",
        ),
        pytest.param(
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} NaN\n',
            {"running": None},
            id="one unknown rank makes the sum unknown",
        ),
        pytest.param("vllm:num_requests_running -1\n", {"running": None}, id="minus one is unknown"),
        pytest.param("vllm:kv_cache_usage_perc 87\n", {"kv_usage": None}, id="a share above one is unknown"),
        pytest.param(
            'sglang:num_running_reqs{priority="",tp_rank="0"} 9\nsglang:num_running_reqs{priority="1",tp_rank="0"} 4\n'
            'sglang:num_running_reqs{priority="None",tp_rank="0"} 5\n',
            {"running": 9.0},
            id="SGLang's empty priority is the total of the others",
        ),
        pytest.param(
            "sglang:num_queue_reqs 3\nsglang:num_grammar_queue_reqs 2\nsglang:num_prefill_bootstrap_queue_reqs 4\n",
            {"waiting": 9.0},
            id="SGLang's queues outside the main one are added",
        ),
        pytest.param(
            "sglang:num_queue_reqs 1\nsglang:num_decode_prealloc_queue_reqs 5\n"
            "sglang:num_decode_transfer_queue_reqs 2\n",
            {"waiting": 8.0},
            id="SGLang decode's queues are added",
        ),
        pytest.param(
            "sglang:num_grammar_queue_reqs 2\n", {"waiting": None}, id="a part without its main queue is unknown"
        ),
        pytest.param(
            'sglang:cached_tokens_total{cache_source="device"} 5\nsglang:cached_tokens_total{cache_source="host"} 2\n'
            "sglang:prompt_tokens_total 10\n",
            {"prefix_hits": 7.0, "prefix_queries": 10.0},
            id="SGLang's cache sources are added",
        ),
        pytest.param("sglang:lora_pool_slots_total 4\n", {"lora_slots": 4.0}, id="a gauge may end in _total"),
        pytest.param("sglang:fwd_occupancy 42\n", {"occupancy": 0.42}, id="percent becomes a share"),
        pytest.param(
            'nv_trt_llm_request_metrics{request_type="waiting"} 2\n'
            'nv_trt_llm_request_metrics{request_type="scheduled"} 7\n'
            'nv_trt_llm_request_metrics{request_type="max"} 500\nnv_trt_llm_request_metrics{request_type="active"} 6\n'
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.25\n'
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per"} 64\n',
            {"waiting": 2.0, "running": 7.0, "max_running": 500.0, "kv_usage": 0.25, "block_size": 64.0},
            id="Triton's selector labels are not summed",
        ),
        pytest.param(
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"} 30\n'
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 120\n',
            {"kv_usage": 0.25},
            id="old Triton builds tell used and max",
        ),
        pytest.param(
            'nv_inference_request_success{model="ensemble"} 10\n'
            'nv_inference_request_success{model="preprocessing"} 10\n'
            'nv_inference_request_success{model="tensorrt_llm"} 10\n',
            {"finished_total": 10.0},
            id="an ensemble counts a request once",
        ),
        pytest.param(
            "lmdeploy:num_requests_waiting 5\nlmdeploy:num_api_requests_waiting 50\n",
            {"waiting": 55.0},
            id="LMDeploy has two queues",
        ),
        pytest.param(
            "trtllm_num_requests_running 3\ntrtllm_kv_cache_utilization 0.5\n",
            {"running": 3.0, "kv_usage": 0.5},
            id="trtllm-serve 1.3",
        ),
        pytest.param(
            "num_requests_running 3\nnum_request_max 64\ngpu_cache_usage_perc 0.4\n"
            'request_finish_total{finished_reason="stop"} 8\n'
            "request_success_total 8\nrequest_failure_total 1\n",
            {"running": 3.0, "max_running": 64.0, "kv_usage": 0.4, "finished_total": 8.0, "failed_total": 1.0},
            id="NIM counts requests three ways and once for us",
        ),
        pytest.param(
            "dynamo_component_gpu_cache_usage_percent 0.6\ndynamo_component_inflight_requests 4\n",
            {"kv_usage": 0.6, "running": 4.0},
            id="a Dynamo worker",
        ),
        pytest.param(
            "llamacpp:prompt_tokens_total 30\nllamacpp:prompt_tokens_cached_total 70\n"
            "llamacpp:kv_cache_usage_ratio 0.2\n",
            {"prompt_tokens": 100.0, "prefix_hits": 70.0, "prefix_queries": 100.0, "kv_usage": 0.2},
            id="llama.cpp's prompt tokens leave cached ones out",
        ),
        pytest.param(
            "tgi_request_input_length_sum 500\ntgi_request_input_length_count 5\ntgi_request_generated_tokens_sum 70\n",
            {"prompt_tokens": 500.0, "generation_tokens": 70.0},
            id="TGI's tokens are sums of histograms",
        ),
        pytest.param(
            'inference_extension_flow_control_queue_size{model_name="a"} 3\n'
            "inference_pool_average_kv_cache_utilization 0.7\n"
            'inference_pool_per_pod_queue_size{model_server_pod="p1"} 4\n',
            {"waiting": 3.0, "pool_kv_usage": 0.7, "pool_queue_by_pod": {"p1": 4.0}},
            id="the gateway's own queue",
        ),
        pytest.param(
            'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1\n'
            'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1\n',
            {"block_size": 16.0, "num_blocks": 200.0, "kv_capacity_tokens": 3200.0},
            id="ranks add blocks and share the block size",
        ),
    ],
)
def test_many_series_become_one_value(text: str, expected: dict[str, Any]) -> None:
    assert got(text, *expected) == expected


@pytest.mark.parametrize(
    ("text", "engine", "wrapped"),
    [
        ("vllm:num_requests_running 1\n", "vllm", None),
        ("vllm_num_requests_running 1\n", "vllm", None),
        ("ray_vllm_num_requests_running 1\n", "vllm", "ray"),
        ("kserve_vllm:num_requests_running 1\n", "vllm", "kserve"),
        ("kserve_vllm_num_requests_running 1\n", "vllm", "kserve"),
        ("ray_sglang_num_running_reqs 1\n", "sglang", "ray"),
        ('vllm:num_requests_running{dynamo_component="backend"} 1\n'
        'dynamo_component_inflight_requests 2\n', "vllm", "dynamo"),
        ("dynamo_frontend_inflight_requests 2\n", "dynamo", None),
        ("vllm:num_requests_running 1\nopsconsole:engine_ready 1\n", "opsconsole", None),
        ("npu_cache_usage_perc 0.5\nnum_requests_running 1\n", "mindie", None),
        ("inference_pool_ready_pods 3\n", "epp", None),
        ("litellm_in_flight_requests 3\n", "litellm", None),
        ("node_cpu_seconds_total 3\n", None, None),
    ],
)  # fmt: skip
def test_the_engine_is_known_through_every_rewriting(text: str, engine: str | None, wrapped: str | None) -> None:
    found = reading(text)
    assert (found.engine, found.wrapped_by) == (engine, wrapped)


def test_a_wrapper_is_taken_off_once() -> None:
    assert fold("ray_vllm:num_requests_waiting") == "vllm_num_requests_waiting"
    assert fold("kserve_vllm:a:b") == "vllm_a:b"


def test_a_histogram_whose_name_ends_in_total_is_a_histogram() -> None:
    text = (
        'vllm:iteration_tokens_total_bucket{le="8"} 3\nvllm:iteration_tokens_total_bucket{le="+Inf"} 4\n'
        "vllm:iteration_tokens_total_sum 50\nvllm:iteration_tokens_total_count 4\n"
    )
    assert reading(text).buckets("iteration_tokens") == Buckets((8.0, math.inf), (3.0, 4.0), 50.0)


def test_created_series_are_not_read() -> None:
    assert reading("vllm:prompt_tokens_created 1.7e9\nvllm:num_requests_running 1\n").number("prompt_tokens") is None


def test_buckets_of_ranks_with_different_layouts_are_added_by_value_not_by_position() -> None:
    text = (
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="1"} 2\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="5.0"} 4\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf"} 5\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="1",le="0.5"} 1\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="1",le="1.0"} 3\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="1",le="+Inf"} 6\n'
    )
    assert reading(text).buckets("e2e") == Buckets((1.0, math.inf), (5.0, 11.0), None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            'vllm:e2e_request_latency_seconds_bucket{le="1"} 5\nvllm:e2e_request_latency_seconds_bucket{le="+Inf"} 4\n',
            "fall",
        ),
        ('vllm:e2e_request_latency_seconds_bucket{le="1"} 5\n', "neither"),
        ('vllm:e2e_request_latency_seconds_bucket{le="x"} 5\n', "readable"),
        (
            'vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 5\nvllm:e2e_request_latency_seconds_count 50\n',
            "its count is not",
        ),
    ],
)
def test_a_histogram_that_is_not_whole_is_unknown_and_says_why(text: str, why: str) -> None:
    found = reading(text)
    assert found.buckets("e2e") is None
    assert why in found.unknown["e2e"]


def test_a_damaged_line_makes_its_field_unknown_and_leaves_the_others() -> None:
    found = reading(
        'vllm:num_requests_waiting{engine="0"} 4\nvllm:num_requests_waiting{engine="1"} 7O\n'
        "vllm:num_requests_running 3\n"
    )
    assert (found.number("waiting"), found.number("running")) == (None, 3.0)
    assert "bad_lines" in found.flags
    assert "waiting" in found.unknown


def test_prefix_counters_in_blocks_become_tokens_by_the_help_text() -> None:
    text = (
        "# HELP vllm:gpu_prefix_cache_queries_total GPU prefix cache queries, in terms of number of queried blocks.\n"
        "vllm:gpu_prefix_cache_queries_total 100\nvllm:gpu_prefix_cache_hits_total 40\n"
        'vllm:cache_config_info{block_size="16"} 1\n'
    )
    assert got(text, "prefix_hits", "prefix_queries") == {"prefix_hits": 640.0, "prefix_queries": 1600.0}
    assert got(text.replace("blocks", "tokens"), "prefix_hits") == {"prefix_hits": 40.0}
    without = reading(text.rpartition("vllm:cache_config")[0])
    assert without.number("prefix_hits") is None and "prefix_in_blocks" in without.flags


def test_a_sleeping_engine_is_not_idle() -> None:
    text = 'vllm:engine_sleep_state{sleep_state="awake"} 0\nvllm:engine_sleep_state{sleep_state="discard_all"} 1\n'
    sample = normalise(scan(text, MEMO), 1.0, "r")
    assert sample.asleep is True
    assert "asleep" in sample.flags


def test_the_names_found_narrow_the_version() -> None:
    assert reading("vllm:kv_cache_usage_perc 0.1\nvllm:admission_rejections_total 0\n").versions == ">=0.32"
    assert reading("vllm:gpu_prefix_cache_hits_total 3\n").versions == "0.7.3..0.10.2"
    assert reading("vllm:num_requests_running 3\n").versions == ""


def test_gpu_facts_are_shown_beside_the_engine_with_blanks_left_out() -> None:
    text = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a"} 97\nDCGM_FI_DEV_GPU_UTIL{gpu="1",pod="b"} 4294967295\n'
        'DCGM_FI_DEV_FB_USED{gpu="0",pod="a"} 1024\nDCGM_FI_DEV_POWER_USAGE{gpu="0"} 9.223372036854776e+18\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 2147483632\nvllm:num_requests_running 1\n'
    )
    sample = normalise(scan(text, MEMO), 1.0, "r")
    assert sample.gpus == {"0/util": 0.97, "0/memory_used": 1024.0 * 2**20}
    assert sample.running == 1.0


def test_a_router_that_repeats_engines_numbers_is_flagged() -> None:
    assert "router_view" in reading('vllm:num_requests_running{server="http://a"} 1\n').flags


def test_the_embedded_engine_tells_exact_outcomes_and_its_state() -> None:
    text = (
        'opsconsole:slo_requests_total{model_name="m",engine="0",slo_class="chat",outcome="met"} 9\n'
        'opsconsole:slo_requests_total{model_name="m",engine="0",slo_class="chat",outcome="missed"} 1\n'
        "opsconsole:engine_ready 1\nopsconsole:engine_draining 0\nvllm:num_requests_running 2\n"
    )
    sample = normalise(scan(text, MEMO), 1.0, "r")
    assert sample.slo_outcomes == {"chat/met": 9.0, "chat/missed": 1.0}
    assert (sample.ready, sample.draining, sample.running) == (True, False, 2.0)


def test_aborts_and_errors_are_failures_of_a_sample() -> None:
    text = (
        'vllm:request_success_total{finished_reason="stop"} 9\nvllm:request_success_total{finished_reason="abort"} 2\n'
        'vllm:request_success_total{finished_reason="error"} 1\n'
    )
    sample = normalise(scan(text, MEMO), 1.0, "r")
    assert (sample.requests_finished, sample.requests_failed) == (12.0, 3.0)


def test_the_order_of_lines_changes_nothing() -> None:
    text = (
        "".join(
            f'vllm:time_to_first_token_seconds_bucket{{engine="{e}",le="{b}"}} {n}\n'
            for e in (0, 1)
            for n, b in enumerate(("0.1", "0.5", "1", "+Inf"))
        )
        + 'vllm:num_requests_waiting{engine="0"} 2\nvllm:num_requests_waiting{engine="1"} 5\n'
        "vllm:kv_cache_usage_perc 0.5\n"
    )
    lines = text.splitlines(keepends=True)
    chance = random.Random(7)
    first = normalise(scan(text, MEMO), 1.0, "r")
    for _ in range(20):
        chance.shuffle(lines)
        assert normalise(scan("".join(lines), MEMO), 1.0, "r") == first


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.engine)
def test_a_table_is_consistent(dialect: Any) -> None:
    for row in dialect.fields:
        assert row.names, row.name
        for name in (*row.names, *row.plus):
            assert ":" not in name.family and not name.family.endswith(("_bucket", "_created")), name
    assert dialect.prefixes or dialect.fingerprints or dialect.label_fingerprint


def test_hits_of_old_vllm_are_not_believed_once_it_preempted() -> None:
    old = "vllm:prefix_cache_hits_total 32\nvllm:prefix_cache_queries_total 100\nvllm:num_preemptions_total 5\n"
    found = reading(old)
    assert found.number("prefix_hits") is None and "prefix_hits_overcounted" in found.flags
    assert reading(old.replace("total 5", "total 0")).number("prefix_hits") == 32
    assert reading(old + "vllm:external_prefix_cache_queries_total 0\n").number("prefix_hits") == 32


def test_a_histogram_in_another_unit_becomes_seconds() -> None:
    table = Dialect("mine", "Mine", ("mine_",), (histogram("ttft", Name("mine_ttft_ms", scale=0.001)),))
    text = 'mine_ttft_ms_bucket{le="500"} 3\nmine_ttft_ms_bucket{le="+Inf"} 4\nmine_ttft_ms_sum 1000\n'
    found = read(scan(text, SeriesMemo(NameIndex((table,)))), None, (table,))
    assert found.buckets("ttft") == Buckets((0.5, math.inf), (3.0, 4.0), 1.0)


_TWO_RANKS = (
    'vllm:num_requests_running{engine="10",model_name="m"} 1\n'
    'vllm:num_requests_running{engine="9",model_name="m"} 3\n'
    'vllm:num_requests_waiting{engine="10",model_name="m"} 0\n'
    'vllm:num_requests_waiting{engine="9",model_name="m"} 2\n'
    'vllm:generation_tokens_total{engine="10",model_name="m"} 7\n'
    'vllm:generation_tokens_total{engine="9",model_name="m"} 40\n'
    'vllm:request_success_total{engine="9",finished_reason="stop",model_name="m"} 4\n'
    'vllm:request_success_total{engine="9",finished_reason="length",model_name="m"} 1\n'
    'vllm:request_success_total{engine="10",finished_reason="stop",model_name="m"} 2\n'
)


def test_ranks_are_told_apart_with_their_load_and_steps_and_added_for_the_replica() -> None:
    sample = normalise(scan(_TWO_RANKS, MEMO), 1.0, "r")
    assert sample.ranks == (RankLoad("9", 3.0, 2.0, 45.0), RankLoad("10", 1.0, 0.0, 9.0))
    assert (sample.running, sample.output_tokens, sample.requests_finished) == (4.0, 47.0, 7.0)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param(_TWO_RANKS.replace('"m"} 7\n', '"m"} NaN\n'), (45.0, None), id="NaN"),
        pytest.param(_TWO_RANKS + "vllm:generation_tokens_total{ 7\n", (None, None), id="damaged"),
        pytest.param("".join(_TWO_RANKS.splitlines(keepends=True)[:4]), (None, None), id="no counters"),
        pytest.param(
            _TWO_RANKS.replace('engine="9"', 'engine="9",pid="1"')
            + 'vllm:generation_tokens_total{engine="9",model_name="m",pid="2"} 39\n',
            (45.0, 9.0),
            id="copies are not added",
        ),
    ],
)
def test_the_steps_of_a_rank_are_whole_or_unknown(text: str, steps: tuple[float | None, ...]) -> None:
    assert tuple(rank.steps for rank in normalise(scan(text, MEMO), 1.0, "r").ranks) == steps


def test_one_rank_and_series_without_a_rank_are_no_ranks() -> None:
    for text in (_TWO_RANKS.replace('"10"', '"9"'), _TWO_RANKS.replace('engine="10"', 'engine=""')):
        assert normalise(scan(text, MEMO), 1.0, "r").ranks == ()


def test_ranks_of_sglang_are_those_of_dp_rank_and_not_of_its_tensor_parallel_copies() -> None:
    lines = [
        f'sglang:{family}{{dp_rank="{dp}",tp_rank="{tp}",model_name="m"{extra}}} {value}\n'
        for dp, values in enumerate(((4, 100), (2, 50)))
        for tp in (0, 1)
        for family, extra, value in (
            ("num_running_reqs", "", values[0]),
            ("num_queue_reqs", "", 0),
            ("realtime_tokens_total", ',mode="decode"', values[1]),
        )
    ]
    found = normalise(scan("".join(lines), MEMO), 1.0, "r").ranks
    assert found == (RankLoad("0", 4.0, 0.0, 100.0), RankLoad("1", 2.0, 0.0, 50.0))
