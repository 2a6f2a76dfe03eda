"""Ticks become steps: alignment, gaps, windows, and a forecaster that was warmed elsewhere."""

from __future__ import annotations

import math

import pytest

from opsconsole.control.demand import DemandSeries, SeriesOptions, fed

MINUTES = SeriesOptions(interval_s=5.0)


def level(series: DemandSeries, lead: float = 60.0) -> float | None:
    """The median that is forecast, None while nothing is."""
    return None if series.forecast is None else series.forecast.quantile(lead, 0.5)


def feed(series: DemandSeries, rates: list[float | None], start: float = 0.0, every: float = 5.0) -> None:
    for index, rate in enumerate(rates):
        series.add(start + index * every, rate)


def test_the_last_reading_of_a_step_is_the_step_where_rates_cover_it_and_the_mean_where_they_do_not() -> None:
    by_minute, by_tick = DemandSeries(MINUTES), DemandSeries(SeriesOptions(window_s=5.0, interval_s=5.0))
    for series in (by_minute, by_tick):
        feed(series, [float(i % 12) for i in range(12 * 4 + 1)])
    assert by_minute.forecast is not None and by_tick.forecast is not None
    assert by_minute.forecast.quantile(60.0, 0.5) == pytest.approx(11.0)
    assert by_tick.forecast.quantile(60.0, 0.5) == pytest.approx(5.5)
    assert by_minute.forecast.at == 240.0, "the end of the last step that was closed"


def test_nothing_is_forecast_from_fewer_than_three_minutes_nor_long_after_the_last_reading() -> None:
    series = DemandSeries(MINUTES)
    feed(series, [4.0] * 36)
    assert level(series) is None
    feed(series, [4.0], start=180.0)
    assert level(series) == pytest.approx(4.0)
    feed(series, [None] * (12 * 10), start=185.0)
    assert level(series) == pytest.approx(4.0), "ten minutes of silence are bridged"
    feed(series, [None] * 24, start=185.0 + 600.0)
    assert level(series) is None


def test_a_tick_that_is_late_leaves_gaps_and_a_clock_that_steps_back_changes_nothing() -> None:
    series = DemandSeries(MINUTES)
    feed(series, [4.0] * 60)
    assert not series.add(10.0, 900.0)
    series.add(600.0, 4.0)
    assert series.forecast is not None and series.forecast.at == 600.0
    assert any("missing" in warning for warning in series.forecast.warnings)
    assert series.forecast.quantile(60.0, 0.5) == pytest.approx(4.0)


def test_after_a_very_long_gap_the_series_begins_anew() -> None:
    series = DemandSeries(MINUTES)
    feed(series, [4.0] * 60)
    series.add(3e6, 4.0)
    assert level(series) is None
    feed(series, [7.0] * 60, start=3e6)
    assert level(series) == pytest.approx(7.0)


def test_a_warmed_forecaster_is_told_what_was_seen_since_it_was_made() -> None:
    series = DemandSeries(MINUTES)
    feed(series, [9.0] * 60, start=6000.0)  # steps 100 to 104, the last of them open
    warmed = fed(MINUTES, [(slot, 3.0) for slot in range(60, 98)], until=98)
    assert warmed is not None
    series.adopt(warmed)
    assert series.forecast is not None and series.forecast.at == 104 * 60.0
    assert 3.0 < series.forecast.quantile(600.0, 0.5) <= 9.0
    assert "short history (44 min" in series.forecast.warnings[0], "38 known, 2 missing, 4 seen since"
    again = series.forecast
    series.adopt(warmed)
    assert series.forecast is again, "one history is enough"


def test_too_little_history_warms_nothing() -> None:
    assert fed(MINUTES, [(1, 2.0), (2, None), (3, 2.0), (9, 5.0)], until=9) is None
    made = fed(MINUTES, [(1, 2.0), (2, None), (3, 2.0), (5, 2.0)], until=9)
    assert made is not None and made.end == 9 * 60.0


def test_a_compressed_day_has_steps_of_a_tick_and_leads_as_far_as_starts_take() -> None:
    compressed = SeriesOptions(time_scale=360.0, interval_s=1.0, window_s=10.0, reach_s=22.0)
    assert compressed.step_s == 1.0 and compressed.step_min == 6.0
    made = compressed.forecaster(0)
    for second in range(60):
        made.observe(2.0 + math.sin(second / 10))
    leads = made.forecast().leads
    assert leads[0] == 1.0 and leads[-1] >= 22.0
    usual = SeriesOptions(reach_s=360.0).forecaster(0)
    usual.observe(1.0)
    minutes = [lead / 60.0 for lead in usual.forecast().leads]
    assert minutes == [*range(1, 13), 15, 20]  # a start of some minutes ends at a lead that was forecast itself
