"""Prefill beside running decodes: what the TPOT bound leaves, and when a late first token may borrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.chunk_cap import Pending, can_be_on_time, decode_shape, prefill_allowance
from engine.config import SloClass
from engine.core import EngineCore
from engine.request import Request, SamplingParams
from engine.step_time import StepTimeModel

MODEL = StepTimeModel(
    fixed_s=0.02, per_decode_s=0.001, per_context_token_s=0.0, per_prefill_token_s=0.0005, per_attention_pair_s=0.0
)
SLO = SloClass("default", ttft_s=1.0, tpot_s=0.08)


def decoding(first_at: float, output: int, *, most: int = 64, slo: SloClass = SLO) -> Request:
    request = Request("d", (1,) * 10, SamplingParams(max_tokens=most), 0.0, slo=slo)
    request.tokens += [1] * output
    request.computed = len(request.tokens) - 1
    request.first_token_at = first_at
    return request


def waiting(length: int, arrival: float = 0.0) -> Pending:
    return Pending(Request("w", (1,) * length, SamplingParams(max_tokens=8), arrival, slo=SLO), 0)


def test_without_decodes_or_bounds_nothing_limits() -> None:
    assert prefill_allowance(0.0, [], [waiting(100)], MODEL) is None
    unbound = decoding(0.0, 1, slo=SloClass("default"))
    assert prefill_allowance(0.0, [unbound], [waiting(100)], MODEL) is None
    assert prefill_allowance(0.0, [decoding(0.0, 1)], [], MODEL) is None


def test_a_fresh_stream_leaves_its_bound_less_the_margin() -> None:
    request = decoding(first_at=10.0, output=1)
    # 0.95 x 80 ms for the step, less 21 ms for the decode itself, at 0.5 ms a token.
    assert prefill_allowance(10.0, [request], [waiting(400, arrival=10.0)], MODEL) == 110


def test_time_saved_by_fast_steps_can_be_spent() -> None:
    request = decoding(first_at=10.0, output=5)  # its fifth interval ends by 10 + 5 x 76 ms; (180 - 21) / 0.5
    assert prefill_allowance(10.2, [request], [waiting(400, arrival=10.0)], MODEL) == 318


def test_banked_time_never_becomes_one_long_stall() -> None:
    request = decoding(first_at=0.0, output=60, most=64)
    allowance = prefill_allowance(0.1, [request], [waiting(4000)], MODEL)
    assert allowance == int((4.0 * 0.08 - 0.021) / 0.0005)


def test_a_stream_that_cannot_be_saved_holds_nobody_back() -> None:
    lost = decoding(first_at=0.0, output=10, most=11)
    assert prefill_allowance(9.0, [lost], [waiting(400, arrival=9.0)], MODEL) is None
    fresh = decoding(first_at=9.0, output=1)
    # Its decode still costs its millisecond.
    assert prefill_allowance(9.0, [lost, fresh], [waiting(400, arrival=9.0)], MODEL) == 108


def test_a_stream_behind_its_pace_that_can_catch_up_gets_decodes_only() -> None:
    late = decoding(first_at=0.0, output=10, most=64)
    assert prefill_allowance(0.8, [late], [waiting(400, arrival=0.8)], MODEL) == 0


def test_a_first_token_about_to_be_late_borrows_from_what_streams_will_save() -> None:
    request = decoding(first_at=10.0, output=1)
    calm = prefill_allowance(10.0, [request], [waiting(400, arrival=10.0)], MODEL)
    urgent = prefill_allowance(10.0, [request], [waiting(400, arrival=9.2)], MODEL)
    assert calm is not None and urgent is not None and urgent > 2 * calm


def test_a_first_token_that_is_late_already_borrows_nothing() -> None:
    request = decoding(first_at=10.0, output=1)
    calm = prefill_allowance(10.0, [request], [waiting(400, arrival=10.0)], MODEL)
    assert prefill_allowance(10.0, [request], [waiting(400, arrival=2.0)], MODEL) == calm


def test_one_stream_too_many_is_not_let_in_while_its_first_token_has_slack() -> None:
    # 56 streams decode in 76 ms: the next one would make every coming step too slow.
    crowd = [decoding(first_at=10.0, output=1) for _ in range(56)]
    assert prefill_allowance(10.0, crowd, [waiting(30, arrival=10.0)], MODEL) == 0


def test_a_first_token_can_be_on_time_while_its_own_prefill_still_fits() -> None:
    pending = waiting(1000, arrival=5.0)  # 20 ms and 1000 x 0.5 ms
    assert can_be_on_time(pending, 5.47, MODEL)
    assert not can_be_on_time(pending, 5.49, MODEL)
    assert can_be_on_time(Pending(pending.request, 900), 5.9, MODEL), "what is cached is no work"
    done = decoding(first_at=0.9, output=3)
    assert can_be_on_time(Pending(done, 0), 99.0, MODEL), "preempted after a first token in time"
    unbound = Request("u", (1,) * 9000, SamplingParams(max_tokens=8), 0.0)
    assert can_be_on_time(Pending(unbound, 0), 99.0, MODEL)


def test_what_is_cached_is_no_work() -> None:
    request = decoding(first_at=10.0, output=1)
    pending = waiting(1600, arrival=9.4)
    cached = Pending(pending.request, 1500)
    assert prefill_allowance(10.0, [request], [cached], MODEL) == prefill_allowance(
        10.0, [request], [waiting(100, arrival=10.0)], MODEL
    )


def test_the_decode_shape_counts_contexts() -> None:
    assert decode_shape([decoding(0.0, 3), decoding(0.0, 5)]).context == 28


@pytest.mark.parametrize(("capped", "met"), [(True, True), (False, False)])
def test_the_cap_keeps_a_stream_within_its_bound_beside_a_long_prompt(
    build: Callable[..., EngineCore], capped: bool, met: bool
) -> None:
    core = build(kv_blocks=300, max_model_len=4000, chunk=512, cap_chunks=capped)
    slo = SloClass("default", ttft_s=30.0, tpot_s=0.08)
    stream = Request("s", (1,) * 20, SamplingParams(max_tokens=20, temperature=0.0), 0.0, slo=slo)
    core.add(stream)
    core.step()
    long = Request("l", tuple(range(2, 1900)), SamplingParams(max_tokens=4, temperature=0.0), 0.0, slo=slo)
    core.add(long)
    while core.has_work:
        core.step()
    assert stream.tpot_s is not None and slo.is_met(0.0, stream.tpot_s) is met
    assert long.finish is not None
