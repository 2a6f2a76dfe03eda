"""Peak and mean over a window are covered as they say."""

from __future__ import annotations

import numpy as np

from forecaster.online import OnlineForecaster


def test_peak_and_mean_of_a_window_are_covered() -> None:
    values = np.random.default_rng(21).gamma(9.0, 2.0, 4400)
    forecaster = OnlineForecaster()
    peaks, means = [], []
    for i, value in enumerate(values):
        forecaster.observe(float(value))
        if i >= 3000 and i + 10 < values.size:
            said, window = forecaster.forecast(events=False), values[i + 1 : i + 11]
            peaks.append(window.max() <= said.peak(0.0, 600.0, 0.9))
            means.append(window.mean() <= said.mean(0.0, 600.0, 0.9))
    assert 0.85 < float(np.mean(peaks)) < 0.95
    assert 0.85 < float(np.mean(means)) < 0.95


def test_a_peak_is_never_under_a_single_step_and_grows_with_the_window() -> None:
    forecaster = OnlineForecaster()
    for value in np.random.default_rng(5).gamma(4.0, 3.0, 400):
        forecaster.observe(float(value))
    said = forecaster.forecast()
    peaks = [said.peak(0.0, lead, 0.9) for lead in said.leads]
    assert all(peak >= said.quantile(lead, 0.9) for peak, lead in zip(peaks, said.leads, strict=True))
    assert peaks == sorted(peaks)
    assert said.peak(300.0, 600.0, 0.9) <= said.peak(0.0, 600.0, 0.9) + 1e-9
