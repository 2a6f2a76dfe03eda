"""Whole runs over the stand-in, whose tokens depend on every slot they read: batches must not change answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config import QueueOrder
from engine.core import EngineCore
from engine.request import FinishReason, Request

BuildCore = Callable[..., EngineCore]
MakeRequest = Callable[..., Request]
Oracle = Callable[[Request], list[int]]


def finish(core: EngineCore) -> None:
    for _ in range(20_000):
        if not core.has_work:
            return
        core.step()
        core.check()
    raise AssertionError("the engine does not come to an end")


def output(request: Request) -> list[int]:
    return request.tokens[len(request.prompt) :]


@pytest.mark.parametrize("chunk", [1, 7, 16, 64, 512])
@pytest.mark.parametrize("seed", [None, 1])
def test_answers_do_not_depend_on_chunks_or_block_order(
    build: BuildCore, ask: MakeRequest, expected: Oracle, chunk: int, seed: int | None
) -> None:
    core = build(kv_blocks=40, seed=seed, chunk=chunk)
    requests = [ask(str(number), 5 + 9 * number, output=20, seed=number) for number in range(8)]
    for request in requests:
        core.add(request)
    finish(core)
    assert [output(request) for request in requests] == [expected(request) for request in requests]


def test_forks_of_one_prompt_hold_its_blocks_once_and_move_apart(
    build: BuildCore, ask: MakeRequest, expected: Oracle
) -> None:
    core = build(kv_blocks=40, chunk=512)
    parent = ask("p", 100, output=20, n=4, temperature=1.0)
    children = parent.children
    core.add(parent)
    core.step()
    assert core.stats().running == 4
    assert len({block for r in core.scheduler.running for block in core.scheduler.blocks.table(r.request_id)}) == 7
    finish(core)
    answers = [tuple(output(request)) for request in (parent, *children)]
    assert len(set(answers)) == 4
    alone = ask("alone", 100, output=20, temperature=1.0)
    other = build(kv_blocks=40, chunk=16)
    other.add(alone)
    finish(other)
    assert tuple(output(alone)) == answers[0], "the first of n is the one a single request would get"


def test_greedy_forks_are_equal_and_equal_to_one_alone(build: BuildCore, ask: MakeRequest, expected: Oracle) -> None:
    core = build(kv_blocks=40)
    parent = ask("p", 37, output=30, n=3)
    family = (parent, *parent.children)
    core.add(parent)
    finish(core)
    assert [output(request) for request in family] == [expected(parent)] * 3


def test_seeds_decide_and_the_batch_does_not(build: BuildCore, ask: MakeRequest) -> None:
    answers: list[list[int]] = []
    for crowd in (0, 5):
        core = build(kv_blocks=64)
        request = ask("a", 20, output=12, temperature=1.0, seed=0)
        core.add(request)
        for number in range(crowd):
            core.add(ask(f"x{number}", 30, output=12, temperature=1.0, seed=number + 1))
        finish(core)
        answers.append(output(request))
    assert answers[0] == answers[1]


def test_end_tokens_stop_unless_told_otherwise(build: BuildCore, ask: MakeRequest, expected: Oracle) -> None:
    probe = ask("probe", 20, output=8)
    third, fifth = expected(probe)[2], expected(probe)[4]
    core = build(eos_ids=frozenset({third}))
    requests = {
        "eos": ask("eos", 20, output=8),
        "ignored": ask("ignored", 20, output=8, ignore_eos=True),
        "stop id": ask("stop id", 20, output=8, ignore_eos=True, stop_token_ids=frozenset({fifth})),
        "minimum": ask("minimum", 20, output=8, min_tokens=4, stop_token_ids=frozenset({fifth})),
    }
    for request in requests.values():
        core.add(request)
    finish(core)
    assert {name: request.output_count for name, request in requests.items()} == {
        "eos": 3,
        "ignored": 8,
        "stop id": 5,
        "minimum": 5,
    }
    assert requests["eos"].finish is FinishReason.STOP and requests["eos"].stop_token is None
    assert requests["stop id"].stop_token == fifth and requests["ignored"].finish is FinishReason.LENGTH


def test_times_are_those_of_the_steps(build: BuildCore, ask: MakeRequest) -> None:
    core = build()
    request = ask("a", 20, output=5)
    core.add(request)
    finish(core)
    assert request.first_token_at is not None and request.last_token_at is not None
    assert request.tpot_s == pytest.approx((request.last_token_at - request.first_token_at) / 4)
    assert core.stats().busy_s == pytest.approx(request.last_token_at)


def test_what_can_never_run_is_refused_at_the_door(build: BuildCore, ask: MakeRequest) -> None:
    core = build(kv_blocks=8, max_model_len=100, max_seqs=4)
    with pytest.raises(ValueError, match="more than the context of 100"):
        core.add(ask("a", 90, output=11))
    with pytest.raises(ValueError, match="at most 4"):
        core.add(ask("b", 9, output=11, n=5))
    with pytest.raises(ValueError, match="prompt is empty"):
        Request("c", (), ask("d").params, 0.0)


def test_ending_a_parent_before_it_forks_ends_its_children(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=16)
    parent = ask("p", 60, n=3)
    children = parent.children
    core.add(parent)
    core.step()
    core.abort("p")
    core.check()
    assert not core.has_work and all(child.finish is FinishReason.ABORT for child in children)


def test_everything_ends_where_the_engine_fails(build: BuildCore, ask: MakeRequest) -> None:
    core = build(chunk=16)
    for name in "ab":
        core.add(ask(name, 60, n=2, seed=ord(name)))
    core.step()
    ended = core.abort_all(FinishReason.ERROR)
    core.check()
    assert {output.finish for output in ended} == {FinishReason.ERROR} and not core.has_work


@pytest.mark.parametrize("order", list(QueueOrder))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_traffic_leaves_the_books_right_and_the_answers_unchanged(
    build: BuildCore, ask: MakeRequest, expected: Oracle, order: QueueOrder, data: st.DataObject
) -> None:
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    blocks = draw.choice([8, 12, 40])
    core = build(
        kv_blocks=blocks,
        seed=draw.choice([None, 1]),
        order=order,
        chunk=draw.choice([1, 5, 16, 64]),
        prefix_cache=draw.random() < 0.7,
        long_prefill_threshold=draw.choice([0, 8]),
        max_seqs=draw.choice([3, 8]),
        max_model_len=100,
    )
    base = [draw.randrange(1000) for _ in range(60)]
    alive: dict[str, Request] = {}
    everyone: list[Request] = []
    for number in range(draw.randrange(1, 14)):
        prompt = base[: draw.randrange(0, 60)] + [draw.randrange(1000) for _ in range(draw.randrange(1, 10))]
        request = ask(
            str(number),
            tokens=prompt,
            output=draw.randrange(1, 30),
            n=draw.choice([1, 1, 3]),
            priority=draw.randrange(3),
            arrival=float(number),
        )
        everyone += [request, *request.children]
        core.add(request)
        alive[request.request_id] = request
        for _ in range(draw.randrange(0, 6)):
            core.step()
            core.check()
        if draw.random() < 0.2:
            victim = draw.choice(sorted(alive))
            core.abort(victim)
            core.check()
    finish(core)
    assert core.scheduler.blocks.free == blocks
    for request in everyone:
        if request.finish is FinishReason.LENGTH:
            assert output(request) == expected(request)
        else:
            assert output(request) == expected(request)[: request.output_count]
