"""The backtest reads nothing later than each origin, and its scores are those worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.backtest import additive, roll, score, smoothed
from forecaster.series import SeriesError, from_values

LEADS, LEVELS = (120.0, 300.0), (0.5, 0.9, 0.99)


def noise(n: int) -> list[float]:
    return list(np.random.default_rng(12).gamma(9.0, 2.0, n))


def test_a_changed_future_changes_no_earlier_origin() -> None:
    past = noise(200)
    calm = roll(from_values([*past, *[5.0] * 30], 60.0), LEADS, LEVELS)
    wild = roll(from_values([*past, *[500.0] * 30], 60.0), LEADS, LEVELS)
    np.testing.assert_array_equal(calm.values[:200], wild.values[:200])
    assert not np.array_equal(calm.values[-1], wild.values[-1])


def test_independent_noise_is_forecast_better_than_by_last_value_and_covered() -> None:
    record = score(roll(from_values(noise(2000), 60.0), LEADS, LEVELS))
    assert [s.lead for s in record.scores] == list(LEADS)
    for by_lead in record.scores:
        assert by_lead.skill is not None and 0.25 < by_lead.skill < 0.35
        assert 0.86 < by_lead.coverage[1] < 0.94


def test_a_history_too_short_for_a_score_says_what_it_needs() -> None:
    record = score(roll(from_values(noise(40), 60.0), LEADS, LEVELS))
    assert record.scores == ()
    assert "needs 30" in record.warnings[0]


def test_an_empty_series_is_refused() -> None:
    with pytest.raises(SeriesError, match="at least one"):
        roll(from_values([], 60.0), LEADS, LEVELS)


def test_targets_in_a_gap_are_not_scored() -> None:
    values: list[float | None] = [*noise(300)]
    whole = score(roll(from_values(values, 60.0), LEADS, LEVELS)).scores[0].origins
    values[200:220] = [None] * 20
    assert score(roll(from_values(values, 60.0), LEADS, LEVELS)).scores[0].origins == whole - 20


def test_the_rival_adds_the_quantile_of_its_arrived_errors() -> None:
    y = np.array([1.0, 1.0, 1.0, 1.0, 5.0, 1.0])
    centre = np.ones(6)
    rows = additive(y, centre, 1, np.array([3, 5]), (1.0,), 60.0)
    assert rows[0, 0] == 1.0, "the 5 has not arrived at origin 3"
    assert smoothed(np.array([4.0, np.nan, 4.0]), 60.0).tolist() == [4.0, 4.0, 4.0]
