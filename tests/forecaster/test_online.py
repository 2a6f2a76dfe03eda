"""The shipped forecaster: causal, sane on ugly histories, and as good as theory allows where theory speaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from forecaster.forecast import LEVELS, Forecast
from forecaster.online import OnlineForecaster

Floats = NDArray[np.float64]


def run(values: Sequence[float | None] | Floats) -> tuple[OnlineForecaster, list[Forecast]]:
    forecaster = OnlineForecaster()
    said = []
    for value in values:
        forecaster.observe(None if value is None else float(value))
        said.append(forecaster.forecast())
    return forecaster, said


def relative_error(values: Floats, said: list[Forecast], lead: int) -> float:
    """Mean absolute error of the median over that of last value, second half only."""
    origins = range(len(values) // 2, len(values) - lead)
    mine = np.mean([abs(said[i].quantile(lead * 60.0, 0.5) - values[i + lead]) for i in origins])
    last = np.mean([abs(values[i] - values[i + lead]) for i in origins])
    return float(mine / last)


def test_changing_the_future_changes_no_earlier_forecast() -> None:
    rng = np.random.default_rng(3)
    past = rng.gamma(4.0, 5.0, 400)
    _, calm = run(np.concatenate([past, np.full(40, 20.0)]))
    _, wild = run(np.concatenate([past, rng.gamma(1.0, 900.0, 40)]))
    for a, b in zip(calm[:400], wild[:400], strict=True):
        np.testing.assert_array_equal(a.values, b.values)


def test_independent_poisson_noise_is_averaged_away() -> None:
    """The best possible is 1/sqrt(2) = 0.707 of last value's error."""
    values = np.random.default_rng(1).poisson(40.0, 2200) / 60.0
    _, said = run(values)
    assert 0.69 <= relative_error(values, said, 5) <= 0.73


def test_a_random_walk_is_not_made_worse_than_last_value() -> None:
    steps = np.random.default_rng(2).normal(0, 1.0, 2200)
    values = np.abs(300 + np.cumsum(steps))
    _, said = run(values)
    assert relative_error(values, said, 5) <= 1.01


def test_the_upper_quantile_covers_what_it_says() -> None:
    values = np.random.default_rng(5).gamma(9.0, 2.0, 4400)
    _, said = run(values)
    hits = [values[i + 5] <= said[i].quantile(300.0, 0.9) for i in range(3000, len(values) - 5)]
    assert 0.87 <= float(np.mean(hits)) <= 0.93


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0],
        [0.0] * 300,
        [None] * 50,
        [5.0, None] * 100,
        [1.0] * 200 + [150.0] * 5 + [1.0] * 50,
        [10.0] * 200 + [0.0] * 90 + [12.0] * 60,
        [1e-12] * 100,
        [1e12] * 100,
        list(np.random.default_rng(7).pareto(0.7, 300)),
    ],
    ids=[
        "nothing",
        "one zero",
        "only zeros",
        "only gaps",
        "half gaps",
        "150x burst",
        "outage",
        "tiny",
        "huge",
        "heavy",
    ],
)
def test_forecasts_are_finite_not_negative_and_ordered(values: list[float | None]) -> None:
    forecaster, said = run(values)
    for forecast in [*said, forecaster.forecast()]:
        assert np.isfinite(forecast.values).all()
        assert (forecast.values >= 0).all()
        assert (np.diff(forecast.values, axis=1) >= 0).all()


def test_short_history_is_stated_and_widens_the_upper_quantiles() -> None:
    forecaster, _ = run([10.0] * 60)
    forecast = forecaster.forecast()
    assert any("short history" in w for w in forecast.warnings)
    assert forecast.quantile(300.0, 0.99) >= 15.0


def test_an_outage_is_stated_and_the_load_from_before_is_expected_back() -> None:
    forecaster, _ = run([20.0 + (i % 3) for i in range(600)] + [0.0] * 6)
    forecast = forecaster.forecast()
    assert any("outage" in w for w in forecast.warnings)
    assert forecast.quantile(1200.0, 0.5) > 15.0
    assert forecast.quantile(60.0, 0.99) > 15.0


def test_a_true_fall_to_zero_is_believed_after_half_an_hour() -> None:
    forecaster, _ = run([20.0] * 600 + [0.0] * 90)
    assert forecaster.forecast().quantile(300.0, 0.5) < 1.0


def test_what_an_outage_has_become_is_told() -> None:
    forecaster, _ = run([20.0] * 600 + [0.0] * 45)
    assert any(w.endswith("taken for the load by now") for w in forecaster.forecast().warnings)


def test_the_zeros_of_thin_traffic_are_its_load_and_no_outage() -> None:
    counts = np.random.default_rng(3).poisson(1.2, 1440) / 60.0  # a third of the minutes are empty
    forecaster, said = run(counts.tolist())
    assert not any("outage" in w for w in forecaster.forecast().warnings)
    pairs = list(zip(said, counts[1:], strict=False))[720:]
    # Values repeat, so a level may lie within a step of their distribution.
    for level in (0.5, 0.75, 0.9):
        covered = np.mean([truth <= forecast.quantile(60.0, level) for forecast, truth in pairs])
        assert covered == pytest.approx(level, abs=0.06)


def test_a_daily_period_is_found_not_assumed() -> None:
    minute = np.arange(4 * 1440)
    noise = np.random.default_rng(0).normal(0, 1, minute.size)
    daily, _ = _observe(np.maximum(30 + 20 * np.sin(2 * np.pi * minute / 1440) + noise, 0.1))
    assert daily.period_min == pytest.approx(1440, rel=0.03)
    flat, _ = _observe(30 + noise[:2880])
    assert flat.period_min is None


def test_a_burst_at_the_same_minute_of_each_day_is_announced() -> None:
    day = np.full(1440, 10.0)
    day[600:615] = 50.0
    forecaster, forecast = _observe(np.tile(day, 4))
    assert any("burst of about 5.0x in 600 min, for 15 min" in event for event in forecast.events)
    for value in day[:598]:
        forecaster.observe(float(value))
    assert forecaster.forecast().quantile(300.0, 0.5) > 30.0, "the median five minutes ahead is inside the burst"


def _observe(values: Floats) -> tuple[OnlineForecaster, Forecast]:
    forecaster = OnlineForecaster()
    for value in values:
        forecaster.observe(float(value))
    return forecaster, forecaster.forecast()


def test_time_scale_compresses_every_time_constant() -> None:
    plain, fast = OnlineForecaster(60.0), OnlineForecaster(1.0, time_scale=60.0)
    for value in np.random.default_rng(9).gamma(4.0, 5.0, 200):
        plain.observe(float(value))
        fast.observe(float(value))
    np.testing.assert_allclose(plain.forecast().values, fast.forecast().values)
    assert fast.forecast().leads == tuple(lead / 60.0 for lead in plain.forecast().leads)


def test_levels_reach_from_the_fifth_to_the_upper_tail() -> None:
    assert LEVELS[0] == 0.05 and LEVELS[-1] == 0.995


def test_a_load_that_begins_from_nothing_is_not_forecast_to_the_sky() -> None:
    ramp = [0.0, 0.0, 0.0, *(0.07 * 1.4**i for i in range(20))]
    seen = 0.0
    for value, forecast in zip(ramp, run(ramp)[1], strict=True):
        seen = max(seen, value)
        assert forecast.values.max() <= 5.0 * seen + 1e-12
    steady = [0.0, 0.0, 0.0, *(10 + np.random.default_rng(4).normal(0, 0.5, 200))]
    assert run(steady)[1][-1].quantile(120.0, 0.9) < 14.0


def test_a_beginning_from_nothing_does_not_decide_who_forecasts_best() -> None:
    noisy = [0.0] * 20 + list(10 + np.random.default_rng(8).normal(0, 1.0, 200))
    forecaster, said = run(noisy)
    record = forecaster.record()
    assert [r.lead for r in record] == list(said[-1].leads)
    assert all(r.skill is not None and 0.1 < r.skill < 0.5 for r in record), "the mean beats last value on noise"
    assert max(said[-1].weights.values()) < 0.9
