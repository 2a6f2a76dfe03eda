"""`up` as a real tree of processes with scripted workers: scaling without a cut stream, crashes, and every bad end.

Slow by nature (about a minute together). Trap: a process is looked for by the data folder in its command line or
environment, so that a leftover of another test is never taken for one of ours.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from opsconsole.client.agent import AgentClient
from opsconsole.commands import up_options
from opsconsole.errors import AgentUnavailable, UsageError
from opsconsole.local.datalock import DataLock
from tests.opsconsole.local.ups import ROOT, SERVING, Up
from tests.ports import free_port

RUN_UP = Path(__file__).parent / "run_up.py"


def scripted(folder: Path, *, workers: str, load: str, seconds: str, host: str = "127.0.0.1", **environment: str) -> Up:
    """With workers that follow a script, on a port of its own."""
    port = free_port()
    command = [sys.executable, str(RUN_UP), str(folder), str(port), workers, load, seconds, host]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Up(folder, f"http://{place}", command, **{"SCRIPT_TOKEN_S": "0.01", **environment})


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: Unix sockets have little room."""
    with tempfile.TemporaryDirectory(prefix="up-") as made:
        yield Path(made)


async def test_load_rises_and_a_worker_comes_load_falls_and_one_goes_and_no_stream_is_cut(
    folder: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "rise.csv"
    rows = [(t, 3 if t < 2 else 90 if t < 7 else 6) for t in range(42)]  # calm for longer than demand's mean looks back
    trace.write_text("t_seconds,requests\n" + "".join(f"{t},{count}\n" for t, count in rows))
    up = scripted(folder, workers="1:2", load=str(trace), seconds="42s", SCRIPT_SLOTS="4")
    code, summary, said = up.finish(90)
    assert code == 0, said
    assert summary["offered"] == summary["completed"] > 100, said
    assert (summary["failed"], summary["streams_cut"]) == (0, 0)
    assert summary["scale_ups"] >= 1 and summary["drains"] >= 1, said
    assert summary["starts"][0]["worker"] == "w2" and set(summary["starts"][0]["phases"]) >= {"schedule", "load"}
    assert summary["ttft_p99"] is None or summary["offered"] >= 1000
    row = up.sql("SELECT offered, completed, attainment, goodput, ttft_p95 FROM run_summary")[0]
    assert row == tuple(summary[key] for key in ("offered", "completed", "attainment", "goodput", "ttft_p95"))
    assert any("gone, with no stream cut" in text for (text,) in up.sql("SELECT text FROM journal"))
    await up.none_left()


async def test_a_killed_worker_fails_its_requests_at_once_and_comes_back_and_a_killed_supervisor_takes_all_with_it(
    folder: Path,
) -> None:
    up = scripted(folder, workers="2:2", load="steady", seconds="120s", SCRIPT_TOKEN_S="0.05")
    state = await up.until(SERVING.format(n=2))
    async with httpx.AsyncClient(timeout=20) as client:
        url = f"{up.url}/v1/completions"
        asks = [client.post(url, json={"prompt": "x", "max_tokens": 300, "stream": True}) for _ in range(8)]
        running = [asyncio.create_task(ask) for ask in asks]
        await asyncio.sleep(1.0)
        victim = state["members"][0]
        killed_at = time.monotonic()
        os.kill(victim["pid"], signal.SIGKILL)
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        assert time.monotonic() - killed_at < 2.0
        assert all("worker_lost" in task.result().text for task in done) and done
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    await up.until(f"{SERVING.format(n=2)} and members[0]['restarts'] == 1")
    await asyncio.sleep(1.0)
    told = [text for (text,) in up.sql("SELECT text FROM journal")]
    assert any(text.startswith(f"{victim['name']} was killed by SIGKILL; started again") for text in told), told
    while up.sql("SELECT COUNT(*) FROM requests") == [(0,)]:
        await asyncio.sleep(0.1)
    os.kill(up.pid_of("supervisor_api"), signal.SIGKILL)
    await up.none_left()
    assert up.sql("PRAGMA integrity_check") == [("ok",)]
    code, summary, said = up.finish(5)
    assert code == 1 and "the supervisor was killed by SIGKILL" in said
    assert summary["offered"] > 0


ENDS = {"kill -9": signal.SIGKILL, "Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "hang-up": signal.SIGHUP}


@pytest.mark.parametrize("how", ENDS.values(), ids=ENDS)
async def test_however_the_foreground_ends_nothing_is_left(folder: Path, how: signal.Signals) -> None:
    up = scripted(folder, workers="1:2", load="steady", seconds="120s")
    await up.until(SERVING.format(n=1))
    up.process.send_signal(how)
    await up.none_left(limit=10.0 if how is not signal.SIGKILL else 5.0)
    code, _, said = up.finish(5)
    assert code == (-9 if how is signal.SIGKILL else 0), said
    assert up.sql("PRAGMA integrity_check") == [("ok",)]


async def test_it_serves_on_the_loopback_of_ip_6_and_says_an_address_that_works(folder: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no ::1")
    up = scripted(folder, workers="1:1", load="steady", seconds="2s", host="::1")
    code, summary, said = up.finish(60)
    assert code == 0 and summary["completed"] == summary["offered"] > 0, said
    assert f"on {up.url}/v1" in said and "http://[::1]:" in said
    await up.none_left()


async def test_it_can_be_ended_while_the_first_worker_still_loads(folder: Path) -> None:
    up = scripted(folder, workers="1:1", load="steady", seconds="10s", SCRIPT_START_S="60")
    await up.until("members[0]['phase'] == 'warm'")
    up.process.send_signal(signal.SIGINT)
    code, summary, said = up.finish(15)
    assert (code, summary) == (0, {}) and "SIGINT: stopping" in said
    await up.none_left()


async def test_an_engine_that_never_starts_is_told_with_its_last_words(folder: Path) -> None:
    up = scripted(folder, workers="1:1", load="steady", seconds="10s", SCRIPT_FAIL_START="1")
    code, _, said = up.finish(30)
    assert code != 0 and "the engine does not start: scripted failure" in said
    await up.none_left()


def test_a_second_up_on_the_same_folder_is_refused_and_told_who_has_it(folder: Path) -> None:
    lock = DataLock(folder)
    with pytest.raises(UsageError, match=rf"another `opsconsole up` \(process {os.getpid()}\).*--data-dir"):
        DataLock(folder)
    lock.release()
    DataLock(folder).release()


def test_a_port_in_use_is_told_before_anything_starts(folder: Path) -> None:
    from opsconsole.local.companions import bind

    port = free_port()
    holder = bind("127.0.0.1", port)
    try:
        asked = {
            "output": "text", "host": "127.0.0.1", "api_key": "", "no_tui": True, "seconds": "1s", "load": "",
            "seed": 1, "workers": "1:2", "devices": "cpu", "model": str(folder), "data_dir": str(folder),
            "port": port, "slo": "", "policy": "reactive", "stabilise": "10s", "drain_deadline": "60s",
            "engine_arg": [],
            "capture": False, "day": "2m", "start_delay": "0s", "sustained": 0.0,
        }  # fmt: skip
        prepared = up_options.prepare(asked)
        with pytest.raises(UsageError, match=f"{port} cannot be used .*--port"):
            up_options.run_session(prepared.settings, prepared.options, None, "text")
    finally:
        holder.close()


async def test_what_breaks_the_cache_is_found_on_live_traffic_and_no_prompt_is_kept(folder: Path) -> None:
    up = scripted(folder, workers="1:1", load="", seconds="60s", UP_CAPTURE="1")
    await up.until(SERVING.format(n=1))
    rules = "".join(f"Rule {n}: whistleblowers meet at the harbour, step {n}.\n" for n in range(40))
    async with httpx.AsyncClient(timeout=20) as client:
        for at in range(8):
            text = f"Now: 2026-05-01T10:0{at}:31Z\n{rules}"
            messages = [{"role": "system", "content": text}, {"role": "user", "content": f"Question {at} please"}]
            url = f"{up.url}/v1/chat/completions"
            answer = await client.post(url, json={"model": "m", "max_tokens": 1, "messages": messages})
            assert answer.status_code == 200, answer.text
    found: tuple[Any, ...] = ()
    async with AgentClient(str(folder / "agent.sock")) as agent, asyncio.timeout(20):
        while not found:
            await asyncio.sleep(0.2)
            with suppress(AgentUnavailable):  # it starts beside the router
                found = await agent.findings()
    assert [item["rule"] for item in found] == ["PX101"]
    captured = folder / "captured.jsonl"
    assert stat.S_IMODE(captured.stat().st_mode) == 0o600
    for kept in folder.rglob("*"):
        if kept.is_file():
            assert not any(word in kept.read_bytes().lower() for word in (b"whistleblower", b"harbour", b"question"))
    command = [sys.executable, "-m", "opsconsole", "lint", "--watch", "0.2", str(captured)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert "PX101" in watching.stdout.readline()
        watching.terminate()
    up.process.send_signal(signal.SIGINT)
    assert up.finish(30)[0] == 0
    await up.none_left()
