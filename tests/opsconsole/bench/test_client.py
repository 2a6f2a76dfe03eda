"""One request against a scripted server: every measurement bug known from other tools is a test here.

Times are real and loopback; bounds are wide enough for a busy machine. Trap: only ever assert lower bounds tightly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from opsconsole.bench.client import Ending, Record, Target, ask_once
from opsconsole.bench.openloop import open_session
from opsconsole.bench.workload import Ask
from opsconsole.clock import SystemClock
from tests.opsconsole.bench.scripted_server import DONE, Step, delta, event, scripted, text, usage

CLOCK = SystemClock()


async def measure(
    steps: Sequence[Step], *, status: int = 200, chat: bool = False, late: float = 0.0, timeout: float = 5.0
) -> Record:
    """One request; `late` is how long ago it should have been sent."""
    async with scripted(lambda index: (status, steps)) as server, open_session() as session:
        target = Target(server.url, model="m", chat=chat, timeout=timeout)
        start = CLOCK.monotonic() - late
        body = target.body(Ask("hello", 8))
        return await ask_once(session, target, body, index=0, start=start, intended=0.0, clock=CLOCK)


async def test_a_role_only_chunk_is_not_the_first_token() -> None:
    record = await measure(
        [delta({"role": "assistant"}), 0.08, delta({"content": "a"}), delta({}, "stop"), usage(1), DONE], chat=True
    )
    assert record.ttft is not None and record.ttft >= 0.08
    assert record.chunks == 1


@pytest.mark.parametrize("part", ["reasoning", "reasoning_content", "tool_calls"])
async def test_reasoning_and_tool_calls_count_as_first_content(part: str) -> None:
    record = await measure([delta({part: ["x"]}), 0.15, delta({"content": "a"}, "stop"), usage(2), DONE], chat=True)
    assert record.ttft is not None and record.tpot is not None
    assert record.tpot >= 0.1
    assert record.ttft < 0.1


async def test_the_trailing_usage_chunk_moves_no_time() -> None:
    record = await measure([text("a"), 0.05, text("b", "length"), 0.15, usage(2), 0.05, DONE])
    assert record.e2e is not None and record.tpot is not None
    assert record.tpot < 0.15
    assert record.e2e < 0.2


async def test_tokens_are_counted_by_usage_and_not_by_chunk() -> None:
    record = await measure([text("a b c d"), 0.06, text("e f g h", "length"), usage(13), DONE])
    assert record.output_tokens == 13
    assert record.tpot is not None and record.tpot == pytest.approx(record.gaps[0] / 12)
    assert record.itl == pytest.approx(record.gaps[0] / 6.5)


async def test_chunks_glued_by_a_buffer_still_count_one_by_one() -> None:
    record = await measure([text("a") + text("b") + text("c", "length") + usage(3) + DONE])
    assert record.chunks == 3
    assert len(record.gaps) == 2


async def test_gaps_do_not_contain_the_time_to_the_first_token() -> None:
    record = await measure([0.15, text("a"), text("b"), text("c", "length"), usage(3), DONE])
    assert record.ttft is not None and record.ttft >= 0.15
    assert len(record.gaps) == 2 and max(record.gaps) < 0.15


async def test_tpot_leaves_the_first_token_out() -> None:
    record = await measure([0.2, text("a"), 0.05, text("b"), 0.05, text("c", "length"), usage(3), DONE])
    assert record.tpot is not None and 0.05 <= record.tpot < 0.1


async def test_waiting_in_the_client_counts_from_the_intended_send() -> None:
    record = await measure([text("a", "length"), usage(1), DONE], late=0.5)
    assert record.ttft is not None and record.ttft >= 0.5
    assert record.sent >= 0.5


async def test_a_stream_cut_after_its_beginning_is_a_failure_and_not_a_short_answer() -> None:
    record = await measure([text("a"), 0.01, text("b"), 0.01, None])
    assert record.ending is Ending.CUT
    assert not record.is_success


async def test_a_stream_that_just_ends_without_an_end_was_cut() -> None:
    record = await measure([text("a"), text("b")])
    assert record.ending is Ending.CUT


async def test_an_error_event_in_a_stream_is_a_failure_and_is_told() -> None:
    record = await measure([text("a"), event({"error": {"message": "worker w1 was lost"}})])
    assert record.ending is Ending.CUT
    assert record.error == "worker w1 was lost"


async def test_an_error_event_is_a_failure_even_before_done() -> None:
    record = await measure([event({"error": {"message": "boom"}}), DONE])
    assert record.ending is Ending.ERROR


async def test_a_refusal_is_told_with_its_status_and_not_tried_again() -> None:
    asked = 0

    def script(index: int) -> tuple[int, Sequence[Step]]:
        nonlocal asked
        asked += 1
        return 503, [b'{"error": {"message": "queue is full"}}']

    async with scripted(script) as server, open_session() as session:
        target = Target(server.url)
        record = await ask_once(
            session, target, target.body(Ask("x", 1)), index=0, start=CLOCK.monotonic(), intended=0.0, clock=CLOCK
        )
    assert (record.ending, record.status, record.error, asked) == (Ending.REFUSED, 503, "queue is full", 1)


async def test_nobody_listening_is_a_refusal() -> None:
    async with open_session() as session:
        target = Target("http://127.0.0.1:9")
        record = await ask_once(session, target, b"{}", index=0, start=CLOCK.monotonic(), intended=0.0, clock=CLOCK)
    assert record.ending is Ending.REFUSED and record.status is None and record.error


async def test_an_answer_of_no_tokens_is_no_success() -> None:
    record = await measure([text("", "stop"), usage(0), DONE])
    assert record.ending is Ending.ERROR


async def test_runs_of_spaces_are_not_retokenised() -> None:
    record = await measure([text("    "), text("        ", "length"), usage(7), DONE])
    assert record.output_tokens == 7


async def test_one_token_has_no_tpot() -> None:
    record = await measure([text("a", "length"), usage(1), DONE])
    assert record.is_success
    assert record.tpot is None


async def test_an_unknown_count_of_tokens_has_no_tpot() -> None:
    record = await measure([text("a"), text("b", "length"), DONE])
    assert record.is_success
    assert record.output_tokens is None and record.tpot is None


async def test_a_request_that_is_not_finished_in_time_is_a_timeout() -> None:
    record = await measure([text("a"), 2.0, text("b", "length"), DONE], timeout=0.2)
    assert record.ending is Ending.TIMEOUT


async def test_cached_tokens_and_the_worker_are_read() -> None:
    record = await measure([text("a", "length"), usage(1, prompt=64, cached=48), DONE])
    assert (record.prompt_tokens, record.cached_tokens, record.request_id) == (64, 48, "r1")


async def test_the_body_asks_for_usage_and_full_length_answers() -> None:
    async with (
        scripted(lambda index: (200, [text("a", "length"), usage(1), DONE])) as server,
        open_session() as session,
    ):
        target = Target(server.url, model="m")
        body = target.body(Ask((7, 8, 9), 3))
        await ask_once(session, target, body, index=0, start=CLOCK.monotonic(), intended=0.0, clock=CLOCK)
        sent = server.bodies[0]
    assert sent["prompt"] == [7, 8, 9]
    assert sent["ignore_eos"] is True and sent["stream_options"] == {"include_usage": True}


async def test_cancelling_the_run_leaves_a_record_that_counts_as_bad() -> None:
    async with scripted(lambda index: (200, [text("a"), 5.0])) as server, open_session() as session:
        target = Target(server.url)
        work = asyncio.create_task(
            ask_once(session, target, b"{}", index=3, start=CLOCK.monotonic(), intended=0.0, clock=CLOCK)
        )
        await asyncio.sleep(0.1)
        work.cancel()
        record = await work
    assert record.ending is Ending.TIMEOUT and record.index == 3
