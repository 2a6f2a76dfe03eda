"""The random backlog at the limit: books that balance, and what the request level does at the same load."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest

from opsconsole.simulate.brink import Brink
from opsconsole.simulate.latency import LIMIT, Latency, jitter
from opsconsole.simulate.settings import DEFAULT_REPLICA, SloBounds
from opsconsole.simulate.traces import ASSUMED

READY, BIN_S = 8, 10.0
LATENCY = Latency(DEFAULT_REPLICA, ASSUMED, SloBounds())


def through_bins(brink: Brink, backlog: float, work: float, bins: int, pieces: int = 4) -> list[float]:
    """The backlog at the end of every bin."""
    ends = []
    for _ in range(bins):
        for piece in range(pieces):
            left = BIN_S * (pieces - 1 - piece) / pieces
            backlog = brink.after(backlog, READY, work, BIN_S / pieces, left, 3)
        ends.append(backlog)
    return ends


def test_below_the_limit_a_backlog_drains_as_the_flow_says_and_nothing_is_drawn() -> None:
    brink, work = Brink(LATENCY, 1), (LIMIT - 0.04) * READY
    assert through_bins(brink, 2.0, work, 1) == [pytest.approx(max(0.0, 2.0 + (work - READY) * BIN_S))]
    assert brink.after(0.0, READY, work, 5.0, 5.0, 3) == 0.0


def test_with_nobody_to_serve_all_work_waits() -> None:
    assert Brink(LATENCY, 1).after(1.0, 0, 3.0, 2.0, 8.0, 3) == 7.0


def test_a_bin_brings_what_it_brings_so_far_from_zero_chance_is_gone_at_its_end() -> None:
    for seed in range(20):
        (end,) = through_bins(Brink(LATENCY, seed), 500.0, READY * 1.02, 1)
        assert end == pytest.approx(500.0 + 0.02 * READY * BIN_S)


def test_no_path_is_negative_or_below_what_the_even_flow_leaves() -> None:
    for seed in range(20):
        ends = through_bins(Brink(LATENCY, seed), 0.0, READY * 1.0, 12)
        assert all(end >= 0.0 for end in ends)
        assert all(after >= before - 1e-9 for before, after in pairwise(ends))


def test_at_the_limit_a_fleet_falls_behind_by_what_it_was_idle_for() -> None:
    """The mean of the lowest point of a Brownian bridge, sqrt(pi / 8) of its spread over the bin."""
    spread = (jitter(LATENCY, READY, 3) * BIN_S) ** 0.5 * READY
    ends = [through_bins(Brink(LATENCY, seed), 0.0, float(READY), 1)[0] for seed in range(800)]
    assert fmean(ends) == pytest.approx((3.141592653589793 / 8) ** 0.5 * spread, rel=0.08)


def test_the_same_seed_gives_the_same_path() -> None:
    one, two, other = (through_bins(Brink(LATENCY, seed), 0.0, float(READY), 5) for seed in (1, 1, 2))
    assert one == two != other
