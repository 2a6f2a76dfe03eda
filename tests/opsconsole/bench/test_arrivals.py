"""Arrivals: the rates asked for, in the shapes asked for, from a seed; traces read as they are."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from opsconsole.bench import arrivals
from opsconsole.bench.arrivals import Arrival, Phase
from opsconsole.errors import UsageError


def between(found: tuple[Arrival, ...], low: float, high: float) -> int:
    return sum(low <= a.at < high for a in found)


def test_constant_arrivals_are_evenly_spaced_from_zero() -> None:
    assert [a.at for a in arrivals.constant(2.0, 2.0)] == [0.0, 0.5, 1.0, 1.5]
    assert arrivals.constant(0.0, 2.0) == ()


def test_poisson_arrivals_have_the_rate_and_the_scatter_of_independent_users() -> None:
    found = arrivals.poisson(10.0, 1000.0, Random(1))
    counts = [between(found, second, second + 1) for second in range(1000)]
    mean = sum(counts) / 1000
    variance = sum((count - mean) ** 2 for count in counts) / 1000
    assert mean == pytest.approx(10.0, rel=0.05)
    assert variance == pytest.approx(mean, rel=0.2)


def test_the_same_seed_gives_the_same_arrivals_and_another_does_not() -> None:
    assert arrivals.poisson(5.0, 10.0, Random(3)) == arrivals.poisson(5.0, 10.0, Random(3))
    assert arrivals.poisson(5.0, 10.0, Random(3)) != arrivals.poisson(5.0, 10.0, Random(4))


def test_phases_change_the_rate_at_their_times() -> None:
    found = arrivals.phased((Phase(100, 2.0), Phase(100, 10.0), Phase(100, 0.0)), Random(2))
    assert between(found, 0, 100) == pytest.approx(200, rel=0.2)
    assert between(found, 100, 200) == pytest.approx(1000, rel=0.15)
    assert between(found, 200, 301) == 0
    assert [a.at for a in found] == sorted(a.at for a in found)


def test_on_and_off_alternate_and_end_with_the_run() -> None:
    found = arrivals.on_off(20.0, 25.0, Random(5), on=5.0, off=5.0)
    assert between(found, 5, 10) == between(found, 15, 20) == 0
    assert between(found, 20, 25) > 50
    assert all(a.at < 25 for a in found)


def test_a_day_is_quiet_at_night_and_busy_at_noon() -> None:
    found = arrivals.diurnal(1.0, 9.0, 400.0, Random(6), period=100.0)
    night = sum(between(found, day, day + 10) + between(found, day + 90, day + 100) for day in (0, 100, 200, 300))
    noon = sum(between(found, day + 40, day + 60) for day in (0, 100, 200, 300))
    assert noon > 4 * night
    assert len(found) == pytest.approx(5 * 400, rel=0.1)


def test_a_trace_of_requests_keeps_its_times_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_seconds,prompt_tokens,output_tokens\n10.0,4808,10\n10.5,110,27\n90,1,1\n")
    found = arrivals.read_trace(path, 30.0, Random(1))
    assert found == (Arrival(0.0, 4808, 10), Arrival(0.5, 110, 27))


def test_a_trace_of_bins_spreads_its_requests_and_shares_the_tokens(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("t_seconds,requests,prompt_tokens,output_tokens\n0,4,400,40\n10,0,0,0\n20,2,20,2\n")
    found = arrivals.read_trace(path, 100.0, Random(1))
    assert between(found, 0, 10) == 4 and between(found, 10, 20) == 0 and between(found, 20, 30) == 2
    assert {(a.prompt_tokens, a.output_tokens) for a in found} == {(100, 10), (10, 1)}


def test_a_trace_is_scaled_to_a_rate_without_stretching_time(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("t_seconds,requests\n" + "".join(f"{t},{10 if t < 500 else 1}\n" for t in range(0, 1000, 10)))
    found = arrivals.read_trace(path, 1000.0, Random(1), rate=2.0)
    assert len(found) == pytest.approx(2000, rel=0.1)
    assert between(found, 0, 500) > 5 * between(found, 500, 1000)


@pytest.mark.parametrize(
    "content", ["", "when,what\n1,2\n", "t_seconds\nnoon\n"], ids=["empty", "no column", "no number"]
)
def test_what_is_no_trace_is_refused_with_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match="trace"):
        arrivals.read_trace(path, 10.0, Random(1))


def test_a_trace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        arrivals.read_trace(tmp_path / "none.csv", 10.0, Random(1))
