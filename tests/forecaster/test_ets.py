"""The fitted member is fitted elsewhere, is never waited for unless told, and loses its weight when it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from forecaster.ets import Constants, EtsMember, advance
from forecaster.online import OnlineForecaster
from forecaster.worker import Answer, Worker

LEADS = np.array([1, 5], dtype=np.int64)


class Scripted(Worker):
    """Answers at once, with what it was given."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(lambda: 0.0)
        self.answers, self.asked = list(answers), 0

    def ask(self, key: str, function: Callable[..., Any], *args: Any, deadline_s: float = 0.0) -> None:
        self.asked += 1
        self._done[key] = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(lambda: 0.0)
    yield made
    made.close()


def test_constants_are_fitted_elsewhere_and_the_recursion_runs_here(worker: Worker) -> None:
    values = 50 + np.cumsum(np.random.default_rng(3).normal(0, 1, 120))
    member = EtsMember(1.0, worker, wait=True)
    for value in values:
        member.observe(float(value))
    ahead = member.predict(LEADS)
    assert ahead is not None
    np.testing.assert_allclose(ahead, values[-1], atol=6.0)
    assert member.failed == 0


def test_a_fit_that_fails_is_tried_again_an_hour_later_and_not_at_every_step() -> None:
    worker = Scripted(Answer(error="not done within 20 s"), Answer((0.5, 0.1, 0.9)))
    member = EtsMember(1.0, worker)
    for _ in range(119):
        member.observe(5.0)
    assert (worker.asked, member.failed, member.predict(LEADS)) == (1, 1, None)
    for _ in range(2):
        member.observe(5.0)
    assert worker.asked == 2
    ahead = member.predict(LEADS)
    assert ahead is not None
    np.testing.assert_allclose(ahead, 5.0)


def test_a_member_that_loses_loses_its_weight_and_harms_nobody() -> None:
    values = np.random.default_rng(1).poisson(40.0, 500) / 60.0
    wild = EtsMember(1.0, Scripted(Answer((1.0, 1.0, 0.98))))  # extrapolates every step's noise
    with_it, without = OnlineForecaster(ets=wild), OnlineForecaster()
    for value in values:
        with_it.observe(float(value))
        without.observe(float(value))
    assert wild.predict(LEADS) is not None
    assert with_it.forecast().weights.get("ets", 0.0) == 0.0
    np.testing.assert_allclose(
        with_it.forecast().quantile(300.0, 0.5), without.forecast().quantile(300.0, 0.5), rtol=0.05
    )


def test_a_member_that_is_attached_late_knows_the_recent_history() -> None:
    forecaster = OnlineForecaster()
    for _ in range(300):
        forecaster.observe(7.0)
    worker = Scripted(Answer((0.5, 0.1, 0.9)))
    forecaster.attach(EtsMember(1.0, worker))
    for _ in range(3):
        forecaster.observe(7.0)
    assert worker.asked >= 1
    assert forecaster.forecast().weights["ets"] > 0.02


def test_one_step_of_the_recursion_is_the_textbooks() -> None:
    level, trend = advance((10.0, 2.0), 15.0, Constants(0.5, 0.1, 0.9))
    assert level == pytest.approx(11.8 + 0.5 * 3.2)
    assert trend == pytest.approx(1.8 + 0.1 * 3.2)
