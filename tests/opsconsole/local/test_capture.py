"""The capture file: no word of a prompt, private, bounded, and never in a request's way."""

from __future__ import annotations

import json
import stat
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from opsconsole.lint.capture import Redactor
from opsconsole.local import capture
from opsconsole.local.capture import Capture

SECRET = "Alice Whistleblower met Bob at the harbour"
BODY = {
    "model": "m",
    "user": "alice@example.org",
    "messages": [
        {"role": "system", "content": SECRET},
        {"role": "harbour", "content": [{"type": "text", "text": SECRET}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "find_harbour", "parameters": {
            "type": "object", "properties": {"whistleblower": {"type": "string", "enum": ["Alice"]}},
            "required": ["whistleblower"]}}}
    ],
}  # fmt: skip


class Counted:
    """Outcomes, and the moment when so many have come."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._news = threading.Condition()

    def __call__(self, outcome: str) -> None:
        with self._news:
            self.counts[outcome] += 1
            self._news.notify_all()

    def until(self, outcome: str, number: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.counts[outcome] >= number, 5), self.counts


class Held(Redactor):
    """One that waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(b"key")
        self.begun, self.go = threading.Event(), threading.Event()

    def line(self, body: Mapping[str, Any]) -> str:
        self.begun.set()
        assert self.go.wait(5)
        return super().line(body)


def written(path: Path, *bodies: dict[str, Any], most_bytes: int = 10**6) -> Counter[str]:
    counted = Counted()
    made = Capture(path, Redactor(b"a key"), counted, most_bytes=most_bytes)
    for body in bodies:
        made.offer(body, 100)
    made.close()
    return counted.counts


def test_no_word_of_the_prompt_is_in_the_file_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    assert written(path, BODY, BODY) == {"written": 2}
    text = path.read_text().lower()
    for word in ("alice", "whistleblower", "bob", "harbour", "example", "find"):
        assert word not in text
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == second and first["model"] == "m" and "user" not in first
    assert first["messages"][0]["role"] == "system" and first["messages"][1]["content"][0]["type"] == "text"
    schema = first["tools"][0]["function"]["parameters"]
    assert list(schema["properties"]) == schema["required"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_bounded_and_the_one_before_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    bodies = [{"prompt": f"{at:04}" + "x" * 90} for at in range(100)]
    assert written(path, *bodies, most_bytes=1000) == {"written": 100}
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["captured.jsonl", "captured.jsonl.1"]
    assert all(0 < file.stat().st_size <= 1000 for file in files)
    assert path.read_text().splitlines()[-1].startswith('{"prompt": "0099')


def test_a_capture_of_another_key_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    written(path, {"prompt": "one"})
    before = path.read_text()
    written(path, {"prompt": "one"}, {"prompt": "one"})
    assert path.with_name("captured.jsonl.1").read_text() == before
    assert len(path.read_text().splitlines()) == 2


def test_a_slow_disk_delays_nobody_and_what_cannot_wait_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "MOST_PENDING", 250)
    counted, redactor = Counted(), Held()
    made = Capture(tmp_path / "c.jsonl", redactor, counted)
    made.offer({"prompt": "a"}, 100)
    assert redactor.begun.wait(5)
    for _ in range(5):
        made.offer({"prompt": "b"}, 100)  # one more fits beside the one being written
    assert counted.counts == {"dropped": 4}
    made.offer({"prompt": "c"}, capture.LARGEST_BODY + 1)
    assert counted.counts == {"dropped": 5}
    redactor.go.set()
    made.close()
    assert counted.counts == {"dropped": 5, "written": 2}


def test_a_file_that_cannot_be_written_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    counted, folder = Counted(), tmp_path / "later"
    made = Capture(folder / "c.jsonl", Redactor(b"key"), counted)
    made.offer({"prompt": "a"}, 10)
    counted.until("dropped", 1)
    folder.mkdir()
    made.offer({"prompt": "\ud800 lone half"}, 10)
    made.close()
    assert counted.counts == {"dropped": 1, "written": 1}
    assert len((folder / "c.jsonl").read_text().splitlines()) == 1
