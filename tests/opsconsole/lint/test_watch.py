"""Watching a growing capture: complete lines only, each finding once, and redaction that keeps the places."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.lint.capture import Redactor
from opsconsole.lint.logcheck import LogOptions
from opsconsole.lint.watch import Watcher

RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def body(at: int) -> dict[str, object]:
    text = f"Now: 2026-05-01T10:0{at % 10}:31Z\n{RULE_LINES}"
    return {
        "messages": [{"role": "system", "content": text}, {"role": "user", "content": f"Question {at} please"}],
        "user": "u",
    }


def test_a_finding_is_told_once_when_enough_traffic_has_come(tmp_path: Path) -> None:
    log = tmp_path / "capture.jsonl"
    watcher = Watcher(log, LogOptions())
    assert watcher.poll() == []
    lines = [json.dumps(body(at)) + "\n" for at in range(8)]
    log.write_text(lines[0] + lines[1][:50])
    assert watcher.poll() == []
    log.write_text("".join(lines[:5]))
    assert [(item.code, item.line) for item in watcher.poll()] == [("PX101", 2)]
    log.write_text("".join(lines))
    assert watcher.poll() == []
    assert len(watcher.result.families) == 1


def test_a_rotated_capture_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "capture.jsonl"
    watcher = Watcher(log, LogOptions())
    log.write_text("".join(json.dumps(body(at)) + "\n" for at in range(6)))
    assert len(watcher.poll()) == 1
    log.write_text(json.dumps(body(0)) + "\n")
    assert watcher.poll() == []
    assert watcher.result.records == 1


def test_another_file_in_its_place_is_read_from_its_start_even_when_it_is_longer(tmp_path: Path) -> None:
    log = tmp_path / "capture.jsonl"
    watcher = Watcher(log, LogOptions())
    log.write_text(json.dumps(body(0)) + "\n")
    assert watcher.poll() == []
    log.rename(tmp_path / "capture.jsonl.1")
    log.write_text("".join(json.dumps(body(at)) + "\n" for at in range(6)))
    assert [(item.code, item.line) for item in watcher.poll()] == [("PX101", 2)]
    assert watcher.result.records == 6


def test_a_redacted_capture_shows_the_same_places_and_no_words(tmp_path: Path) -> None:
    redactor = Redactor(b"a key of this capture")
    log = tmp_path / "capture.jsonl"
    log.write_text("".join(redactor.line(body(at)) for at in range(6)))
    text = log.read_text()
    for word in ("Rule", "calm", "carry", "Question", '"u"'):
        assert word not in text
    watcher = Watcher(log, LogOptions())
    (found,) = watcher.poll()
    (item,) = watcher.items()
    assert item["rule"] == "PX101"
    assert "before" not in json.dumps(item["pairs"])
    assert (found.path, found.char) == ("messages[0].content", 20)


def test_a_stream_is_followed_until_it_ends() -> None:
    data = "".join(json.dumps(body(at)) + "\n" for at in range(40)).encode()
    made = CliRunner().invoke(app, ["lint", "--watch", "1", "-"], input=data)
    assert made.exit_code == 0
    assert made.stdout.count("PX101") == 1
    assert "2026-05-01" not in made.stdout
