"""A run in the database: what goes in comes out of the view, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Ending, Record
from opsconsole.bench.goodput import summarise
from opsconsole.local.runs import RunLog, read_summary, summary_lines

BOUNDS = Bounds(ttft=0.5, tpot=0.08)


def record(index: int, ending: Ending = Ending.OK, ttft: float | None = 0.25) -> Record:
    return Record(
        index=index, intended=float(index), sent=index + 0.01, ending=ending, ttft=ttft,
        tpot=0.0625, e2e=1.0 if ttft is None else ttft + 0.75, output_tokens=13, prompt_tokens=100, worker="w1",
    )  # fmt: skip


def test_the_view_agrees_with_the_arithmetic_of_the_bench(tmp_path: Path) -> None:
    database = tmp_path / "opsconsole.db"
    records = [record(index, ttft=0.25 + index / 64) for index in range(30)]
    records += [record(30, Ending.CUT), record(31, Ending.REFUSED, None), record(32, Ending.TIMEOUT, 5.0)]
    log = RunLog(database, "run", BOUNDS)
    log.open(1000.0, "burst", {"sustained": 2.0})
    for each in records:
        log.add(each)
    log.close(1040.0)
    found, summed = read_summary(database, "run"), summarise(records, BOUNDS, 40.0)
    assert (found["offered"], found["completed"], found["failed"], found["streams_cut"]) == (33, 30, 3, 1)
    assert summed.attainment is not None
    assert found["attainment"] == pytest.approx(summed.attainment.value)
    assert found["goodput"] == pytest.approx(summed.goodput)
    assert found["tpot_p50"] == pytest.approx(summed.tpot.p50)
    assert found["ttft_p99"] is None and found["tpot_p99"] is None
    assert (found["scale_ups"], found["drains"], found["starts"]) == (0, 0, [])
    assert "offered 33, completed 30, failed 3, streams cut 1" in summary_lines(found)


def test_segments_of_an_endless_load_do_not_overwrite_each_other(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "opsconsole.db", "run", BOUNDS)
    log.open(1000.0, "steady", {})
    for segment in range(3):
        log.begin_segment(1000.0 + 3600 * segment, segment)
        log.add(record(0))
    log.close(9000.0)
    assert read_summary(tmp_path / "opsconsole.db", "run")["offered"] == 3


def test_a_run_without_load_has_a_summary_without_shares(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "opsconsole.db", "run", BOUNDS)
    log.open(1000.0, None, {})
    log.close(1010.0)
    found = read_summary(tmp_path / "opsconsole.db", "run")
    assert (found["offered"], found["attainment"], found["duration_s"]) == (0, None, 10.0)
    assert summary_lines(found)[0] == "no request was offered by the built-in load"


def test_a_start_is_told_by_phase() -> None:
    start = {"worker": "w2", "seconds": 8.5, "phases": {"load": 7.5, "warm": 1.0}}
    lines = summary_lines({"offered": 0, "scale_ups": 1, "drains": 1, "starts": [start]})
    assert lines[-1] == "w2 useful 8.5 s after its decision (load 7.5 s, warm 1.0 s)"
