"""Every rung of the ladder holds, and a rung that should not hold does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsconsole.simulate import validate
from opsconsole.simulate.queues import Kind, draws, erlang_c, mean_wait, recursion_waits
from opsconsole.simulate.settings import DEFAULT_REPLICA
from opsconsole.simulate.steptime import A100_8B, StepCurve


def test_every_fast_rung_holds() -> None:
    rungs = validate.ladder()
    assert [rung.name for rung in rungs if not rung.ok] == []
    assert len(rungs) >= 15


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "load"), list(validate.FULL))
def test_the_formulas_hold_within_two_percent(kind: Kind, load: float) -> None:
    rung = validate.formula(kind, load, validate.FULL[kind, load], 1)
    assert rung.ok, rung


@pytest.mark.parametrize(("kind", "load", "wait"), [("M/D/1", 0.8, 2.0), ("M/M/1", 0.8, 4.0), ("M/M/4", 0.8, 0.7455)])
def test_known_waits(kind: Kind, load: float, wait: float) -> None:
    assert mean_wait(kind, load) == pytest.approx(wait, rel=1e-3)


def test_the_chance_to_wait_is_erlangs() -> None:
    assert erlang_c(4, 3.2) == pytest.approx(0.596, abs=1e-3)


def test_the_recursion_itself_meets_the_formula_on_a_long_run() -> None:
    waits = recursion_waits("M/D/1", list(draws("M/D/1", 0.8, 400_000, 2)))
    assert sum(waits) / len(waits) == pytest.approx(2.0, rel=0.03)


def test_a_rung_off_by_more_than_its_tolerance_fails() -> None:
    rung = validate.Rung("x", "says", expected=2.0, found=2.05, tolerance=0.02, unit="s", relative=True)
    assert not rung.ok and rung.error == pytest.approx(0.025)
    assert replace(rung, found=2.03).ok
    assert not replace(rung, found=float("nan")).ok


def test_the_default_curve_is_the_published_profile() -> None:
    for tokens, milliseconds in ((1, 9.70), (128, 13.2), (512, 34.6), (2048, 141.8)):
        assert A100_8B.batch_s(tokens) == pytest.approx(1.12e-3 * milliseconds)
    assert A100_8B.seconds(1, 1_000_000) - A100_8B.seconds(1, 0) == pytest.approx(131_072 / 1.44e12 * 1e6)
    assert DEFAULT_REPLICA.kv_tokens == pytest.approx(426_800, rel=1e-3)


def test_a_curve_is_linear_between_points_and_beyond_the_last() -> None:
    curve = StepCurve(((0.0, 1.0), (10.0, 2.0), (20.0, 4.0)))
    assert [curve.batch_s(t) for t in (0, 5, 10, 15, 30)] == pytest.approx([1.0, 1.5, 2.0, 3.0, 6.0])


def test_a_lone_replica_carries_what_the_research_says_within_a_tenth() -> None:
    """1,000 in, 100 out at a TPOT of 50 ms was worked out to be 11.4 requests/s by another route."""
    books = validate._Books(DEFAULT_REPLICA, validate.poisson(30.0, 1500, 1, (1000, 1000), (100, 100)))
    middle = sorted(r.last or 0.0 for r in books.requests)[300:1200]
    assert 900 / (middle[-1] - middle[0]) == pytest.approx(11.4, rel=0.1)
