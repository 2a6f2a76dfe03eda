"""Pages that public tools have read wrongly, each with its right values, read as doctor reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opsconsole.observe.diagnosis import diagnose, read_page, time_in
from opsconsole.observe.dialects.normalise import new_memo

DATA = Path(__file__).parents[2] / "data" / "dialects"
CASES = json.loads((DATA / "cases.json").read_text())


def diagnosed(pages: list[str]) -> dict[str, Any]:
    memo = new_memo()
    bodies = [(DATA / page).read_bytes() for page in pages]
    return diagnose("replica", [read_page(body, time_in(body), memo) for body in bodies])


def assert_equal(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, Mapping):
        assert isinstance(found, Mapping), f"{where}: {found!r}"
        for key, value in expected.items():
            assert_equal(found[key], value, f"{where}.{key}")
    elif isinstance(expected, float | int):
        assert found == pytest.approx(expected, rel=0.01), where
    elif where.endswith("flags"):
        assert set(expected) <= set(found), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['case']} {case['title']}")
def test_a_page_with_a_reported_hazard_is_read_right(case: dict[str, Any]) -> None:
    report = diagnosed(case["pages"])
    for key, value in case["expected"].items():
        assert_equal(report[key], value, f"case {case['case']} {key}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_doctor_prints_the_same_as_json(case: dict[str, Any]) -> None:
    from opsconsole.cli import app

    done = CliRunner().invoke(app, ["doctor", *(str(DATA / page) for page in case["pages"]), "--output", "json"])
    report = json.loads(done.stdout)
    for key, value in case["expected"].items():
        assert_equal(report[key], value, f"case {case['case']} {key}")
    assert done.exit_code == (1 if report["engine"] is None or report["error"] else 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_a_page_whose_lines_lost_their_last_end_is_read_the_same(case: dict[str, Any]) -> None:
    memo = new_memo()
    bodies = [(DATA / page).read_bytes().rstrip(b"\n") for page in case["pages"]]
    report = diagnose("replica", [read_page(body, time_in(body), memo) for body in bodies])
    for key, value in case["expected"].items():
        assert_equal(report[key], value, f"case {case['case']} {key}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_a_page_that_went_through_an_openmetrics_negotiation_is_read_the_same(case: dict[str, Any]) -> None:
    memo = new_memo()
    bodies = [(DATA / page).read_bytes() for page in case["pages"]]
    folded = [body.replace(b"vllm:", b"vllm_").replace(b"sglang:", b"sglang_") for body in bodies]
    report = diagnose("replica", [read_page(body, time_in(body), memo) for body in folded])
    for key, value in case["expected"].items():
        assert_equal(report[key], value, f"case {case['case']} {key}")
