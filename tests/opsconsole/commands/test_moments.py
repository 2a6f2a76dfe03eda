"""Times as people type them."""

from __future__ import annotations

from datetime import datetime

import pytest

from opsconsole.commands.moments import duration, moment, shown
from opsconsole.errors import UsageError

NOW = datetime(2026, 11, 30, 14, 30, 0).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds_before"),
    [
        ("-5m", 300.0),
        ("5m ago", 300.0),
        ("-2h", 7200.0),
        ("14:03", 27 * 60.0),
        ("14:29:50", 10.0),
        ("15:00", 23.5 * 3600),
    ],
)
def test_relative_times_and_times_of_day(text: str, seconds_before: float) -> None:
    assert moment(text, NOW) == pytest.approx(NOW - seconds_before)


def test_absolute_times() -> None:
    assert moment("1700000000", NOW) == 1_700_000_000.0
    assert moment("2026-11-30T14:03:10Z", NOW) == datetime.fromisoformat("2026-11-30T14:03:10+00:00").timestamp()
    assert moment(shown(NOW), NOW) == NOW


@pytest.mark.parametrize("text", ["", "soon", "25:00", "-", "2026-13-01"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(UsageError):
        moment(text, NOW)


def test_durations() -> None:
    assert duration("90s") == 90.0
    with pytest.raises(UsageError, match="no duration"):
        duration("long")
