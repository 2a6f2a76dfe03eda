"""What `opsconsole simulate validate` prints of rungs and of the engine."""

from __future__ import annotations

import json

from opsconsole.commands.simulate_validate import as_json, as_text
from opsconsole.simulate.engine_check import CrossCheck, Row
from opsconsole.simulate.steptime import StepCurve
from opsconsole.simulate.validate import Rung

RUNGS = (
    Rung("waits", "mean of many", 2.0, 2.01, 0.02, "s", relative=True),
    Rung("books", "tokens", 5.0, 6.0, 0.0, "tokens"),
)
ENGINE = CrossCheck(StepCurve(((1.0, 0.01),)), 90, 0.02, 0.01, 30, 0.4, (Row("TTFT p50", 0.2, 0.21, 0.05, 0.1),))


def test_every_rung_and_figure_is_a_line() -> None:
    lines = as_text(RUNGS, ENGINE).splitlines()
    assert lines[0] == "holds  waits  2.01 s, expected 2 within 2 %: mean of many"
    assert lines[1].startswith("FAILS  books")
    assert lines[2].startswith("engine: 90 steps fitted to 2.0 % each")
    assert lines[3] == "holds  TTFT p50: engine 0.2 s, simulated 0.21 s, error 5.0 % (at most 10 %)"
    assert len(as_text(RUNGS, None).splitlines()) == 2


def test_the_same_is_told_with_all_digits() -> None:
    found = json.loads(as_json(RUNGS, ENGINE))
    assert [(rung["name"], rung["ok"]) for rung in found["rungs"]] == [("waits", True), ("books", False)]
    assert found["engine"]["ok"] and found["engine"]["rows"][0]["error"] == 0.05
    assert json.loads(as_json(RUNGS, None))["engine"] is None
