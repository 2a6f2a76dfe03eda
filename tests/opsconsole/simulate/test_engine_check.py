"""The cross-check itself, on an engine whose step times are known."""

from __future__ import annotations

import pytest

from engine.assembly import EngineOptions, stand_in_engine
from engine.step_time import StepShape, StepTimeModel
from opsconsole.simulate.engine_check import KNOTS, CpuTime, check_core, fit
from opsconsole.simulate.steptime import StepCurve


class VirtualTime:
    """A clock that moves when the engine or the driver says so."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def elapse(self, seconds: float) -> None:
        self.at += seconds


def test_an_engine_of_known_step_times_is_recovered_and_replayed_almost_exactly() -> None:
    time = VirtualTime()
    step = StepTimeModel(0.018, 0.0012, 1.5e-6, 5.0e-4, 2.0e-7)
    core = stand_in_engine(step, EngineOptions("check", kv_blocks=400), time.now, time.elapse).core
    check = check_core(core, time.now, time.elapse, seconds=30.0)
    assert check.requests > 20 and 0.3 < check.load < 1.0
    assert check.step_error < 0.01 and abs(check.drift) < 0.01
    assert all(row.error < 0.02 for row in check.rows), check.rows
    assert check.ok


def test_the_check_fails_where_the_engine_is_not_what_was_fitted() -> None:
    time = VirtualTime()
    factor = [1.0]
    core = stand_in_engine(
        StepTimeModel(), EngineOptions("check", kv_blocks=400), time.now, lambda s: time.elapse(factor[0] * s)
    ).core

    def slower_during_the_replay(text: str) -> None:
        factor[0] = 1.6 if text.startswith("replaying") else 1.0

    check = check_core(core, time.now, time.elapse, seconds=20.0, say=slower_during_the_replay)
    assert not check.ok and check.drift > 0.4
    (median,) = [row for row in check.rows if row.name == "E2E p50"]
    assert median.simulated < 0.8 * median.real


def test_cpu_time_counts_work_and_skips_idling() -> None:
    spent = [5.0]
    clock = CpuTime(lambda: spent[0])
    clock.sleep(2.0)
    spent[0] += 1.0
    assert clock.now() == 8.0


def test_a_fit_finds_a_bent_curve_and_every_slope() -> None:
    truth = StepCurve(
        ((1.0, 0.01), (64.0, 0.02), (512.0, 0.2)), per_decode_s=0.001, per_context_s=1e-5, per_pair_s=1e-7
    )
    shapes = [
        StepShape(d, d * c, p, p * s)
        for d in (0, 1, 4, 16)
        for c in (50, 400, 1000)
        for p, s in ((0, 0), (8, 100), (64, 10), (200, 500), (480, 50))
        if d + p
    ]
    found = fit([(s, truth.seconds(s.decodes, s.context, s.prefill, s.attention)) for s in shapes])
    assert [tokens for tokens, _ in found.knots] == list(KNOTS)
    for shape in shapes:
        args = (shape.decodes, shape.context, shape.prefill, shape.attention)
        assert found.seconds(*args) == pytest.approx(truth.seconds(*args), rel=0.08)
