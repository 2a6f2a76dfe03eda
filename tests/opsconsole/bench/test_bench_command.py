"""`opsconsole bench` from its command line, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from opsconsole.commands.bench import bench
from opsconsole.errors import UsageError
from tests.opsconsole.bench.scripted_server import DONE, Step, scripted, text, usage

SHORT: Sequence[Step] = [text("a"), text("b", "length"), usage(2), DONE]


@pytest.fixture
def server() -> Iterator[str]:
    """A scripted server on a thread of its own, since the command brings its own loop."""
    started, over = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        def script(index: int) -> tuple[int, Sequence[Step]]:
            return 200, SHORT

        async with scripted(script) as made:
            found.append(made.url)
            started.set()
            while not over.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(5)
    yield found[0]
    over.set()
    thread.join()


def run(*args: str) -> Any:
    app = typer.Typer()
    app.command()(bench)
    return CliRunner().invoke(app, list(args))


def test_a_run_tells_goodput_in_json_and_writes_every_request(server: str, tmp_path: Path) -> None:
    lines = tmp_path / "requests.jsonl"
    bounds = "ttft=5s,tpot=5s,target=90%"
    args = ("--rate", "20", "--for", "1s", "--seed", "4", "--model", "m", "--slo", bounds)
    result = run(server, *args, "-o", "json", "--records", str(lines))
    assert result.exit_code == 0, result.output
    fields = json.loads(result.stdout)
    assert fields["offered"] == fields["completed"] > 5
    assert (fields["attainment"], fields["passes"], fields["seed"], fields["workload"]) == (1.0, True, 4, "A")
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [entry["index"] for entry in written] == list(range(fields["offered"]))


def test_a_missed_target_is_an_exit_code_a_script_can_rely_on(server: str) -> None:
    result = run(server, "--rate", "20", "--for", "0.5s", "--model", "m", "--slo", "ttft=1us")
    assert result.exit_code == 1
    assert "misses ttft=" in result.stdout


@pytest.mark.parametrize("kind", ["constant", "burst", "onoff", "diurnal"])
def test_every_kind_of_arrivals_runs(server: str, kind: str) -> None:
    result = run(server, "--rate", "30", "--for", "0.5s", "--model", "m", "--arrivals", kind, "--slo", "ttft=9s")
    assert result.exit_code == 0, result.output
    assert "goodput" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--output", "xml"), "text or json"),
        (("--workload", "Z"), "known are"),
        (("--arrivals", "storm"), "neither a file"),
        (("--slo", "speed=9s"), "known are"),
        (("--for", "ten"), "not a duration"),
        (("--for", "1s"), "cannot be reached"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(args: tuple[str, ...], says: str) -> None:
    result = run("http://127.0.0.1:9", *args)
    assert isinstance(result.exception, UsageError) and says in str(result.exception)
