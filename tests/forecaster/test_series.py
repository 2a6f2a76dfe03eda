"""Series keep gaps apart from zeros and refuse what is no series."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.series import SeriesError, from_pairs, from_values


def test_missing_steps_become_gaps() -> None:
    series = from_pairs([(0.0, 1.0), (60.0, 2.0), (240.0, 3.0)], 60.0)
    assert list(series.known) == [True, True, False, False, True]


def test_unsorted_times_are_refused_with_the_row() -> None:
    with pytest.raises(SeriesError, match="row 2"):
        from_pairs([(60.0, 1.0), (0.0, 2.0)], 60.0)


def test_negative_rates_are_refused() -> None:
    with pytest.raises(SeriesError, match="not negative"):
        from_values([1.0, -2.0], 60.0)


def test_resampling_averages_what_is_known_and_drops_the_open_step() -> None:
    series = from_values([1.0, 3.0, None, 5.0, None, None, 9.0], 10.0).resample(20.0)
    assert list(series.values[:2]) == [2.0, 5.0]
    assert list(series.known) == [True, True, False]


def test_before_reads_nothing_later() -> None:
    series = from_values(list(np.arange(10.0)), 60.0)
    assert len(series.before(299.0)) == 4
