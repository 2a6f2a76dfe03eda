"""A pool's hours: bounds that come back on days of the week, as the windows around an instant that a law reads.

It knows calendars and no pools. The trap: a day has 23 or 25 hours twice a year, so both ends of a window are found on
the calendar of its own zone, and no length is added to a beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from policies.situation import ScheduleWindow

AHEAD_S = 86400.0  # how far a law is told of windows to come; far beyond any start
EVERY_DAY = frozenset(range(7))


@dataclass(frozen=True, slots=True)
class Hours:
    """Bounds from `begin` to `end` on `days` (0 is Monday, the day of the beginning) in a time zone.

    An `end` that is not after `begin` is on the next day, so the same time twice is a whole day.
    """

    begin: time
    end: time
    days: frozenset[int] = EVERY_DAY
    zone: str = "UTC"
    minimum: int | None = None
    maximum: int | None = None
    note: str = ""


def windows(hours: Sequence[Hours], now: float) -> tuple[ScheduleWindow, ...]:
    """Those that hold at `now` (Unix s) or begin within the next day, earliest first."""
    found = (window for each in hours for window in _around(each, now))
    return tuple(sorted((w for w in found if w.end > now and w.start <= now + AHEAD_S), key=lambda w: w.start))


def _around(hours: Hours, now: float) -> Iterator[ScheduleWindow]:
    """Windows that begin from the day before `now` to two days after it."""
    zone = ZoneInfo(hours.zone)
    today = datetime.fromtimestamp(now, zone).date()
    for day in (today + timedelta(days=n) for n in range(-1, 3)):
        if day.weekday() in hours.days:
            last = day if hours.end > hours.begin else day + timedelta(days=1)
            start, end = (_instant(*at, zone) for at in ((day, hours.begin), (last, hours.end)))
            yield ScheduleWindow(start, end, hours.minimum, hours.maximum, hours.note)


def _instant(day: date, of_day: time, zone: ZoneInfo) -> float:
    return datetime.combine(day, of_day, zone).timestamp()
