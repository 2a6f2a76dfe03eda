"""The fitted member works in a process of its own, gives up in time, and is never waited for unless told."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.ets import Constants, EtsMember, advance

LEADS = np.array([1, 5], dtype=np.int64)


def test_constants_are_fitted_elsewhere_and_the_recursion_runs_here() -> None:
    values = 50 + np.cumsum(np.random.default_rng(3).normal(0, 1, 120))
    member = EtsMember(1.0, lambda: 0.0, wait=True, deadline=60.0)
    try:
        for value in values:
            member.observe(float(value))
        ahead = member.predict(LEADS)
        assert ahead is not None
        np.testing.assert_allclose(ahead, values[-1], atol=6.0)
        assert member.late == 0
    finally:
        member.close()


def test_a_fit_past_its_deadline_is_given_up_and_its_worker_ended() -> None:
    clock = iter(range(0, 100_000, 100))
    member = EtsMember(1.0, lambda: float(next(clock)), deadline=20.0)
    try:
        for _ in range(61):
            member.observe(5.0)
        assert member.late == 1
        assert member.predict(LEADS) is None
    finally:
        member.close()


def test_one_step_of_the_recursion_is_the_textbooks() -> None:
    level, trend = advance((10.0, 2.0), 15.0, Constants(0.5, 0.1, 0.9))
    assert level == pytest.approx(11.8 + 0.5 * 3.2)
    assert trend == pytest.approx(1.8 + 0.1 * 3.2)
