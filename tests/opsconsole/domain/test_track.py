"""One replica's past: restarts, layouts, outcomes and gauges that stand still."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from opsconsole.domain.records import Buckets, Sample
from opsconsole.domain.track import Track


def page(at: float, **facts: Any) -> Sample:
    return Sample("r", at, **facts)


def follow(*pages: Sample) -> Track:
    track = Track()
    for each in pages:
        track = track.extend(each, keep_s=60.0)
    return track


def histogram(*counts: float, bounds: tuple[float, ...] = (1.0, 2.0)) -> Buckets:
    return Buckets((*bounds, math.inf), counts, counts[-1] * 1.0)


def test_arrivals_are_started_plus_growth_of_the_queue_plus_rejected() -> None:
    track = follow(
        page(0.0, waiting=0.0, requests_started=0.0, requests_rejected=0.0),
        page(10.0, waiting=20.0, requests_started=50.0, requests_rejected=10.0),
    )
    assert track.arrivals(0.0) == pytest.approx(5.0 + 2.0 + 1.0)
    assert track.growth(0.0) == 2.0


def test_without_a_started_counter_arrivals_come_from_finished_and_what_is_inside() -> None:
    track = follow(
        page(0.0, waiting=0.0, running=5.0, requests_finished=0.0),
        page(10.0, waiting=10.0, running=15.0, requests_finished=40.0),
    )
    assert track.arrivals(0.0) == pytest.approx(4.0 + 2.0)


@pytest.mark.parametrize(
    ("starts", "rate"),
    [
        pytest.param((7.0, 7.0), 0.0, id="one process: a rank left, nothing arrived"),
        pytest.param((7.0, 9.0), 900.0, id="another process: all of it since"),
        pytest.param((None, None), 900.0, id="not told: taken for a reset, as Prometheus takes it"),
    ],
)
def test_a_sum_that_loses_a_part_is_no_burst_of_arrivals(
    starts: tuple[float | None, float | None], rate: float
) -> None:
    track = follow(
        page(0.0, requests_started=10_000.0, process_start=starts[0]),
        page(10.0, requests_started=9_000.0, process_start=starts[1]),
    )
    assert track.arrivals(0.0) == rate


def test_a_draining_queue_never_makes_arrivals_negative() -> None:
    track = follow(page(0.0, waiting=90.0, requests_started=0.0), page(10.0, waiting=0.0, requests_started=50.0))
    assert track.arrivals(0.0) == 0.0


def test_nothing_counted_means_arrivals_are_unknown() -> None:
    assert follow(page(0.0, waiting=1.0), page(10.0, waiting=9.0)).arrivals(0.0) is None
    assert follow(page(0.0)).growth(0.0) is None


def test_unknown_pages_inside_the_window_are_bridged_and_older_ones_left_out() -> None:
    track = follow(
        page(0.0, output_tokens=0.0),
        page(10.0),
        page(20.0, output_tokens=40.0),
        page(30.0, output_tokens=70.0),
        page(40.0),
    )
    assert track.amount("output_tokens", 0.0) == (70.0, 30.0)
    assert track.amount("output_tokens", 5.0) == (30.0, 10.0)
    assert track.rate("output_tokens", 25.0) is None
    assert track.rate("output_tokens", 35.0) is None


def test_a_restart_keeps_what_was_counted() -> None:
    track = follow(
        page(0.0, process_start=1.0, output_tokens=100.0),
        page(10.0, process_start=1.0, output_tokens=200.0),
        page(20.0, process_start=15.0, output_tokens=250.0),
    )
    assert track.amount("output_tokens", 0.0) == (350.0, 20.0)


def test_histograms_survive_a_restart() -> None:
    track = follow(
        page(0.0, process_start=1.0, ttft=histogram(10, 10, 10)),
        page(10.0, process_start=1.0, ttft=histogram(15, 20, 20)),
        page(20.0, process_start=15.0, ttft=histogram(1, 2, 3)),
    )
    assert track.window("ttft", 0.0) == histogram(6, 12, 13)
    assert track.window("ttft", 5.0) == histogram(1, 2, 3)


def test_a_reset_without_a_start_time_is_seen_by_the_drop() -> None:
    track = follow(page(0.0, ttft=histogram(10, 10, 10)), page(10.0, ttft=histogram(1, 2, 3)))
    assert track.window("ttft", 0.0) == histogram(1, 2, 3)


def test_a_new_layout_starts_a_new_era() -> None:
    other = (0.5, 4.0)
    track = follow(
        page(0.0, ttft=histogram(10, 10, 10)),
        page(10.0, ttft=histogram(1, 1, 1, bounds=other)),
        page(20.0, ttft=histogram(2, 4, 5, bounds=other)),
    )
    assert track.window("ttft", 0.0) == histogram(1, 3, 4, bounds=other)


def test_one_page_has_no_window() -> None:
    assert follow(page(0.0, ttft=histogram(1, 1, 1))).window("ttft", 0.0) is None


def test_an_unsound_histogram_is_not_kept() -> None:
    track = follow(page(0.0, ttft=histogram(3, 2, 1)), page(10.0, ttft=histogram(5, 4, 3)))
    assert track.window("ttft", 0.0) is None


def test_outcomes_that_first_appear_later_have_counted_from_zero() -> None:
    track = follow(
        page(0.0, slo_outcomes={}),
        page(10.0, slo_outcomes={"chat/met": 3.0}),
        page(20.0, slo_outcomes={"chat/met": 5.0, "chat/missed": 1.0}),
    )
    assert track.outcomes(0.0) == {"chat/met": 5.0, "chat/missed": 1.0}
    assert track.outcomes(5.0) == {"chat/met": 2.0, "chat/missed": 1.0}


def test_outcomes_at_first_sight_are_a_baseline() -> None:
    track = follow(page(0.0, slo_outcomes={"chat/met": 300.0}), page(10.0, slo_outcomes={"chat/met": 305.0}))
    assert track.outcomes(0.0) == {"chat/met": 5.0}


def test_outcomes_that_nobody_tells_are_unknown() -> None:
    assert follow(page(0.0), page(10.0)).outcomes(0.0) is None


def test_the_same_page_twice_changes_nothing() -> None:
    track = follow(page(0.0, output_tokens=1.0))
    assert track.extend(page(0.0, output_tokens=9.0), 60.0) is track


def test_old_marks_are_forgotten() -> None:
    track = follow(*(page(float(at), output_tokens=1.0) for at in range(0, 200, 10)))
    assert [m.at for m in track.marks] == [130.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0]


def test_of_pages_that_come_every_second_a_few_stand_for_the_window_and_the_last_two_stay() -> None:
    pages = [page(float(at), output_tokens=3.0 * at, ttft=histogram(at, 2 * at, 4 * at)) for at in range(200)]
    track = follow(*pages)
    times = [m.at for m in track.marks]
    assert len(times) <= 15 and times[-2:] == [198.0, 199.0]
    assert times[0] - 139.0 <= 5.0, "the window is a twelfth shorter at most"
    assert max(b - a for a, b in pairwise(times)) <= 5.0
    assert track.rate("output_tokens", 139.0) == 3.0
    assert track.window("ttft", 198.0) == histogram(1, 2, 4)


def test_gauges_that_stand_still_while_they_show_load_are_noticed() -> None:
    track = follow(*(page(10.0 * i, running=5.0, output_tokens=100.0) for i in range(4)))
    assert (track.still_since, track.still_pages) == (0.0, 3)


def test_what_only_arrives_does_not_move_an_engine_that_hangs() -> None:
    track = follow(*(page(10.0 * i, waiting=9.0, output_tokens=100.0, requests_rejected=float(i)) for i in range(4)))
    assert (track.still_since, track.still_pages) == (0.0, 3)
    told_nothing_else = follow(*(page(10.0 * i, waiting=9.0, requests_rejected=float(i)) for i in range(4)))
    assert told_nothing_else.still_since is None


@pytest.mark.parametrize(
    "last",
    [
        pytest.param({"running": 5.0, "output_tokens": 101.0}, id="a counter moved"),
        pytest.param({"running": 0.0, "output_tokens": 100.0}, id="no load is shown"),
        pytest.param({"running": 5.0}, id="no counter is told"),
    ],
)
def test_moving_counters_or_idle_gauges_are_not_frozen(last: dict[str, float]) -> None:
    track = follow(*(page(10.0 * i, running=5.0, output_tokens=100.0) for i in range(4)), page(40.0, **last))
    assert (track.still_since, track.still_pages) == (None, 0)


def test_alternating_processes_are_a_conflict_and_restarts_are_not() -> None:
    def starts(*values: float) -> Track:
        return follow(*(page(10.0 * i, process_start=v, output_tokens=1.0) for i, v in enumerate(values)))

    assert starts(1.0, 50.0, 1.0).conflict is not None
    assert starts(1.0, 50.0, 90.0).conflict is None


def test_what_is_worked_out_is_not_kept_for_ever_of_a_silent_replica() -> None:
    track = follow(*(page(10.0 * i, output_tokens=100.0 * i) for i in range(4)))
    for tick in range(10_000):
        assert track.rate("output_tokens", -60.0 - tick) == 10.0
        track.window("ttft", -60.0 - tick)
    assert len(track.windows) <= 64
