"""A drain waits for streams, not for one lucky reading, and never past its deadline."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.act.drain import Phase, advance, begin, cut, settled

START = 1000.0


def test_waits_until_streams_end_and_stay_ended() -> None:
    drain = begin("r0", START, 60.0, 3)
    drain = advance(drain, START + 1, 2)
    assert (drain.phase, drain.may_remove) == (Phase.WAITING, False)
    drain = advance(drain, START + 2, 0)
    assert drain.phase is Phase.WAITING, "one idle reading is not the end"
    drain = advance(drain, START + 2.5, 1)
    drain = advance(drain, START + 3, 0)
    assert advance(drain, START + 3.9, 0).phase is Phase.WAITING
    drain = advance(drain, START + 4, 0)
    assert (drain.phase, drain.streams_cut) == (Phase.IDLE, 0)


def test_the_deadline_cuts_what_still_runs_and_counts_it() -> None:
    drain = advance(begin("r0", START, 10.0, 3), START + 10, 2)
    assert (drain.phase, drain.streams_cut, drain.may_remove) == (Phase.OVERDUE, 2, True)
    gone = advance(drain, START + 11, None, exists=False)
    assert (gone.phase, gone.streams_cut) == (Phase.GONE, 2)
    assert settled((gone,)) and cut((gone, gone)) == 4


def test_unknown_is_not_idle() -> None:
    drain = begin("r0", START, 10.0, None)
    for second in range(1, 10):
        drain = advance(drain, START + second, None)
        assert drain.phase is Phase.WAITING
    assert advance(drain, START + 10, None).phase is Phase.OVERDUE


def test_a_reading_missed_between_two_idle_ones_does_not_start_over() -> None:
    drain = advance(begin("r0", START, 60.0, 1), START + 1, 0)
    drain = advance(drain, START + 1.5, None)
    assert advance(drain, START + 2, 0).phase is Phase.IDLE


def test_a_replica_that_vanishes_with_streams_has_cut_them() -> None:
    drain = advance(begin("r0", START, 60.0, 5), START + 1, 4)
    assert advance(drain, START + 2, None, exists=False).streams_cut == 4


def test_streams_that_end_after_the_deadline_passed_are_not_cut_when_it_is_still_there() -> None:
    drain = advance(begin("r0", START, 10.0, 1), START + 10, 1)
    drain = advance(drain, START + 11, 0)
    drain = advance(drain, START + 12, 0)
    assert (drain.phase, drain.streams_cut) == (Phase.IDLE, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=40))
def test_it_may_always_be_removed_after_the_deadline_and_never_sooner_with_streams(readings: list[int | None]) -> None:
    drain = begin("r0", START, 20.0, 1)
    for second, streams in enumerate(readings, 1):
        drain = advance(drain, START + second, streams)
        if drain.may_remove and second < 20:
            assert (streams == 0 and readings[second - 2] != 0) or (streams == 0 and drain.idle_since is not None)
        if second >= 20:
            assert drain.may_remove


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        (None, "r0: an unknown number of streams left"),
        (2, "r0: 2 streams left"),
        (1, "r0: 1 stream left"),
    ],
)
def test_a_drain_says_what_it_waits_for(streams: int | None, words: str) -> None:
    assert begin("r0", START, 60.0, streams).text == words
