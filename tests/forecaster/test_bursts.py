"""Bursts on a clock are found and provided for; noise without a clock is left alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecaster.bursts import find_grid
from forecaster.forecast import Forecast
from forecaster.online import OnlineForecaster

Floats = NDArray[np.float64]


def half_hourly(days: float, chance: float = 0.4, seed: int = 4) -> tuple[Floats, list[int]]:
    """A calm 20/s, and at minute 2 of a half hour, by chance, ten minutes of four times as much."""
    random = np.random.default_rng(seed)
    n = int(days * 1440)
    values = random.normal(20.0, 0.7, n).clip(0)
    starts = [m for m in range(2, n - 10, 30) if random.random() < chance]
    for start in starts:
        values[start : start + 10] *= 4.0
    return values, starts


def test_a_grid_is_found_from_starts_that_skip_cycles() -> None:
    _, starts = half_hourly(3)
    assert find_grid(np.array(starts), [10, 15, 20, 30, 60, 1440], 1) == (30, 2)


def test_starts_by_chance_have_no_grid() -> None:
    random = np.random.default_rng(8)
    starts = np.sort(random.choice(20_000, 120, replace=False))
    assert find_grid(starts, [10, 15, 20, 30, 60, 120, 1440], 1) is None


def test_the_upper_quantile_knows_when_a_burst_can_start() -> None:
    values, _ = half_hourly(3)
    forecaster = OnlineForecaster()
    said: dict[int, Forecast] = {}
    for minute, value in enumerate(values):
        forecaster.observe(float(value))
        if minute >= 2880:
            said[minute] = forecaster.forecast(events=False)
    calm = [m for m in said if m % 30 == 16 and values[m - 3 : m + 1].max() < 30]
    before = [m for m in said if m % 30 == 29 and values[m - 8 : m + 1].max() < 30]
    assert len(calm) > 5 and len(before) > 5
    assert np.median([said[m].quantile(300.0, 0.9) for m in calm]) < 30, "no burst can start there"
    assert np.median([said[m].quantile(300.0, 0.9) for m in before]) > 60, "four in ten do"


def test_the_grid_is_announced_with_the_chance_of_the_next_start() -> None:
    values, _ = half_hourly(3)
    forecaster = OnlineForecaster()
    for value in values:
        forecaster.observe(float(value))
    assert any("grid of 30 min" in event and "chance" in event for event in forecaster.forecast().events)


def test_a_step_that_stays_is_no_burst() -> None:
    random = np.random.default_rng(6)
    values = np.concatenate([random.normal(20, 1, 1500), random.normal(60, 3, 1500)])
    forecaster = OnlineForecaster()
    for value in values:
        forecaster.observe(float(value))
    forecast = forecaster.forecast()
    assert not any("grid" in event for event in forecast.events)
    assert 55 < forecast.quantile(300.0, 0.5) < 65
