"""Fixed logs: nothing is deleted, the replayed hit rate rises, and what must not move stays."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from opsconsole.lint.discover import Kind, Target
from opsconsole.lint.fixrun import LogRewrite, fix_log
from opsconsole.lint.formats.record import read
from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.reader import LogFile
from opsconsole.lint.rules.table import RULES

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "data/lint/cases.jsonl").read_text().splitlines()]
FIXABLE = {"P05", "P08", "P13", "P16", "P17", "P18", "P19", "P31"}
RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def fixed(folder: Path, text: str, *, unsafe: bool = True) -> LogRewrite:
    path = folder / "log.jsonl"
    path.write_text(text, encoding="utf-8")
    return fix_log(Target("log.jsonl", path, Kind.LOG), LogOptions(), frozenset(RULES), unsafe=unsafe)


def prompt(record: Any) -> Counter[str]:
    return Counter("".join(part.text for part in read(record).parts))


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] in FIXABLE], ids=lambda c: str(c["id"]))
def test_a_fixed_log_reuses_more_and_keeps_every_character(case: dict[str, Any], tmp_path: Path) -> None:
    before = case["input"]["requests.jsonl"]
    made = fixed(tmp_path, before)
    assert made.changed > 0
    assert made.reuse_after > made.reuse_before + 0.15
    for old, new in zip(before.splitlines(), made.lines, strict=True):
        assert prompt(json.loads(old)) == prompt(json.loads(new))
    assert (tmp_path / "log.jsonl").read_text(encoding="utf-8") == before


def test_a_fixed_log_lints_clean(tmp_path: Path) -> None:
    text = next(c for c in CASES if c["id"] == "P08")["input"]["requests.jsonl"]
    made = fixed(tmp_path, text)
    log = LogFile("log.jsonl", io.BytesIO("".join(made.lines).encode()))
    analysis = LogAnalysis(LogOptions())
    for request in log.requests():
        analysis.feed(request)
    assert analysis.finish({"log.jsonl": log}).findings == []


def test_safe_fixes_alone_move_no_text(tmp_path: Path) -> None:
    text = next(c for c in CASES if c["id"] == "P08")["input"]["requests.jsonl"]
    assert fixed(tmp_path, text, unsafe=False).changed == 0


def bodies(line: str) -> str:
    made = []
    for at in range(6):
        text = f"{line.format(at * 1111 + 12345)}\n{RULE_LINES}"
        made.append(
            json.dumps({"messages": [{"role": "system", "content": text}, {"role": "user", "content": f"Q{at}"}]})
        )
    return "\n".join(made) + "\n"


@pytest.mark.parametrize(
    "line", ["x-billing-header: v=1; cch=a{}f;", "```\nbuild {}\n```", "Only user_id u{} may see orders."]
)
def test_headers_fences_and_permissions_are_never_moved(line: str, tmp_path: Path) -> None:
    assert fixed(tmp_path, bodies(line)).changed == 0
