"""The step-time model: arithmetic, fitting, and the stand-in that spends the time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.plan import BatchPlan, BlockCopy, ScheduledRequest
from engine.step_time import StandInRunner, StepShape, StepTimeFit, StepTimeModel, fingerprint, shape_of


def test_a_shape_tells_decodes_from_prefill() -> None:
    plan = BatchPlan(
        1,
        (
            ScheduledRequest("d", (5,), 9, (0,), sample=True),
            ScheduledRequest("p", (1, 2, 3), 4, (1,), sample=False),
        ),
    )
    # Positions 4, 5 and 6 attend to 5, 6 and 7 tokens.
    assert shape_of(plan) == StepShape(decodes=1, context=10, prefill=3, attention=18)
    assert plan.token_count == 4


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 2.0), st.integers(0, 64), st.integers(0, 4000))
def test_what_fits_is_the_most_that_fits(limit: float, decodes: int, start: int) -> None:
    model = StepTimeModel()
    shape = StepShape(decodes, decodes * 300)
    count = model.prefill_that_fits(limit, shape, start)
    if count == 0:
        assert model.predict(shape.with_prefill(1, start)) > limit or model.predict(shape) >= limit
        return
    assert model.predict(shape.with_prefill(count, start)) <= limit + 1e-8
    assert model.predict(shape.with_prefill(count + 1, start)) > limit - 1e-8


def test_prefill_that_costs_nothing_fits_without_end() -> None:
    assert StepTimeModel(0.01, 0, 0, 0, 0).prefill_that_fits(0.08, StepShape(), 0) > 1_000_000


@pytest.mark.parametrize("scale", [0.1, 0.5, 4.0, 10.0])
def test_a_fit_finds_a_machine_of_another_speed(scale: float) -> None:
    truth = StepTimeModel(0.018 * scale, 0.0005 * scale, 4e-6 * scale, 8e-4 * scale, 1e-7 * scale)
    fit = StepTimeFit()
    draw = random.Random(4)
    for _ in range(300):
        shape = StepShape(draw.randrange(0, 32), draw.randrange(0, 9000))
        if draw.random() < 0.5:
            shape = shape.with_prefill(draw.randrange(1, 500), draw.randrange(0, 2000))
        fit.observe(shape, truth.predict(shape) * draw.uniform(0.95, 1.05))
    for shape in (StepShape(8, 2400), StepShape(16, 4000).with_prefill(200, 0), StepShape(0, 0).with_prefill(512, 512)):
        assert fit.model.predict(shape) == pytest.approx(truth.predict(shape), rel=0.1)


def test_decode_steps_alone_leave_the_prefill_costs_as_they_were() -> None:
    fit = StepTimeFit()
    for count in range(1, 200):
        fit.observe(StepShape(count % 16 + 1, 300 * (count % 16 + 1)), 0.03)
    assert fit.model.per_prefill_token_s == pytest.approx(StepTimeModel().per_prefill_token_s)


def test_one_hiccup_teaches_nothing() -> None:
    fit = StepTimeFit()
    shape = StepShape(4, 1200)
    for _ in range(50):
        fit.observe(shape, 0.03)
    before = fit.model
    fit.observe(shape, 30.0)
    assert fit.model == before


def test_no_coefficient_becomes_negative() -> None:
    fit = StepTimeFit()
    draw = random.Random(1)
    for _ in range(500):
        shape = StepShape(draw.randrange(9), draw.randrange(2000)).with_prefill(draw.randrange(99), 0)
        fit.observe(shape, draw.uniform(0.0001, 0.2))
        assert min(fit.model.predict(StepShape()), fit.model.per_decode_s, fit.model.per_prefill_token_s) >= 0.0


def test_a_model_is_read_from_a_file_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    model = StepTimeModel(fixed_s=0.5)
    path.write_text(model.to_json())
    assert StepTimeModel.load(path) == model and StepTimeModel.load("default") == StepTimeModel()
    path.write_text('{"fixed_s": -1}')
    with pytest.raises(ValueError, match="no step-time model"):
        StepTimeModel.load(path)
    path.write_text('{"speed": 1}')
    with pytest.raises(ValueError, match="no step-time model"):
        StepTimeModel.load(path)


def test_the_stand_in_reads_context_through_the_table_and_copies_blocks() -> None:
    spent: list[float] = []
    runner = StandInRunner(4, 4, 1000, StepTimeModel(), spent.append)
    tokens = (3, 1, 4, 1, 5)
    first = BatchPlan(1, (ScheduledRequest("a", tokens, 0, (2, 0), sample=True),))
    assert runner.run(first) == [fingerprint(tokens) % 1000]
    copied = BatchPlan(2, (ScheduledRequest("b", (9,), 5, (2, 3), sample=True),), (BlockCopy(0, 3),))
    assert runner.run(copied) == [fingerprint((*tokens, 9)) % 1000]
    wrong = BatchPlan(3, (ScheduledRequest("b", (9,), 5, (2, 1), sample=True),))
    assert runner.run(wrong) != [fingerprint((*tokens, 9)) % 1000], "a wrong table shows"
    assert spent[0] == StepTimeModel().predict(shape_of(first))
