"""Prediction against an engine: a log replayed over HTTP, cached tokens compared.

Two engines: a small stand-in with the published rule (full blocks of 16 tokens, the last token computed), and our own
server with its real scheduler and prefix cache over a step-time model, in a process of its own. With
OPSCONSOLE_ENGINE_URL set, a running engine is asked too. The trap: the stand-in shares our belief; the server does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.reader import LogFile
from opsconsole.lint.tokens import EngineTokenizer
from opsconsole.lint.truth import Agreement, replay

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "data/lint/cases.jsonl").read_text().splitlines()]
LOGS = [case for case in CASES if "requests.jsonl" in case["input"] and "tools" not in case["input"]["requests.jsonl"]]
BLOCK = 16


def tokens(body: dict[str, Any]) -> list[int]:
    text = body.get("prompt") or "".join(f"<{m['role']}>{m['content']}" for m in body["messages"])
    return [ord(char) for char in text]


class Engine(BaseHTTPRequestHandler):
    """Keeps every full block by the hash of all tokens up to its end."""

    blocks: ClassVar[set[int]] = set()

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "stand-in"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = tokens(body)
        if self.path == "/tokenize":
            self.answer({"tokens": ids})
            return
        ends = range(BLOCK, len(ids) + 1, BLOCK)
        keys = [hash((body["cache_salt"], *ids[:end])) for end in ends]
        cached = 0
        for end, key in zip(ends, keys, strict=True):
            if key not in self.blocks or end > len(ids) - 1:
                break
            cached = end
        self.blocks.update(keys)
        self.answer({"usage": {"prompt_tokens": len(ids), "prompt_tokens_details": {"cached_tokens": cached}}})

    def answer(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """Our own server, without weights."""
    command = [sys.executable, "-m", "opsconsole", "serve", "--step-time", "default", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as engine:
        assert engine.stdout is not None
        try:
            for line in engine.stdout:
                if '"event": "serving"' in line:
                    url = f"http://{json.loads(line)['address']}"
                    while httpx.get(f"{url}/health").status_code != 200:
                        assert engine.poll() is None, "the engine ended before it was ready"
                    yield url
                    break
            else:
                raise AssertionError("the engine ended before it served")
        finally:
            engine.kill()


@pytest.fixture(scope="module")
def stand_in() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def compare(text: str, url: str, folder: Path) -> Agreement:
    path = folder / "log.jsonl"
    path.write_text(text, encoding="utf-8")
    log = LogFile.open(path, "log.jsonl")
    source = EngineTokenizer(url)
    try:
        return replay(LogAnalysis(LogOptions(exact=source)), list(log.requests()), url, f"test-{path}")
    finally:
        log.close()
        source.close()


def agrees(made: Agreement) -> None:
    assert [(r.prompt, r.predicted) for r in made.requests] == [
        (r.engine_prompt, r.engine_cached) for r in made.requests
    ]
    assert made.points <= 0.5


@pytest.mark.parametrize("case", LOGS, ids=lambda c: str(c["id"]))
def test_predicted_cached_tokens_are_those_of_the_rule(case: dict[str, Any], stand_in: str, tmp_path: Path) -> None:
    agrees(compare(case["input"]["requests.jsonl"], stand_in, tmp_path))


@pytest.mark.parametrize("case", [c for c in LOGS if c["id"] in ("P16", "P33", "N03")], ids=lambda c: str(c["id"]))
def test_predicted_cached_tokens_are_those_of_our_engine(case: dict[str, Any], served: str, tmp_path: Path) -> None:
    agrees(compare(case["input"]["requests.jsonl"], served, tmp_path))


@pytest.mark.skipif("OPSCONSOLE_ENGINE_URL" not in os.environ, reason="OPSCONSOLE_ENGINE_URL names no engine")
def test_predicted_cached_tokens_are_those_of_a_running_engine(tmp_path: Path) -> None:
    for case in LOGS:
        folder = tmp_path / case["id"]
        folder.mkdir()
        agrees(compare(case["input"]["requests.jsonl"], os.environ["OPSCONSOLE_ENGINE_URL"], folder))
