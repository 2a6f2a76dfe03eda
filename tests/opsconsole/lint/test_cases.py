"""Published cases with right answers: rule, path, character and verdict; look-alikes must stay silent.

The cases come from real defects; the answers were written by hand. Paths written in words and token positions are not
compared. The trap: a case proves its kind only together with the siblings beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opsconsole.lint.model import Finding, Severity
from opsconsole.lint.runner import Run
from opsconsole.lint.settings import LintSettings

DATA = Path(__file__).parents[2] / "data" / "lint" / "cases.jsonl"
CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


def lint_case(case: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    for name, text in case["input"].items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    run = Run(LintSettings())
    return run.check(run.paths(sorted(case["input"]))).findings


@pytest.mark.parametrize("case", [c for c in CASES if c["expect"]["verdict"] == "finding"], ids=lambda c: str(c["id"]))
def test_a_real_defect_is_found_at_its_place(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = lint_case(case, tmp_path, monkeypatch)
    expect = case["expect"]
    primary = [item for item in findings if item.code == expect["primary"]]
    assert len(primary) == 1
    found = primary[0]
    assert found.severity.value == expect["severity"]
    assert {item.code for item in findings} <= {*expect["rules"], *expect["also_accept"]}
    if "volatile_at" in expect:
        assert {"file": found.file, "line": found.line, "col": found.col} == expect["volatile_at"]
        if "shared_prefix_end" in expect:
            assert found.literal_chars == expect["shared_prefix_end"]["literal_chars"]
        return
    if " " not in expect["path"]:
        assert found.path == expect["path"]
    assert (found.pairs[0].path, found.char) == (
        expect["shared_prefix_end"]["path"],
        expect["shared_prefix_end"]["char"],
    )
    assert [(list(p.requests), p.path, p.char) for p in found.pairs] == [
        (p["requests"], p["path"], p["char"]) for p in expect["pairs"]
    ]


@pytest.mark.parametrize("case", [c for c in CASES if c["expect"]["verdict"] == "clean"], ids=lambda c: str(c["id"]))
def test_a_look_alike_stays_silent(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = lint_case(case, tmp_path, monkeypatch)
    assert {item.code for item in findings} <= set(case["expect"]["allow_info"])
    assert all(item.severity is Severity.INFO for item in findings)
