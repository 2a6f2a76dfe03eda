"""A pool's own tables: times and days as people write them, and what a law would quietly overrule."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from opsconsole.config import load
from opsconsole.config_pool import DAYS, ScheduleTable
from opsconsole.errors import ConfigError


def window(**keys: Any) -> ScheduleTable:
    return ScheduleTable.model_validate({"begin": "08:00", "end": "18:00", "minimum": 2, **keys})


@pytest.mark.parametrize(
    ("days", "found"),
    [
        ("mon-fri", DAYS[:5]),
        ("Sat, Sun", DAYS[5:]),
        ("friday-monday", ("fri", "sat", "sun", "mon")),
        (["tue", "thu"], ("tue", "thu")),
        ("mon,mon-tue", ("mon", "tue")),
    ],
)
def test_days_are_written_as_people_write_them(days: object, found: tuple[str, ...]) -> None:
    assert window(days=days).days == found


@pytest.mark.parametrize(
    ("given", "found"),
    [("8:05", time(8, 5)), ("24:00", time(0)), (time(18, 30), time(18, 30))],
)
def test_a_time_of_day_is_text_or_a_time_of_toml(given: object, found: time) -> None:
    assert window(end=given).end == found


def test_an_instant_without_a_zone_is_in_the_windows_own() -> None:
    at = {"begin": "2026-12-24T18:00:00", "end": "2026-12-25T00:00:00Z"}
    assert window(**at).span == (datetime(2026, 12, 24, 18, tzinfo=UTC), datetime(2026, 12, 25, tzinfo=UTC))
    first, _ = window(**at, timezone="Europe/Berlin").span or (None, None)
    assert first == datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1)))
    assert window().span is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'begin = "8 o\'clock"\nend = "9:00"\nminimum = 1',
            'pool.a.schedule.0.begin: "8 o\'clock" is no time: write 08:30',
        ),
        ('begin = "24:30"\nend = "9:00"\nminimum = 1', "'24:30' is no time"),
        ('begin = "08:00"\nend = "9:00"', "pool.a.schedule.0: give a minimum, a maximum or both"),
        ('begin = "08:00"\nend = "9:00"\nminimum = 3\nmaximum = 2', "minimum 3 is above maximum 2"),
        (
            'begin = "08:00"\nend = "9:00"\nminimum = 1\ndays = "weekdays"',
            "'weekdays' is no day: write mon, or mon-fri",
        ),
        ('begin = "08:00"\nend = "9:00"\nminimum = 1\ndays = []', "pool.a.schedule.0.days"),
        (
            'begin = "08:00"\nend = "9:00"\nminimum = 1\ntimezone = "Mars/Base"',
            "'Mars/Base' is no time zone known here",
        ),
        ('begin = "08:00"\nend = "9:00"\nminimum = 1\ntimezone = "../x"', "is no time zone known here"),
        ('begin = "08:00"\nend = 2026-12-24T18:00:00Z\nminimum = 1', "both times of the day, or both instants"),
        ("begin = 2026-12-24T18:00:00Z\nend = 2026-12-24T18:00:00Z\nminimum = 1", "end must come after begin"),
        (
            'begin = 2026-12-24T18:00:00Z\nend = 2026-12-25T18:00:00Z\nminimum = 1\ndays = "mon"',
            "days go with times of the day",
        ),
        ('begin = "08:00"\nend = "9:00"\nminimum = 9', "minimum of 9 is above the pool's maximum 4, which wins"),
        ('begin = "08:00"\nend = "9:00"\nmaximum = 1', "maximum of 1 is below the pool's minimum 2, which wins"),
        ('start = "08:00"\nend = "9:00"\nminimum = 3', "pool.a.schedule.0.start: is no key here"),
    ],
)
def test_an_impossible_window_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f"[pool.a]\nminimum = 2\nmaximum = 4\n[[pool.a.schedule]]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queue = 0", "pool.a.thresholds.queue: Input should be greater than 0"),
        ('kv = "120%"', "pool.a.thresholds.kv: Input should be less than 1"),
        ('quantile = "20%"', "quantile 0.2 is not forecast: give 50% to 99.5%"),
        ("burn = 0.5", "pool.a.thresholds.burn"),
        ("quantil = 0.9", "pool.a.thresholds.quantil: is no key here"),
        ("preempt = nan", "pool.a.thresholds.preempt"),
    ],
)
def test_an_impossible_threshold_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f"[pool.a.thresholds]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert words in str(caught.value)


def test_a_step_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[pool.a.step_time]\nbase = 0\nper_token = 0\n")
    with pytest.raises(ConfigError, match=r"pool\.a\.step_time: a step takes some time"):
        load(path, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lead = "2m"\nnodes = ["n1"]', "tier fast leads 120 s, no less than the cold start of 120 s"),
        ('lead = "0s"\nnodes = ["n1"]', "pool.a.tiers.0.lead: Input should be greater than 0"),
        ('lead = "9s"\nnodes = []', "pool.a.tiers.0.nodes"),
        ('lead = "9s"\nnodes = ["n1", "n1"]', "node n1 is in two tiers, or twice in one"),
        ('lead = "9s"\nnodes = ["n1"]\nreplicas_per_node = 0', "pool.a.tiers.0.replicas_per_node"),
        ('lead = "9s"\nnodes = ["n1"]\navailable = 3', "pool.a.tiers.0.available: is no key here"),
    ],
)
def test_an_impossible_tier_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f'[pool.a]\n[[pool.a.tiers]]\nname = "fast"\n{text}\n')
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert words in str(caught.value)
