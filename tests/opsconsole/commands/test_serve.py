"""`opsconsole serve` as a process: it starts, says what it did as JSON, drains on SIGTERM and leaves with a count."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

SLOW_STEPS = '{"fixed_s": 0.02, "per_decode_s": 0, "per_prefill_token_s": 0}'


class Engine:
    """A running engine and the lines it has logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.started = self.line("serving")

    def line(self, event: str) -> dict[str, Any]:
        """The next log line of this kind."""
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line: dict[str, Any] = json.loads(raw)
            if line["event"] == event:
                return line
        raise AssertionError(f"the engine ended without saying {event!r}")

    @property
    def url(self) -> str:
        return f"http://{self.started['address']}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=20)


@contextmanager
def engine(*args: str) -> Iterator[Engine]:
    command = [sys.executable, "-m", "opsconsole", "serve", "--step-time", "default", "--port", "0", *args]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            yield Engine(process)
        finally:
            process.kill()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opsconsole", "serve", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def wait_ready(client: httpx.Client) -> None:
    transport_retries = 200
    for _ in range(transport_retries):
        if client.get("/health").status_code == 200:
            return
    raise AssertionError("the engine did not become ready")


def test_sigterm_lets_a_running_stream_finish(tmp_path: Path) -> None:
    steps = tmp_path / "steps.json"
    steps.write_text(SLOW_STEPS)
    with engine("--step-time", str(steps)) as served, _client(served.url) as client:
        wait_ready(client)
        body = {"model": "stand-in", "prompt": "hi", "max_tokens": 40, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as response:
            parts = response.iter_text()
            first = next(parts)
            served.process.send_signal(signal.SIGTERM)
            assert served.line("leaving")["streams"] == 1
            text = first + "".join(parts)
        assert text.count('"text"') == 40 and text.endswith("[DONE]\n\n")
        assert served.process.wait(timeout=20) == 0
        assert served.line("left")["streams_cut"] == 0


def test_the_deadline_cuts_and_is_counted(tmp_path: Path) -> None:
    steps = tmp_path / "steps.json"
    steps.write_text(SLOW_STEPS)
    with engine("--step-time", str(steps), "--drain-deadline", "0.2") as served, _client(served.url) as client:
        wait_ready(client)
        body = {"model": "stand-in", "prompt": "hi", "max_tokens": 4000, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as response:
            parts = response.iter_text()
            first = next(parts)
            served.process.send_signal(signal.SIGTERM)
            text = first + "".join(parts)
        assert "its deadline has passed" in text and "[DONE]" not in text
        assert served.line("left")["streams_cut"] == 1
        assert served.process.wait(timeout=20) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_engine_leaves_at_once(number: signal.Signals) -> None:
    with engine() as served:
        assert served.stop(number) == 0


def test_a_unix_socket_serves_too(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with engine("--uds", str(path)) as served:
        assert served.started["address"] == f"unix:{path}"
        transport = httpx.HTTPTransport(uds=str(path), retries=20)
        with httpx.Client(transport=transport, base_url="http://engine") as client:
            wait_ready(client)
            assert client.get("/v1/models").json()["data"][0]["id"] == "stand-in"
        assert served.stop() == 0


def test_a_port_in_use_is_told_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--step-time", "default", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "choose another with --port" in done.stderr


def test_an_inherited_socket_is_listened_on() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        command = [sys.executable, "-m", "opsconsole", "serve", "--step-time", "default", "--fd", str(bound.fileno())]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=(bound.fileno(),)) as process:
            try:
                served = Engine(process)
                assert served.started["address"] == "{}:{}".format(*bound.getsockname())
                with _client(served.url) as client:
                    wait_ready(client)
                assert served.stop() == 0
            finally:
                process.kill()
    assert "--fd 99 is no socket" in run("--step-time", "default", "--fd", "99").stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--model", "/nowhere"), "does not exist"),
        (("--step-time", "default", "--slo", "fast"), "ttft=1s,tpot=80ms"),
        (("--step-time", "default", "--policy", "lifo"), "fcfs or priority"),
        (("--step-time", "default", "--quantize", "int4"), "auto, int8 or none"),
        (("--step-time", "/nowhere/steps.json", "--port", "0"), "No such file"),
    ],
    ids=["model", "slo", "policy", "quantize", "step time"],
)
def test_a_wrong_option_is_one_sentence(args: tuple[str, ...], says: str) -> None:
    done = run(*args)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_help_shows_examples() -> None:
    done = run("--help")
    assert done.returncode == 0 and "opsconsole serve --model ./qwen3" in done.stdout


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, transport=httpx.HTTPTransport(retries=20), timeout=30.0)
