"""Whose prompt comes next where bounds are at stake, and that nobody starves."""

from __future__ import annotations

from collections.abc import Callable

from engine.block_manager import Match
from engine.config import EngineConfig, SloClass
from engine.core import EngineCore
from engine.line import Line
from engine.queue import FcfsQueue
from engine.request import Request, SamplingParams
from engine.step_time import StepTimeModel

MODEL = StepTimeModel(
    fixed_s=0.02, per_decode_s=0.001, per_context_token_s=0.0, per_prefill_token_s=0.0005, per_attention_pair_s=0.0
)
CONFIG = EngineConfig("m", kv_blocks=400, max_model_len=4000)
SLO = SloClass("default", ttft_s=1.0, tpot_s=0.08)


class NoCache:
    def match(self, request: Request) -> Match:
        return Match((), 0, 0)


def request(name: str, arrival: float, slo: SloClass = SLO, length: int = 100) -> Request:
    return Request(name, (1,) * length, SamplingParams(max_tokens=50, temperature=0.0), arrival, slo=slo)


def queue_of(*requests: Request) -> FcfsQueue:
    queue = FcfsQueue()
    for each in requests:
        queue.push(each)
    return queue


def line_at(now: float) -> Line:
    line = Line(CONFIG)
    line.begin(now, MODEL)
    return line


def test_those_already_late_step_back_for_those_that_can_be_on_time() -> None:
    queue = queue_of(request("late", 0.0), request("soon", 9.5), request("later", 9.9))
    chosen = line_at(10.0).next_to_admit(queue, NoCache())
    assert chosen is not None and chosen.request_id == "soon"


def test_a_prompt_too_long_for_its_bound_steps_back_from_the_start() -> None:
    queue = queue_of(request("long", 10.0, length=3000), request("short", 10.0))
    chosen = line_at(10.0).next_to_admit(queue, NoCache())
    assert chosen is not None and chosen.request_id == "short"


def test_where_none_can_be_on_time_the_head_is_next() -> None:
    queue = queue_of(request("a", 0.0), request("b", 1.0))
    chosen = line_at(10.0).next_to_admit(queue, NoCache())
    assert chosen is not None and chosen.request_id == "a"
    assert line_at(10.0).next_to_admit(queue_of(), NoCache()) is None


def test_one_admission_in_five_goes_to_the_head() -> None:
    queue = queue_of(request("late", 0.0), *(request(str(number), 9.9) for number in range(9)))
    line = line_at(10.0)
    order: list[str] = []
    for _ in range(6):
        chosen = line.next_to_admit(queue, NoCache())
        assert chosen is not None
        order.append(chosen.request_id)
        line.admitted(chosen, queue)
    assert order == ["0", "1", "2", "3", "late", "4"]


def test_without_a_step_time_model_the_line_is_the_queue() -> None:
    line = Line(CONFIG)
    line.begin(10.0, None)
    queue = queue_of(request("late", 0.0), request("soon", 9.9))
    chosen = line.next_to_admit(queue, NoCache())
    assert chosen is not None and chosen.request_id == "late"
    assert line.allowance([request("d", 0.0)], [], queue, NoCache()) == CONFIG.chunk


def test_partly_computed_prompts_that_can_be_on_time_go_first() -> None:
    late, soon = request("late", 0.0), request("soon", 9.9)
    assert line_at(10.0).in_order([late, soon]) == [soon, late]
    assert line_at(10.0).in_order([late]) == [late]


def test_the_cap_leaves_no_step_in_nine_without_prefill() -> None:
    crowd = [request(str(number), 0.0) for number in range(56)]
    for each in crowd:
        each.tokens.append(1)
        each.computed, each.first_token_at = len(each.prompt), 10.0
    line = line_at(10.0)
    allowed = [line.allowance(crowd, [], queue_of(request("w", 10.0)), NoCache()) for _ in range(18)]
    assert allowed == [*[0] * 8, CONFIG.min_chunk] * 2


def test_under_overload_some_are_on_time_and_all_are_served(build: Callable[..., EngineCore]) -> None:
    core = build(kv_blocks=600, max_model_len=2000, chunk=512)
    requests = [
        Request(
            f"{number}",
            tuple(range(number, number + 400)),
            SamplingParams(max_tokens=30, temperature=0.0),
            0.0,
            slo=SLO,
        )
        for number in range(60)
    ]
    for each in requests:
        core.add(each)
    while core.has_work:
        core.step()
    met = sum(SLO.is_met(each.first_token_at, each.tpot_s) for each in requests)
    assert met >= 3 and all(each.finish is not None for each in requests)
