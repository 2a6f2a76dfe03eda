"""Cells kept by their inputs, and a knob turned until the target is crossed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.errors import UsageError
from opsconsole.simulate.backtest import Stage, run, stage
from opsconsole.simulate.cells import Drawer, code_version
from opsconsole.simulate.knobs import KNOBS
from opsconsole.simulate.proof import LAWS, Entry, run_proof
from opsconsole.simulate.settings import SloBounds
from opsconsole.simulate.sweep import STEP, Bench, Bracket, _around, static_values, sweep
from opsconsole.simulate.traces import Kind, Trace
from policies.registry import names


@pytest.fixture(scope="module")
def found() -> Stage:
    counts = np.random.default_rng(1).poisson(400 + 200 * np.sin(np.arange(1080) / 100.0)).astype(np.float64)
    return stage(Trace("wave", Kind.SYNTHETIC, 10.0, counts), forecast=False)


def test_a_cell_is_run_once_for_the_same_inputs(found: Stage, tmp_path: Path) -> None:
    bench = Bench(found, 120.0, SloBounds(), drawer=Drawer(tmp_path))
    first = bench.cell("keda-epp")
    (file,) = tmp_path.iterdir()
    kept = json.loads(file.read_text())
    assert kept["inputs"]["policy"] == "keda-epp"
    kept["outcome"]["gpu_hours"] = 1.5
    file.write_text(json.dumps(kept))
    assert bench.cell("keda-epp").outcome["gpu_hours"] == 1.5
    assert bench.cell("keda-epp", 20.0).outcome["gpu_hours"] != 1.5
    assert Bench(found, 300.0, SloBounds(), drawer=Drawer(tmp_path)).cell("keda-epp").outcome["gpu_hours"] != 1.5
    assert len(list(tmp_path.iterdir())) == 3
    assert first.point.gpu_hours > 0


@pytest.mark.parametrize("text", ["", '{"inputs": {}, "outc', '{"inputs": {}}', "[]"])
def test_a_cell_that_was_cut_short_on_the_disk_is_run_again(found: Stage, tmp_path: Path, text: str) -> None:
    bench = Bench(found, 120.0, SloBounds(), drawer=Drawer(tmp_path))
    first = bench.cell("static")
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    file.write_text(text)
    assert bench.cell("static").outcome == first.outcome
    assert file.read_text() == whole


def test_code_versions_differ_by_what_can_change_a_figure() -> None:
    assert code_version("keda-epp") == code_version("kpa")
    assert code_version("reactive") != code_version("keda-epp")
    assert code_version("predictive") != code_version("reactive")
    assert code_version("reactive", "request") != code_version("reactive")


def test_a_sweep_ends_with_two_neighbours_around_the_target(found: Stage) -> None:
    cells = sweep(Bench(found, 120.0, SloBounds()), "static")
    values = static_values(Bench(found, 120.0, SloBounds()))
    by_knob = {c.knob: c.point.attainment for c in cells if c.knob is not None}
    met = [v for v in by_knob if by_knob[v] >= 0.99]
    lost = [v for v in by_knob if by_knob[v] < 0.99]
    assert values.index(min(met)) == values.index(max(lost)) + 1
    assert len(cells) <= 2 + len(values).bit_length()


def searched(bracket: Bracket, attained: list[float]) -> tuple[Bracket, list[int]]:
    """The bracket at the end, and the places that were tried on the way."""
    tried: list[int] = []
    while (place := bracket.next()) is not None:
        assert bracket.low < place < bracket.high
        tried.append(place)
        bracket = bracket.after(place, attained[place])
        assert len(tried) <= bracket.count
    return bracket, tried


SHARES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=24)


@settings(max_examples=60, deadline=None)
@given(SHARES, st.floats(0.5, 0.999), st.data())
def test_a_bracket_closes_around_the_target_where_attainment_rises(
    shares: list[float], target: float, data: st.DataObject
) -> None:
    attained = sorted(shares)
    start = Bracket(target, len(attained), -1, len(attained))
    if data.draw(st.booleans(), "the published value is known"):
        place = data.draw(st.integers(0, len(attained) - 1))
        start = start.after(place, attained[place])
    found, _ = searched(start, attained)
    assert found.high == found.low + 1
    assert found.high == sum(share < target for share in attained)
    assert found.low == -1 or found.at_low == attained[found.low]
    assert found.high == len(attained) or found.at_high == attained[found.high]


@settings(max_examples=60, deadline=None)
@given(SHARES, st.floats(0.5, 0.999))
def test_a_law_that_swings_ends_the_search_at_a_crossing_and_no_place_is_tried_twice(
    attained: list[float], target: float
) -> None:
    found, tried = searched(Bracket(target, len(attained), -1, len(attained)), attained)
    assert len(tried) == len(set(tried))
    assert found.high == found.low + 1
    assert found.low == -1 or attained[found.low] < target
    assert found.high == len(attained) or attained[found.high] >= target


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 60), st.floats(0.9, 0.999), st.floats(0.2, 1.5))
def test_where_misses_fall_by_a_steady_factor_the_line_finds_the_place_at_once(
    count: int, target: float, factor: float
) -> None:
    """Misses e^-(factor x place): with both ends known, the first place tried is next to the crossing."""
    attained = [1.0 - np.exp(-factor * (place + 1)) for place in range(count)]
    crossing = sum(share < target for share in attained)
    if not 0 < crossing < count - 1 or attained[-1] > 1.0 - 1e-6:
        return
    known = Bracket(target, count, 0, count - 1, attained[0], attained[-1], tried=1)
    _, tried = searched(known, attained)
    assert abs(tried[0] - crossing) <= 1
    assert len(tried) <= 3


@pytest.mark.parametrize(
    ("bracket", "place"),
    [
        pytest.param(Bracket(0.99, 9, -1, 9), 4, id="nothing is known: the middle"),
        pytest.param(Bracket(0.99, 9, 2, 9, at_low=0.9), 2 + STEP, id="too stingy: some steps up"),
        pytest.param(Bracket(0.99, 9, 7, 9, at_low=0.9), 8, id="too stingy, little left: the most generous"),
        pytest.param(Bracket(0.99, 9, 5, 9, at_low=0.9, tried=1), 8, id="still too stingy: the most generous"),
        pytest.param(Bracket(0.99, 9, -1, 8, at_high=1.0), 8 - STEP, id="met: some steps down"),
        pytest.param(Bracket(0.99, 20, -1, 15, at_high=1.0, tried=1), 15 - 2 * STEP, id="met again: further down"),
        pytest.param(Bracket(0.99, 9, -1, 2, at_high=1.0), 0, id="met, little left: the stingiest"),
        pytest.param(Bracket(0.99, 9, 0, 8, 0.9, 0.999), 4, id="misses 10 %, 0.1 %: 1 % is half way in logarithms"),
        pytest.param(Bracket(0.99, 9, 0, 8, 0.0, 0.99), 7, id="met exactly: never an end itself"),
        pytest.param(Bracket(0.99, 9, 0, 8, 0.9899, 1.0), 1, id="nearly met: the next one"),
        pytest.param(Bracket(0.99, 9, 0, 8, 0.5, 0.5), 4, id="no slope: the middle"),
        pytest.param(Bracket(0.99, 9, 3, 4, 0.9, 1.0), None, id="neighbours: done"),
        pytest.param(Bracket(0.99, 9, 8, 9, 0.9), None, id="not even the most generous"),
        pytest.param(Bracket(0.99, 9, -1, 0, at_high=1.0), None, id="even the stingiest"),
        pytest.param(Bracket(0.99, 0, -1, 0), None, id="no values"),
    ],
)
def test_the_next_value_follows_from_what_is_known(bracket: Bracket, place: int | None) -> None:
    assert bracket.next() == place


@pytest.mark.parametrize(
    ("values", "published", "attained", "ends"),
    [
        pytest.param((1.0, 2.0, 3.0, 4.0), 3.0, 0.995, (-1, 2), id="it meets: nothing more generous is tried"),
        pytest.param((1.0, 2.0, 3.0, 4.0), 3.0, 0.5, (2, 4), id="it misses: nothing stingier is tried"),
        pytest.param((8.0, 4.0, 2.0, 1.0), 4.0, 0.5, (1, 4), id="a knob that is generous where it is small"),
        pytest.param((8.0, 4.0, 2.0, 1.0), 4.0, 0.995, (-1, 1), id="and meets"),
        pytest.param((1.0, 2.0, 3.0, 4.0), 2.5, 0.5, (1, 4), id="between two values, missed: both above are open"),
        pytest.param((1.0, 2.0, 3.0, 4.0), 2.5, 0.995, (-1, 2), id="between two values, met: the one above meets too"),
        pytest.param((1.0, 2.0, 3.0, 4.0), None, 0.5, (-1, 4), id="a law without a published value"),
        pytest.param((1.0, 2.0), 9.0, 0.5, (1, 2), id="above all values, missed"),
    ],
)
def test_a_search_begins_around_the_published_value(
    values: tuple[float, ...], published: float | None, attained: float, ends: tuple[int, int]
) -> None:
    bracket = _around(values, published, attained, 0.99)
    assert (bracket.low, bracket.high) == ends
    assert bracket.tried == 0


def test_every_law_of_the_proof_has_a_knob_or_knows_the_future() -> None:
    assert set(LAWS) == set(names())
    assert set(LAWS) - set(KNOBS) == {"oracle", "bound"}
    for name, knob in KNOBS.items():
        rising = list(knob.values) == sorted(knob.values)
        assert rising or list(knob.values) == sorted(knob.values, reverse=True), name


def test_an_unknown_policy_names_the_known_ones(found: Stage) -> None:
    with pytest.raises(UsageError, match="policy 'magic' is unknown: use one of bound, dynamo-arima"):
        run(found, "magic", 120.0)


def test_a_short_trace_names_the_length_needed() -> None:
    with pytest.raises(UsageError, match="spans 300 s: a backtest needs 600 s or more"):
        stage(Trace("short", Kind.SYNTHETIC, 10.0, np.ones(30)), forecast=False)


def test_a_proof_is_written_again_from_its_cells_byte_for_byte(tmp_path: Path) -> None:
    counts = np.random.default_rng(1).poisson(40, 400)
    rows = "".join(f"{10 * i},{n}\n" for i, n in enumerate(counts))
    (tmp_path / "a.csv").write_text("t_seconds,requests\n" + rows)
    lines: list[str] = []
    out, cache = tmp_path / "out", tmp_path / "cache"

    def once() -> tuple[str, bytes]:
        text = run_proof(
            tmp_path, cache, out, [60.0], 1, lines.append, ("oracle", "static", "keda-epp"), (Entry("a.csv"),), ()
        )
        return text, (out / "proof.json").read_bytes()

    first = once()
    kept = {path: path.stat().st_mtime_ns for path in (cache / "cells").iterdir()}
    second = once()
    assert first == second
    assert kept == {path: path.stat().st_mtime_ns for path in (cache / "cells").iterdir()}
    assert "not run yet" in first[0] and "nothing missed so far" in first[0]
    assert "<svg" in (out / "proof.html").read_text()
    with pytest.raises(UsageError, match=r"lacks b\.csv"):
        run_proof(tmp_path, cache, out, [60.0], 1, lines.append, ("oracle",), (Entry("b.csv"),), ())
