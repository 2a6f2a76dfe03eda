"""Bad input: a named message with file and line for each kind; one bad record costs one record; exit codes hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from opsconsole.cli import app

RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def body(at: int) -> str:
    text = f"Now: 2026-05-01T10:0{at % 6}:{10 + at}Z\n{RULE_LINES}"
    return json.dumps({"messages": [{"role": "system", "content": text}, {"role": "user", "content": f"Q{at}"}]}) + "\n"


GOOD = "".join(map(body, range(6)))


def lint(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["lint", str(path), *words])


def test_a_truncated_record_costs_one_record(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(GOOD + body(7)[:200])
    made = lint(log)
    assert made.exit_code == 1
    assert f"note: PX901 {log}:7: not valid JSON" in made.stdout
    assert "PX101" in made.stdout


def test_mixed_formats_are_read_side_by_side(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    anthropic = "".join(
        json.dumps({"system": f"At 10:0{n}:11\n{RULE_LINES}", "messages": [{"role": "user", "content": f"Q{n}"}]})
        + "\n"
        for n in range(4)
    )
    batch = "".join(json.dumps({"custom_id": str(n), "body": json.loads(body(n))}) + "\n" for n in range(4))
    log.write_text(GOOD + anthropic + batch + "[1, 2, 3]\n" + '{"x": 1}\n' + "no json\n")
    data = json.loads(lint(log, "--format", "json").stdout)
    assert data["summary"]["records"] == 15
    assert {item["path"] for item in data["findings"]} == {"messages[0].content", "system"}
    assert [note["line"] for note in data["notes"] if note["code"] == "PX901"] == [16]


def test_a_line_of_50_megabytes_is_one_record(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(GOOD + json.dumps({"prompt": "word " * 10_000_000}) + "\n" + "{" * 50_000_000 + "\n")
    made = lint(log)
    assert made.exit_code == 1
    assert f"{log}:8: not valid JSON" in made.stdout


@pytest.mark.parametrize(
    ("name", "data", "code", "said"),
    [
        ("a.jsonl", b"", "PX903", "is empty"),
        ("a.jsonl", bytes(range(256)) * 8, "PX901", "holds no readable request"),
        ("a.py", b"x = 1\0\0", "PX901", "is binary"),
        ("a.j2", b"Hello\n{% if x %}\n{{ name }}\n", "PX901", "a.j2:3: cannot be parsed"),
        ("a.jsonl", b'{"a": 1}\n' * 3, "PX901", "holds no readable request"),
        ("a.jsonl.gz", gzip.compress(GOOD.encode(), mtime=0)[:200], "PX901", "ends early"),
    ],
)
def test_nothing_analysable_ends_with_exit_code_2(tmp_path: Path, name: str, data: bytes, code: str, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    made = lint(tmp_path / name)
    assert made.exit_code == 2
    assert f"{code} {tmp_path / name}:" in made.output
    assert said in made.output


def test_an_unreadable_file_is_named_and_the_rest_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opsconsole.lint.reader import LogFile

    (tmp_path / "a.jsonl").write_text(GOOD)
    (tmp_path / "b.jsonl").write_text(GOOD)
    honest = LogFile.open.__func__  # type: ignore[attr-defined]

    def refuse(path: Path, name: str) -> LogFile:
        if path.name == "a.jsonl":
            raise PermissionError(13, "Permission denied")
        made = honest(LogFile, path, name)
        assert isinstance(made, LogFile)
        return made

    monkeypatch.setattr(LogFile, "open", refuse)
    made = lint(tmp_path)
    assert made.exit_code == 1
    assert "a.jsonl:1: cannot be read (Permission denied)" in made.output
    assert "b.jsonl:2:1: error PX101" in made.output


def test_one_request_is_too_few_and_clean(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(body(0))
    made = lint(log)
    assert made.exit_code == 0
    assert f"PX903 {log}: fewer than 3 requests" in made.stdout


def test_too_many_bad_records_end_with_exit_code_2(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(GOOD + "{broken\n" * 20)
    assert lint(log).exit_code == 2


@pytest.mark.parametrize("pack", [False, True])
def test_gz_and_arrays_are_read_like_lines(tmp_path: Path, pack: bool) -> None:
    data = GOOD.encode() if pack else ("[" + ",\n".join(GOOD.splitlines()) + "]").encode()
    log = tmp_path / ("a.jsonl.gz" if pack else "a.json")
    log.write_bytes(gzip.compress(data) if pack else data)
    assert "PX101" in lint(log).stdout


def test_vllm_request_logs_are_read_and_cut_prompts_are_noted(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    lines = ["INFO 05-01 10:00:00 [api] Started server"]
    for at in range(5):
        prompt = f"Now: 10:0{at}:00\n{RULE_LINES}"[:1000]
        lines.append(
            f"INFO Received request cmpl-{at}: prompt: {prompt!r}, params: SamplingParams(n=1), prompt_token_ids: None"
        )
    log.write_text("\n".join(lines) + "\n")
    out = lint(log).stdout
    assert "PX101" in out
    assert "PX904" in out


def test_logs_of_token_ids_are_compared_token_by_token(tmp_path: Path) -> None:
    log = tmp_path / "ids.jsonl"
    log.write_text(
        "".join(json.dumps({"prompt_token_ids": [*range(100), n, *range(200, 210)]}) + "\n" for n in range(500, 504))
    )
    data = json.loads(lint(log, "--format", "json").stdout)
    (family,) = data["families"]
    assert family["prompt_tokens"] == 4 * 111
    assert family["reused_tokens"] == 3 * 96
