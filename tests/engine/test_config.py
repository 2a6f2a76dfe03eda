"""Sizes that make sense, and service classes as people write them."""

from __future__ import annotations

import pytest

from engine.config import EngineConfig, SloClass, parse_slo


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("chat:ttft=1s,tpot=80ms", SloClass("chat", 1.0, 0.08)),
        ("ttft=1.5s", SloClass("default", 1.5, None)),
        ("default:tpot=250ms,target=95%", SloClass("default", None, 0.25)),
    ],
)
def test_a_class_is_read(text: str, slo: SloClass) -> None:
    assert parse_slo(text) == slo


@pytest.mark.parametrize("text", ["chat:ttft=1", "chat:latency=1s", "chat", "a b:ttft=1s", "ttft=-1s"])
def test_a_class_that_says_nothing_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"ttft=1s,tpot=80ms|service class"):
        parse_slo(text)


@pytest.mark.parametrize(
    ("ttft", "tpot", "met"),
    [(0.9, 0.07, True), (1.1, 0.07, False), (0.9, 0.09, False), (0.9, None, True), (None, 0.07, False)],
)
def test_an_slo_is_met_jointly(ttft: float | None, tpot: float | None, met: bool) -> None:
    assert SloClass("c", 1.0, 0.08).is_met(ttft, tpot) is met


def test_bounds_that_are_not_set_do_not_bind() -> None:
    assert SloClass("c").is_met(None, 99.0)


def test_sizes_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="less than one sequence"):
        EngineConfig("m", kv_blocks=2, max_model_len=100)
    with pytest.raises(ValueError, match="chunk is 0"):
        EngineConfig("m", kv_blocks=20, max_model_len=100, chunk=0)
    with pytest.raises(ValueError, match="watermark"):
        EngineConfig("m", kv_blocks=20, max_model_len=100, watermark=1.0)
