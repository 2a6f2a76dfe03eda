"""An engine's own counters: rates, a silent cache, and pages without them."""

from __future__ import annotations

import pytest

from opsconsole.errors import UsageError
from opsconsole.lint.enginestats import read, report

PAGE = b"""# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 40000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 10000.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 20000.0
vllm:prompt_tokens_total{model_name="m"} 50000.0
vllm:request_prefill_time_seconds_sum{model_name="m"} 10.0
vllm:request_prefill_time_seconds_count{model_name="m"} 25.0
"""


def test_counters_of_all_labels_are_added_up() -> None:
    stats = read("http://e/metrics", PAGE)
    family, findings = report(stats, 16)
    assert (family.prompt_tokens, family.reused_tokens, family.requests) == (50000, 20000, 25)
    assert stats.tokens_per_second == 3000.0
    assert findings == []


def test_a_cache_that_never_hits_is_an_information_with_both_reasons() -> None:
    _, (found,) = report(read("http://e/metrics", PAGE.replace(b" 20000.0", b" 0.0")), 16)
    assert (found.code, found.severity.value) == ("PX501", "info")
    assert "shorter than one block" in found.message
    assert "or it is broken" in found.message


def test_a_page_without_the_counters_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no prefix-cache counters"):
        read("http://e/metrics", b"up 1\n")
