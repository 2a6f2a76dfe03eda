"""Windows that come back: which hold around an instant, at midnight, and where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.control.hours import AHEAD_S, EVERY_DAY, Hours, windows
from policies.limits import active


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def shown(hours: Hours, now: str) -> list[tuple[str, str]]:
    """Each window's two ends in UTC."""
    form = "%a %d %H:%M"
    return [
        (datetime.fromtimestamp(w.start, UTC).strftime(form), datetime.fromtimestamp(w.end, UTC).strftime(form))
        for w in windows((hours,), at(now))
    ]


OFFICE = Hours(time(8), time(18, 30), frozenset(range(5)), minimum=4)
NIGHT = Hours(time(22), time(6), maximum=2)
WEEKEND = Hours(time(0), time(0), frozenset({5, 6}), maximum=1)
BERLIN = Hours(time(8), time(18), zone="Europe/Berlin", minimum=4)


@pytest.mark.parametrize(
    ("hours", "now", "found"),
    [
        pytest.param(OFFICE, "2026-11-30T07:59:00Z", [("Mon 30 08:00", "Mon 30 18:30")], id="Monday, a minute before"),
        pytest.param(
            OFFICE, "2026-11-30T08:00:00Z", [("Mon 30 08:00", "Mon 30 18:30"), ("Tue 01 08:00", "Tue 01 18:30")],
            id="begun: and the next one, a day ahead",
        ),
        pytest.param(OFFICE, "2026-11-30T18:30:00Z", [("Tue 01 08:00", "Tue 01 18:30")], id="ended"),
        pytest.param(OFFICE, "2026-12-04T19:00:00Z", [], id="Friday evening: nothing within a day"),
        pytest.param(
            NIGHT, "2026-12-01T01:00:00Z", [("Mon 30 22:00", "Tue 01 06:00"), ("Tue 01 22:00", "Wed 02 06:00")],
            id="past midnight, the window of the day before",
        ),
        pytest.param(
            WEEKEND, "2026-12-05T12:00:00Z", [("Sat 05 00:00", "Sun 06 00:00"), ("Sun 06 00:00", "Mon 07 00:00")],
            id="the same time twice is a whole day",
        ),
        pytest.param(BERLIN, "2026-03-28T05:00:00Z", [("Sat 28 07:00", "Sat 28 17:00")], id="in winter UTC+1"),
        pytest.param(BERLIN, "2026-03-29T05:00:00Z", [("Sun 29 06:00", "Sun 29 16:00")], id="the day clocks go on"),
    ],
)  # fmt: skip
def test_windows_are_those_that_hold_or_come_within_a_day(hours: Hours, now: str, found: list[tuple[str, str]]) -> None:
    assert shown(hours, now) == found


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu"])
TIMES = st.times().map(lambda t: t.replace(second=0, microsecond=0))
ANY = st.builds(Hours, TIMES, TIMES, st.frozensets(st.integers(0, 6), min_size=1), ZONES, st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(ANY, st.floats(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")))
def test_a_window_that_will_hold_was_told_before_it_begins(hours: Hours, now: float) -> None:
    told = windows((hours,), now)
    assert all(w.end > now and w.start <= now + AHEAD_S for w in told)
    assert all(0 < w.end - w.start <= 90_000 for w in told)  # a day, and the hour that is there twice
    for later in (now + 600.0, now + AHEAD_S / 2, now + AHEAD_S - 1.0):
        held = active(windows((hours,), later), later)
        assert all(w in told for w in held)


def test_an_every_day_window_holds_at_its_own_minute_on_any_day() -> None:
    hours = Hours(time(12), time(12, 1), EVERY_DAY, minimum=2)
    for day in range(1, 29):
        noon = at(f"2026-02-{day:02}T12:00:30Z")
        assert [w.minimum for w in active(windows((hours,), noon), noon)] == [2]
