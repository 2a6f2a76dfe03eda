"""Numbers as they are read at 3 a.m."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC

import pytest

from opsconsole.domain.records import Interval
from opsconsole.tui import format as fmt


@pytest.mark.parametrize(
    ("say", "value", "shown"),
    [
        (fmt.count, 27, "27"), (fmt.count, 9999, "9999"), (fmt.count, 12_345, "12k"), (fmt.count, 131_072, "131k"),
        (fmt.count, 1.2e6, "1.2M"), (fmt.count, 0, "0"), (fmt.count, 3e17, "3e+17"),
        (fmt.tokens_per_second, 7100, "7.1k"), (fmt.tokens_per_second, 970, "970"), (fmt.tokens_per_second, 123_456,
        "123k"),
        (fmt.rate, 33.14, "33.1"), (fmt.rate, 0.87, "0.87"),
        (fmt.per_minute, 2.1 / 60, "2.1"),
        (fmt.latency, 0.072, "72ms"), (fmt.latency, 0.48, "0.48s"), (fmt.latency, 24.14, "24.1s"), (fmt.latency, 130,
        "2m10s"),
        (fmt.bound, 1.0, "1s"), (fmt.bound, 0.08, "80ms"), (fmt.bound, 1.5, "1.5s"),
        (fmt.span, 41, "41s"), (fmt.span, 372, "6m12s"), (fmt.span, 22_320, "6h12m"), (fmt.span, 273_600, "3d4h"),
        (fmt.age, 51, "00:51"), (fmt.age, 2400, "40m"), (fmt.age, 10_800, "3h"), (fmt.age, 864_000, "10d"),
        (fmt.percent, 0.62, "62"), (fmt.burn, 6.12, "6.1x"), (fmt.money, 22.4, "22.4"),
    ],
)  # fmt: skip
def test_a_quantity_is_said_in_its_own_unit(say: Callable[[float], str], value: float, shown: str) -> None:
    assert say(value) == shown


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "say", [fmt.count, fmt.tokens_per_second, fmt.rate, fmt.per_minute, fmt.latency, fmt.bound, fmt.span, fmt.age,
            fmt.percent, fmt.burn, fmt.money, fmt.clock]
)  # fmt: skip
def test_unknown_is_two_dashes_and_never_zero(say: Callable[[float | None], str], unknown: float | None) -> None:
    assert say(unknown) == "--"


def test_nearly_everything_is_not_called_everything() -> None:
    assert fmt.percent(0.99996, 1) == "99.9"
    assert fmt.percent(1.0, 1) == "100.0"


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.972, 0.972, "97.2%"),
        (0.968, 1.0, ">=96.8%"),
        (0.0, 0.12, "<=12.0%"),
        (0.801, 0.894, "80-90%"),
        (0.0, 1.0, "--"),
    ],
)
def test_a_bound_is_shown_as_one_and_rounded_outwards(low: float, high: float, shown: str) -> None:
    assert fmt.share(Interval(low, high)) == shown


def test_a_quantile_in_the_last_bucket_is_at_least_that() -> None:
    assert fmt.latency(8.0, lower_bound=True) == ">8.00s"


def test_times_of_day_are_the_readers() -> None:
    assert fmt.clock(1_764_504_271.0, UTC) == "12:04:31"
    assert fmt.clock(1e18, UTC) == "--"
