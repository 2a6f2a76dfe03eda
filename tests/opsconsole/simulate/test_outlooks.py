"""Forecasts of a backtest: made once, read by the time of the law, and never from later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.forecast import LEADS_S
from forecaster.planners import arima, kalman
from opsconsole.simulate.outlooks import Teller, forecasts
from opsconsole.simulate.traces import Kind, Trace
from policies.situation import Demand


def wave(bins: int = 720) -> Trace:
    counts = np.random.default_rng(1).poisson(50 + 30 * np.sin(np.arange(bins) / 90.0)).astype(np.float64)
    return Trace("wave", Kind.SYNTHETIC, 10.0, counts)


def test_what_is_said_depends_on_nothing_later() -> None:
    trace = wave()
    counts = trace.requests.copy()
    counts[360:] *= 5.0
    before = forecasts(trace)["requests"]
    after = forecasts(replace(trace, requests=counts))["requests"]
    assert np.array_equal(before[:60], after[:60])
    assert not np.array_equal(before[60:], after[60:])


def test_forecasts_are_kept_and_read_again(tmp_path: Path) -> None:
    trace = wave(360)
    first = forecasts(trace, ("kalman",), tmp_path, "v1")
    (kalman,) = (path for path in tmp_path.iterdir() if np.load(path).ndim == 1)
    (columns,) = (path for path in tmp_path.iterdir() if path != kalman)
    np.save(columns, np.zeros_like(first["requests"]))
    assert not forecasts(trace, (), tmp_path, "v1")["requests"].any()
    with_tokens = replace(trace, name="other", prompt=trace.requests * 9.0, output=trace.requests * 5.0)
    assert not forecasts(with_tokens, (), tmp_path, "v1")["requests"].any()  # the same series in another trace
    assert set(forecasts(trace, ("kalman",), tmp_path, "v1", columns=False)) == {"kalman"}
    assert forecasts(trace, (), tmp_path, "v2")["requests"].any()


def test_a_law_reads_the_last_whole_minute_and_its_age_is_taken_off_the_leads() -> None:
    said = {"requests": np.arange(10.0)[:, None, None] * np.ones((1, len(LEADS_S), 10))}
    teller = Teller(said, 2.0, begins=120.0)
    outlook = teller(45.0, Demand())["requests/s"]  # 165 s of the trace: the minutes 0 and 1 have ended
    assert outlook.quantiles[0][0] == 2.0 * 1.0
    assert outlook.leads[0] == pytest.approx(LEADS_S[0] - 45.0)
    assert Teller(said, 1.0, 0.0)(30.0, Demand()) == {}


def test_planners_are_told_under_their_own_names_from_whole_intervals() -> None:
    teller = Teller({"kalman": np.array([3.0, 4.0])}, 2.0, begins=60.0)
    assert "kalman:requests/s" not in teller(100.0, Demand())
    outlook = teller(130.0, Demand())["kalman:requests/s"]
    assert outlook.quantiles == ((6.0,),)
    assert outlook.leads == (180.0,)


def test_kalman_follows_a_line_and_arima_a_level() -> None:
    line = 10.0 + 2.0 * np.arange(60, dtype=np.float64)
    assert kalman(line)[-1] == pytest.approx(line[-1] + 2.0, abs=0.5)
    level = 100.0 + np.random.default_rng(2).normal(0, 3, 200)
    assert arima(level)[50:].mean() == pytest.approx(100.0, abs=2.0)
    assert (arima(np.zeros(30)) == 0).all()
