"""Bounds as people write them."""

from __future__ import annotations

import pytest

from opsconsole.bench.bounds import Bounds, parse_bounds, parse_duration
from opsconsole.errors import UsageError


def test_bounds_are_read_with_their_units_and_written_back() -> None:
    bounds = parse_bounds("ttft=1s,tpot=80ms,target=95%")
    assert bounds == Bounds(ttft=1.0, tpot=0.08, target=0.95)
    assert parse_bounds(str(bounds)) == bounds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tpot=80", "unit"),
        ("speed=1s", "known are"),
        ("ttft", "not a bound"),
        ("target=95%", "bounds nothing"),
        ("", "bounds nothing"),
        ("ttft=1s,target=120%", "not a share"),
        ("ttft=1s,target=lots", "not a share"),
    ],
)
def test_what_is_no_bound_is_refused_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_bounds(text)


@pytest.mark.parametrize(("text", "seconds"), [("80ms", 0.08), ("1.5s", 1.5), ("2m", 120), ("1h", 3600), ("5us", 5e-6)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
