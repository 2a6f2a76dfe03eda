"""Cells kept by their inputs, and a knob turned until the target is crossed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opsconsole.errors import UsageError
from opsconsole.simulate.backtest import Stage, run, stage
from opsconsole.simulate.cells import Drawer, code_version
from opsconsole.simulate.knobs import KNOBS
from opsconsole.simulate.proof import LAWS, Entry, run_proof
from opsconsole.simulate.settings import SloBounds
from opsconsole.simulate.sweep import Bench, static_values, sweep
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
