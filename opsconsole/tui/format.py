"""Numbers as operators read them: one function per quantity, so that a unit looks the same on every screen.

It must not know where a number came from. Missing is `--`, and zero is only ever a measured zero. The trap: `None`
is the only unknown the records hold, but a foreign page may still bring NaN or an infinity this far; both are `--`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo

from opsconsole.domain.records import Interval

MISSING = "--"


def known(value: float | None) -> float | None:
    """The value when it is a finite number, else None."""
    return value if value is not None and math.isfinite(value) else None


def count(value: float | None) -> str:
    """A number of things: 27, 9999, 12k, 3.4M; at most four characters up to 999T."""
    value = known(value)
    if value is None:
        return MISSING
    size = abs(value)
    if size < 10_000:
        return f"{value:.0f}"
    for unit, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if size < scale * 999.5:
            return f"{value / scale:.0f}{unit}" if size >= scale * 9.95 else f"{value / scale:.1f}{unit}"
    return f"{value:.0e}"


def tokens_per_second(value: float | None) -> str:
    """Token rates: 7.1k, 970, 12."""
    value = known(value)
    if value is None:
        return MISSING
    kilo = value / 1e3
    if abs(value) < 999.5:
        return f"{value:.0f}"
    if abs(kilo) < 100:
        return f"{kilo:.1f}k"
    return f"{kilo:.0f}k" if abs(kilo) < 1e5 else count(value)


def rate(value: float | None) -> str:
    """Requests a second: 33.1, 0.87."""
    value = known(value)
    if value is None:
        return MISSING
    if abs(value) < 1:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 1000 else count(value)


def per_minute(value: float | None) -> str:
    """A rate a second as events a minute: 2.1."""
    value = known(value)
    if value is None:
        return MISSING
    minute = value * 60
    return f"{minute:.1f}" if abs(minute) < 100 else count(minute)


def latency(seconds: float | None, lower_bound: bool = False) -> str:
    """A latency: 72ms, 0.48s, 4.75s, 24.1s, 2m10s; `>` before one that fell into the histogram's last bucket."""
    seconds = known(seconds)
    if seconds is None:
        return MISSING
    mark = ">" if lower_bound else ""
    size = abs(seconds)
    if size < 0.0995:
        return f"{mark}{seconds * 1e3:.0f}ms"
    if size < 10:
        return f"{mark}{seconds:.2f}s"
    if size < 100:
        return f"{mark}{seconds:.1f}s"
    return mark + span(seconds)


def bound(seconds: float | None) -> str:
    """A limit as somebody wrote it: 1s, 1.5s, 80ms."""
    seconds = known(seconds)
    if seconds is None:
        return MISSING
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1e3:g}ms"


def span(seconds: float | None) -> str:
    """A length of time in at most two units: 41s, 6m12s, 6h12m, 3d4h."""
    seconds = known(seconds)
    if seconds is None:
        return MISSING
    whole = int(abs(seconds) + 0.5)
    if whole < 60:
        text = f"{whole}s"
    elif whole < 3600:
        text = f"{whole // 60}m{whole % 60:02d}s"
    elif whole < 86_400:
        text = f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    else:
        text = f"{whole // 86_400}d{whole % 86_400 // 3600}h" if whole < 8_640_000 else f"{whole // 86_400}d"
    return f"-{text}" if seconds < 0 and whole else text


def brief(seconds: float | None) -> str:
    """A length of time somebody chose: 90s, 5m, 1h; others as `span`."""
    seconds = known(seconds)
    if seconds is None:
        return MISSING
    if seconds >= 3600 and seconds % 3600 == 0:
        return f"{seconds / 3600:.0f}h"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:.0f}m"
    return f"{seconds:.0f}s" if seconds < 100 else span(seconds)


def age(seconds: float | None) -> str:
    """How old, in one unit: 00:51 below five minutes (a start is watched by the second), then 40m, 3h, 12d."""
    seconds = known(seconds)
    if seconds is None or seconds < 0:
        return MISSING
    whole = int(seconds)
    if whole < 300:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    if whole < 7200:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 172_800 else f"{whole // 86_400}d"


def percent(fraction: float | None, digits: int = 0) -> str:
    """A fraction as a percentage without its sign: 62, 97.2."""
    fraction = known(fraction)
    if fraction is None:
        return MISSING
    text = f"{fraction * 100:.{digits}f}"
    # 99.96 is not "100.0": only everything is everything.
    return f"{100 - 10**-digits:.{digits}f}" if fraction < 1 and float(text) >= 100 else text


def share(interval: Interval | None, digits: int = 1, sign: str = "%") -> str:
    """A share that may be known only as a range: 97.2%, >=96.8%, <=12.0%, 91-98%; `--` for one between 0 and 100 %."""
    if interval is None or known(interval.low) is None or known(interval.high) is None:
        return MISSING
    low, high = percent(interval.low, digits), percent(interval.high, digits)
    if low == high:
        return f"{low}{sign}"
    if interval.low <= 0 and interval.high >= 1:
        return MISSING
    if interval.high >= 1:
        return f">={low}{sign}"
    if interval.low <= 0:
        return f"<={high}{sign}"
    # Rounded outwards, so that the range shown holds the range meant.
    return f"{math.floor(interval.low * 100)}-{math.ceil(interval.high * 100)}{sign}"


def burn(value: float | None) -> str:
    """Multiples of the budget's even spending: 6.1x."""
    value = known(value)
    if value is None:
        return MISSING
    return f"{value:.1f}x" if value < 100 else f"{value:.0f}x"


def money(per_hour: float | None) -> str:
    """A price an hour, without a currency's name: 22.4."""
    per_hour = known(per_hour)
    return MISSING if per_hour is None else (f"{per_hour:.1f}" if per_hour < 1000 else count(per_hour))


def clock(at: float | None, zone: tzinfo | None = UTC, seconds: bool = True) -> str:
    """Time of day in the reader's zone."""
    at = known(at)
    if at is None:
        return MISSING
    try:
        moment = datetime.fromtimestamp(at, zone)
    except (OverflowError, OSError, ValueError):
        return MISSING
    return moment.strftime("%H:%M:%S" if seconds else "%H:%M")


def ratio(value: float | None, reference: float | None) -> str:
    """How many times the reference, for comparing with a median: x8.7."""
    value, reference = known(value), known(reference)
    if value is None or reference is None or reference <= 0:
        return MISSING
    times = value / reference
    return f"x{times:.1f}" if times < 100 else f"x{times:.0f}"


def signed(value: int) -> str:
    """A difference: +1, -2, 0."""
    return f"{value:+d}" if value else "0"
