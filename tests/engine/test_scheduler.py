"""The plan of each step: budget, order, chunks, admission, preemption."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.config import QueueOrder
from engine.core import EngineCore
from engine.plan import BatchPlan
from engine.request import FinishReason, Request

BuildCore = Callable[..., EngineCore]
MakeRequest = Callable[..., Request]


def plan_of(core: EngineCore) -> dict[str, int]:
    """Tokens per request of the next step, which then runs."""
    seen: list[BatchPlan] = []
    runner = core._runner

    class Spy:
        def run(self, plan: BatchPlan) -> object:
            seen.append(plan)
            return runner.run(plan)

    core._runner = Spy()
    core.step()
    core._runner = runner
    core.check()
    return {item.request_id: len(item.tokens) for plan in seen for item in plan.items}


def test_decodes_take_one_token_each_and_the_prompt_gets_the_rest(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=64)
    for name in "AB":
        core.add(ask(name, 10, output=50, seed=ord(name)))
    core.step()
    core.add(ask("C", 200))
    steps = [plan_of(core) for _ in range(4)]
    assert steps == [{"A": 1, "B": 1, "C": 62}] * 3 + [{"A": 1, "B": 1, "C": 14}]
    assert plan_of(core) == {"A": 1, "B": 1, "C": 1}


def test_a_long_prefill_threshold_limits_each_prompt(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=64, long_prefill_threshold=32)
    for name in "AB":
        core.add(ask(name, 10, output=50, seed=ord(name)))
    core.step()
    core.add(ask("C", 200))
    assert plan_of(core) == {"A": 1, "B": 1, "C": 32}
    core.add(ask("D", 100, seed=9))
    assert plan_of(core) == {"A": 1, "B": 1, "C": 32, "D": 30}


def test_the_threshold_is_lifted_for_a_request_alone(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=64, long_prefill_threshold=16)
    core.add(ask("C", 200))
    assert plan_of(core) == {"C": 64}


def test_new_requests_join_between_steps_and_the_finished_leave(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=64)
    short, long = ask("short", 8, output=4, seed=1), ask("long", 8, output=64, seed=2)
    core.add(short)
    core.add(long)
    finished: dict[str, int] = {}
    for iteration in range(1, 100):
        if iteration == 5:
            core.add(ask("third", 8, output=3, seed=3))
        for output in core.step():
            if output.finish is not None:
                finished[output.request.request_id] = iteration
        core.check()
    assert finished == {"short": 4, "third": 7, "long": 64}


def test_a_decode_is_never_skipped_while_a_long_prompt_is_computed(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=32)
    core.add(ask("A", 8, output=60))
    core.step()
    core.add(ask("B", 400))
    for _ in range(20):
        assert plan_of(core)["A"] == 1


def test_partly_computed_prompts_come_before_new_ones(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=32)
    core.add(ask("first", 40, seed=1))
    core.add(ask("second", 40, seed=2))
    assert plan_of(core) == {"first": 32}
    assert plan_of(core) == {"first": 8, "second": 24}


def test_no_more_sequences_run_than_seats(build: BuildCore, ask: MakeRequest) -> None:
    core = build(max_seqs=2)
    for number in range(4):
        core.add(ask(str(number), 8, seed=number))
    core.step()
    assert core.stats().running == 2 and core.stats().waiting == 2


def test_forks_count_as_seats_before_they_exist(build: BuildCore, ask: MakeRequest) -> None:
    core = build(max_seqs=4)
    core.add(ask("family", 70, n=3))
    core.add(ask("pair", 8, n=2, seed=1))
    core.add(ask("single", 8, seed=2))
    core.step()
    assert [request.request_id for request in core.scheduler.running] == ["family"], "in order: the pair waits, and all"


def test_the_oldest_is_never_preempted_and_victims_come_back_first(
    build: BuildCore, ask: MakeRequest, expected: Callable[[Request], list[int]]
) -> None:
    core = build(kv_blocks=12, chunk=64, max_model_len=150)
    requests = [ask(name, 30, output=100, seed=ord(name)) for name in "ABC"]
    for request in requests:
        core.add(request)
    preempted: list[str] = []
    while core.has_work:
        before = {request.request_id: request.preemptions for request in requests}
        core.step()
        core.check()
        now = [request for request in requests if request.preemptions > before[request.request_id]]
        preempted += [request.request_id for request in now]
        if now:
            assert core.scheduler.waiting.peek() is now[-1], "a victim waits at the front"
    assert preempted and "A" not in preempted
    assert core.stats().preemptions == len(preempted) == sum(request.preemptions for request in requests)
    assert max(request.preemptions for request in requests) <= 8, "no livelock"
    for request in requests:
        assert request.tokens[len(request.prompt) :] == expected(request)


def test_no_request_is_admitted_in_a_step_that_preempted(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=8, chunk=64, max_model_len=128)
    core.add(ask("A", 47, output=60, seed=1))
    core.add(ask("B", 47, output=60, seed=2))
    core.step()
    core.add(ask("C", 4, output=4, seed=3))
    seen = 0
    while core.has_work:
        before, running = core.stats().preemptions, {r.request_id for r in core.scheduler.running}
        core.step()
        if core.stats().preemptions > before:
            seen += 1
            assert {r.request_id for r in core.scheduler.running} <= running
    assert seen > 0


def test_nobody_is_admitted_to_be_preempted_at_once(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=16, chunk=64, max_model_len=200)
    for number in range(12):
        core.add(ask(str(number), 20 + 5 * number, output=60, seed=number))
    admitted: dict[str, int] = {}
    step = 0
    while core.has_work:
        step += 1
        before = {r.request_id: r.preemptions for r in core.scheduler.running}
        core.step()
        for request in core.scheduler.running:
            if request.request_id not in before:
                admitted[request.request_id] = step
        for request in core.scheduler.waiting:
            if request.preemptions > before.get(request.request_id, request.preemptions):
                assert step - admitted[request.request_id] > 1, f"{request.request_id} was in for one step only"
    assert core.stats().preemptions > 0


def test_a_watermark_leaves_blocks_free_at_admission(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=40, chunk=512, watermark=0.5)
    for number in range(8):
        core.add(ask(str(number), 60, output=4, seed=number))
    core.step()
    assert core.scheduler.blocks.free >= 20


def test_priority_decides_who_enters_and_who_goes(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=8, chunk=64, order=QueueOrder.PRIORITY, max_model_len=128)
    core.add(ask("low", 30, output=70, priority=5, seed=1))
    core.add(ask("high", 30, output=70, priority=-5, arrival=1.0, seed=2))
    core.step()
    assert [request.request_id for request in core.scheduler.running] == ["high", "low"]
    victims: dict[str, int] = {}
    while core.has_work:
        core.step()
        core.check()
        victims |= {r.request_id: r.preemptions for r in core.scheduler.waiting if r.preemptions}
    assert set(victims) == {"low"}


def test_the_least_important_leaves_even_where_it_is_first_in_line(
    build: BuildCore, ask: MakeRequest, expected: Callable[[Request], list[int]]
) -> None:
    core = build(kv_blocks=8, chunk=64, order=QueueOrder.PRIORITY, max_model_len=128)
    low, high = ask("low", 30, output=70, priority=5, seed=1), ask("high", 30, output=70, priority=-5, seed=2)
    core.add(low)
    core.step()
    core.add(high)
    while core.has_work:
        core.step()
        core.check()
    assert high.preemptions == 0 and low.preemptions > 0
    assert low.tokens[30:] == expected(low) and high.tokens[30:] == expected(high)


def test_ending_a_request_frees_its_blocks_wherever_it_is(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=8, chunk=16, max_model_len=100)
    running, waiting = ask("running", 60), ask("waiting", 60, seed=1)
    core.add(running)
    core.add(waiting)
    core.step()
    assert core.abort("waiting") is waiting and core.abort("running") is running
    assert core.abort("running") is None
    core.check()
    assert not core.has_work and core.stats().kv_usage == 0.0
    assert running.finish is FinishReason.ABORT


def test_an_empty_engine_plans_nothing(build: BuildCore) -> None:
    core = build()
    assert core.step() == [] and core.stats().steps == 0


@pytest.mark.parametrize("caching", [True, False])
def test_a_second_request_computes_only_what_the_first_did_not(
    build: BuildCore, ask: MakeRequest, caching: bool
) -> None:
    core = build(chunk=512, prefix_cache=caching)
    shared = list(range(100))
    core.add(ask("first", tokens=[*shared, 1, 2, 3], output=2))
    while core.has_work:
        core.step()
    second = ask("second", tokens=[*shared, 7, 8, 9], output=2)
    core.add(second)
    assert plan_of(core) == {"second": 103 - (96 if caching else 0)}
    assert second.cached_tokens == (96 if caching else 0)
    assert core.stats().cache_hits == (96 if caching else 0)
    assert core.stats().cache_queries == (206 if caching else 0)
