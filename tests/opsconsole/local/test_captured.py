"""Findings on a capture, as the agent publishes them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from opsconsole.local.captured import CapturedFindings

RULES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def lines(count: int, *, is_stamped: bool = True) -> str:
    """Requests whose system prompt begins with the time, or does not."""
    texts = [f"Now: 2026-05-01T10:{at % 60:02}:31Z\n{RULES}" if is_stamped else RULES for at in range(count)]
    return "".join(json.dumps({"messages": [{"role": "system", "content": text}]}) + "\n" for text in texts)


def test_without_a_capture_there_is_nothing(tmp_path: Path) -> None:
    assert CapturedFindings(tmp_path / "captured.jsonl")() == ()


def test_findings_come_with_their_rule_and_go_when_the_traffic_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "captured.jsonl"
    found = CapturedFindings(file)
    file.write_text(lines(8))
    (item,) = found()
    assert item["rule"] == "PX101" and item["message"]
    file.rename(tmp_path / "captured.jsonl.1")
    file.write_text(lines(3, is_stamped=False))
    assert list(found()) == [item]  # a fresh file has not been heard out yet
    file.write_text(lines(30, is_stamped=False))
    assert found() == ()


def test_whoever_asks_while_it_is_judged_gets_the_last_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "captured.jsonl"
    found = CapturedFindings(file)
    file.write_text(lines(8))
    first = found()
    begun, go = threading.Event(), threading.Event()

    def slow() -> tuple[dict[str, object], ...]:
        begun.set()
        assert go.wait(5)
        return ()

    monkeypatch.setattr(found._watcher, "items", slow)
    other = threading.Thread(target=found)
    other.start()
    assert begun.wait(5)
    assert found() == first
    go.set()
    other.join(5)
