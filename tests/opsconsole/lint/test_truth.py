"""Prediction against an engine: a log replayed over HTTP, cached tokens compared.

The engine here is a small stand-in with the published rule (full blocks of 16 tokens, the last token computed), so that
the comparison itself is tested; with OPSCONSOLE_ENGINE_URL set, a running engine is asked instead.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

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
def url() -> Iterator[str]:
    given = os.environ.get("OPSCONSOLE_ENGINE_URL")
    if given:
        yield given
        return
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
    analysis = LogAnalysis(LogOptions(exact=source))
    made = replay(analysis, list(log.requests()), url, f"test-{path}")
    log.close()
    source.close()
    return made


@pytest.mark.parametrize("case", LOGS, ids=lambda c: str(c["id"]))
def test_predicted_cached_tokens_are_those_of_the_engine(case: dict[str, Any], url: str, tmp_path: Path) -> None:
    made = compare(case["input"]["requests.jsonl"], url, tmp_path)
    assert [(r.prompt, r.predicted) for r in made.requests] == [
        (r.engine_prompt, r.engine_cached) for r in made.requests
    ]
    assert made.points <= 0.5
