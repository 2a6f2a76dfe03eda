"""The engine's thread: what goes in, what comes out, and what a bad request cannot do."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable

import pytest

from engine.core import EngineCore
from engine.driver import EngineDriver, StepReport
from engine.request import FinishReason, Request

BuildCore = Callable[..., EngineCore]
MakeRequest = Callable[..., Request]


def outputs(reports: queue.SimpleQueue[StepReport], count: int) -> list[tuple[str, FinishReason]]:
    """The next sequences that end, in order."""
    ended: list[tuple[str, FinishReason]] = []
    while len(ended) < count:
        report = reports.get(timeout=10)
        ended += [(o.request.request_id, o.finish) for o in report.outputs if o.finish is not None]
    return ended


def test_requests_go_in_and_one_report_per_step_comes_out(build: BuildCore, ask: MakeRequest) -> None:
    reports: queue.SimpleQueue[StepReport] = queue.SimpleQueue()
    driver = EngineDriver(build(), reports.put, lambda: 0.0)
    driver.submit(ask("a", 10, output=3))
    driver.submit(ask("b", 10, output=3, seed=1))
    driver.start()
    assert outputs(reports, 2) == [("a", FinishReason.LENGTH), ("b", FinishReason.LENGTH)]
    driver.stop()
    assert driver.core.stats().steps == 3, "both were in every step"


def test_a_request_that_can_never_run_ends_alone(
    build: BuildCore, ask: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    reports: queue.SimpleQueue[StepReport] = queue.SimpleQueue()
    driver = EngineDriver(build(max_model_len=50), reports.put, lambda: 0.0)
    driver.submit(ask("too long", 100, output=3))
    driver.submit(ask("fine", 10, output=3))
    driver.start()
    assert outputs(reports, 2) == [("too long", FinishReason.ERROR), ("fine", FinishReason.LENGTH)]
    driver.stop()
    assert driver.broken is None


def test_ending_a_request_takes_effect_before_the_next_step(build: BuildCore, ask: MakeRequest) -> None:
    core = build(max_model_len=500)
    reports: queue.SimpleQueue[StepReport] = queue.SimpleQueue()

    def deliver(report: StepReport) -> None:
        if report.outputs and report.outputs[0].request.output_count == 5:
            driver.end("a", FinishReason.ABORT)
            driver.submit(ask("b", 4, output=1))
        reports.put(report)

    driver = EngineDriver(core, deliver, lambda: 0.0)
    request = ask("a", 10, output=400)
    driver.submit(request)
    driver.start()
    assert outputs(reports, 1) == [("b", FinishReason.LENGTH)]
    driver.stop()
    assert request.output_count == 5 and core.stats().running == 0


def test_whoever_asks_at_the_sight_of_the_last_token_finds_what_was_computed(
    build: BuildCore, ask: MakeRequest
) -> None:
    """Blocks are published and given back before a step is reported: no race with the next request."""
    core = build()
    size = core.config.block_size
    reports: queue.SimpleQueue[StepReport] = queue.SimpleQueue()
    followers: list[Request] = []

    def deliver(report: StepReport) -> None:
        ended = [o.request for o in report.outputs if o.finish is not None]
        if ended and len(followers) < 20:
            assert core.scheduler.blocks.used_fraction == 0.0
            followers.append(ask(f"follower {len(followers)}", 6 * size + 3, output=1))
            driver.submit(followers[-1])
        reports.put(report)

    driver = EngineDriver(core, deliver, lambda: 0.0)
    driver.submit(ask("first", 6 * size + 3, output=1))
    driver.start()
    outputs(reports, 21)
    driver.stop()
    assert [request.cached_tokens for request in followers] == [6 * size] * 20
