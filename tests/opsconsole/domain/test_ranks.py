"""Ranks that stand still with load while others move, and all that looks like it and is not."""

from __future__ import annotations

import pytest

from opsconsole.domain.ranks import Standing, stalled, stood
from opsconsole.domain.records import RankLoad, Sample

Told = tuple[float | None, float | None]  # running, steps


def followed(*pages: tuple[Told, ...]) -> dict[str, Standing]:
    """Pages ten seconds apart; of each, what every rank told."""
    standings: dict[str, Standing] = {}
    for number, told in enumerate(pages):
        ranks = tuple(RankLoad(str(rank), running, 0.0, steps) for rank, (running, steps) in enumerate(told))
        standings = stood(standings, Sample("r", 10.0 * number, ranks=ranks))
    return standings


def found(*pages: tuple[Told, ...], patience_s: float = 15.0) -> dict[str, float]:
    return stalled(followed(*pages), 10.0 * (len(pages) - 1), patience_s)


def test_a_rank_that_stands_still_with_load_is_told_with_its_seconds() -> None:
    pages = [((4.0, 100.0 + n), (2.0, 50.0)) for n in range(4)]
    assert found(*pages[:2]) == {}
    assert found(*pages[:3]) == {"1": 20.0}
    assert found(*pages) == {"1": 30.0}
    assert found(*pages, patience_s=40.0) == {}


def test_it_is_still_told_when_the_others_have_finished() -> None:
    assert found(((4.0, 1.0), (2.0, 50.0)), ((4.0, 9.0), (2.0, 50.0)), ((0.0, 9.0), (2.0, 50.0))) == {"1": 20.0}


def test_several_of_them_are_all_told() -> None:
    assert found(*[((1.0, float(n)), (1.0, 5.0), (1.0, 6.0)) for n in range(3)]) == {"1": 20.0, "2": 20.0}


def test_one_that_waits_and_runs_nothing_is_loaded_too() -> None:
    standings: dict[str, Standing] = {}
    for at in (0.0, 20.0):
        ranks = (RankLoad("0", 1.0, 0.0, at), RankLoad("1", 0.0, 3.0, 5.0))
        standings = stood(standings, Sample("r", at, ranks=ranks))
    assert stalled(standings, 20.0, 15.0) == {"1": 20.0}


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([((1.0, 5.0), (0.0, 5.0)), ((1.0, 6.0), (0.0, 5.0)), ((1.0, 7.0), (0.0, 5.0))], id="idle"),
        pytest.param([((1.0, 5.0), (1.0, 5.0))] * 4, id="all still: that is the replica's own state"),
        pytest.param([((1.0, 5.0), (1.0, 5.0)), ((1.0, 6.0), (1.0, 6.0)), ((1.0, 7.0), (1.0, 7.0))], id="all move"),
        pytest.param([((1.0, 5.0), (1.0, 5.0)), ((1.0, 6.0), (0.0, 5.0)), ((1.0, 7.0), (1.0, 5.0))], id="load anew"),
        pytest.param([((1.0, 5.0), (1.0, 5.0)), ((1.0, 6.0), (1.0, None)), ((1.0, 7.0), (1.0, 5.0))], id="a gap"),
        pytest.param([((1.0, 5.0), (1.0, None)), ((1.0, 6.0), (1.0, None)), ((1.0, 7.0), (1.0, None))], id="unknown"),
        pytest.param([((1.0, 5.0), (None, 5.0)), ((1.0, 6.0), (None, 5.0)), ((1.0, 7.0), (None, 5.0))], id="no load"),
        pytest.param([((1.0, 5.0), (1.0, 90.0)), ((1.0, 6.0), (1.0, 90.0)), ((1.0, 7.0), (1.0, 2.0))], id="restart"),
        pytest.param([((1.0, 5.0),), ((1.0, 5.0),), ((1.0, 5.0),)], id="one rank"),
    ],
)
def test_what_is_idle_moving_unknown_or_alone_is_not(pages: list[tuple[Told, ...]]) -> None:
    assert found(*pages) == {}


def test_ranks_that_are_no_longer_told_are_forgotten() -> None:
    assert set(followed(((1.0, 5.0), (1.0, 5.0)), ((1.0, 6.0),))) == {"0"}
