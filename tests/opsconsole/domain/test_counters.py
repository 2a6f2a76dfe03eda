"""Counters: resets, restarts, gaps and first samples."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.domain.counters import Counter, Point, advance, alternates, increase, is_same, restarted


@pytest.mark.parametrize(
    ("readings", "total", "resets"),
    [
        pytest.param([(100, False)], 0, 0, id="the first sample is a baseline and no increase"),
        pytest.param([(100, False), (130, False)], 30, 0, id="a rise"),
        pytest.param([(100, False), (7, False)], 7, 1, id="a drop adds what was counted since"),
        pytest.param([(100, False), (130, True)], 130, 1, id="a restart adds all, even if the value is higher"),
        pytest.param([(100, False), (None, False), (130, False)], 30, 0, id="a gap loses nothing"),
        pytest.param([(None, False), (100, False)], 0, 0, id="unknown first"),
        pytest.param([(0, False), (5, False), (0, True), (3, False)], 8, 1, id="restart seen at zero"),
    ],
)
def test_totals_across_resets(readings: list[tuple[float | None, bool]], total: float, resets: int) -> None:
    counter: Counter | None = None
    for value, again in readings:
        counter = advance(counter, value, restart=again)
    assert counter is not None
    assert (counter.total, counter.resets) == (total, resets)


@pytest.mark.parametrize(
    ("value", "restart", "total"),
    [
        pytest.param(990.0, False, 0.0, id="a part of the sum left: what is left was counted before"),
        pytest.param(1010.0, False, 10.0, id="a rise is a rise"),
        pytest.param(7.0, True, 7.0, id="a restart that is seen wins"),
    ],
)
def test_a_drop_in_the_same_process_is_no_reset(value: float, restart: bool, total: float) -> None:
    counter = advance(advance(None, 1000.0), value, restart=restart, same=True)
    assert counter is not None
    assert (counter.total, counter.raw) == (total, value)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(5.0, 5.4, True), (5.0, 9.0, False), (None, 5.0, False), (5.0, None, False), (None, None, False)],
)
def test_only_two_known_starts_are_known_to_be_one_process(
    before: float | None, after: float | None, expected: bool
) -> None:
    assert is_same(before, after) is expected


def test_only_unknown_readings_are_unknown() -> None:
    assert advance(None, None) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=30))
def test_a_total_never_falls(values: list[float | None]) -> None:
    counter: Counter | None = None
    last = 0.0
    for value in values:
        counter = advance(counter, value)
        if counter is not None:
            assert counter.total >= last
            last = counter.total


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(5.0, 5.0, False), (5.0, 5.4, False), (5.0, 9.0, True), (None, 9.0, False), (5.0, None, False)],
)
def test_what_is_a_restart(before: float | None, after: float | None, expected: bool) -> None:
    assert restarted(before, after) is expected


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        pytest.param([1.0, 1.0, 1.0], False, id="one process"),
        pytest.param([1.0, 9.0, 30.0], False, id="two restarts"),
        pytest.param([1.0, 9.0, 1.0], True, id="the first comes back"),
        pytest.param([1.0, None, 1.0], False, id="unknown between"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_two_processes_behind_one_address(starts: list[float | None], expected: bool) -> None:
    assert alternates(starts) is expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param((Point(0, 10), Point(10, 60)), (50, 10), id="two points"),
        pytest.param((Point(5, 10), Point(5, 10)), None, id="one point is no rate"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_increase_between_the_ends_of_a_window(
    ends: tuple[Point, Point] | None, expected: tuple[float, float] | None
) -> None:
    assert increase(ends) == expected
