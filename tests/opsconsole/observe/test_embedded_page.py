"""The embedded engine's own page, read by the tables: what it exposes and what we read must not drift apart."""

from __future__ import annotations

from engine.config import EngineConfig, SloClass
from engine.core import EngineStats
from engine.metrics import Condition, EngineMetrics
from opsconsole.observe.dialects.normalise import new_memo, normalise, read
from opsconsole.observe.exposition import scan

CONFIG = EngineConfig('m"1', kv_blocks=64, max_model_len=500, slo_classes={"default": SloClass("default")})
STATS = EngineStats(2, 1, 30, 0.25, 3, 100, 40, 60, 9, 1.5)


def test_the_embedded_engine_is_read_whole() -> None:
    metrics = EngineMetrics(CONFIG)
    metrics.outcome("default", True)
    page = scan(metrics.expose(STATS, Condition(True, False, 3)), new_memo())
    sample = normalise(page, 1.0, "worker-0")
    assert (sample.engine, sample.model) == ("opsconsole", 'm"1')
    assert (sample.running, sample.waiting, sample.kv_usage, sample.preemptions) == (2, 1, 0.25, 3)
    assert (sample.prompt_tokens_computed, sample.prefix_hits) == (60, 40)
    assert (sample.ready, sample.draining) == (True, False)
    assert sample.slo_outcomes == {"default/met": 1.0, "default/missed": 0.0}
    assert sample.kv_capacity_tokens == 64 * CONFIG.block_size
    assert sample.ttft is not None and sample.tpot is not None and sample.e2e is not None
    assert sample.flags == () and page.bad == []
    missing = {"ttft", "tpot", "itl", "e2e", "queue", "prefill", "decode", "finished", "streams"} - read(
        page
    ).values.keys()
    assert missing == set()
