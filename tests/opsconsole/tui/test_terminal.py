"""The real program in a real terminal: typed at through tmux, hung up on, starved of its output.

It needs tmux for the first half and says so when it is missing. The trap: tmux reads Escape followed at once by a key
as Alt and that key, so a pause stands after every Escape.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from opsconsole.clock import SystemClock
from opsconsole.history.reader import Reader
from tests.opsconsole.tui.pane import ROOT, Tmux, need_tmux, wait_for

DEMO = (sys.executable, "-m", "opsconsole", "--demo")
CLOCK = SystemClock()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    need_tmux()
    pane = Tmux(tmp_path, f"{sys.executable} -m opsconsole --demo", (80, 24))
    try:
        yield pane
    finally:
        pane.end()


def test_an_operator_scales_drains_looks_back_and_leaves(terminal: Tmux) -> None:
    terminal.sees("LIVE", "DEMO", "READY", "decisions and events")
    assert "REPLICA" in terminal.text() and "TTFT95" in terminal.text()
    terminal.keys("s")
    terminal.sees("Scale chat", "dry run")
    terminal.keys("1", "5")  # replaces the number, which is selected when the dialog opens
    terminal.sees("-> 15 replicas")
    terminal.keys("Enter")
    terminal.sees("running")
    terminal.keys("Escape")
    terminal.sees("want 15")
    terminal.keys(*"/st:ok")  # in one burst: no letter may reach the grid's own keys
    terminal.sees("filter: st:ok")
    terminal.keys("Enter")
    terminal.keys("d")
    terminal.sees("Drain llama-chat", "dry run")
    terminal.keys("Escape")
    terminal.keys("Escape")
    terminal.sees("filter: -")
    terminal.keys(",")
    terminal.sees("PAST")
    terminal.keys("L")
    terminal.sees("LIVE")
    terminal.keys(*":decisions", "Enter")
    terminal.sees("history", "wants  verdict")
    terminal.resize(160, 48)
    terminal.sees("Had it been decided otherwise")
    terminal.resize(30, 6)
    terminal.sees("LIVE")
    terminal.resize(80, 24)
    terminal.keys("1")
    terminal.sees("TTFT95")
    terminal.keys("q")
    terminal.sees("LEFT WITH 0")


def test_without_an_agent_it_says_what_to_type(tmp_path: Path) -> None:
    need_tmux()
    pane = Tmux(tmp_path, f"{sys.executable} -m opsconsole 2>{tmp_path}/errors.log", (80, 24))
    try:
        # Standard error is a file here: the screen must still be drawn on the terminal.
        pane.sees("NO AGENT", "opsconsole up", "opsconsole watch URL")
        pane.keys("q")
        pane.sees("LEFT WITH 0")
        assert "NO AGENT" not in (tmp_path / "errors.log").read_text()
    finally:
        pane.end()


def start_on_pty(tmp_path: Path, *extra: str) -> tuple[int, int]:
    """The console on a pseudo-terminal of ours: its process and our end."""
    process, ours = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.environ.update({"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8"})
        os.environ.update(dict(pair.split("=", 1) for pair in extra))
        os.execv(DEMO[0], DEMO)
    return process, ours


def read_until(ours: int, word: bytes, seconds: float = 20.0) -> bytes:
    """Everything the console wrote until a word was seen."""
    import select

    seen = b""
    end = CLOCK.monotonic() + seconds
    while word not in seen and CLOCK.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            seen += os.read(ours, 65536)
    assert word in seen, seen[-400:]
    return seen


def gone(process: int) -> bool:
    return os.waitpid(process, os.WNOHANG)[0] == process


def test_a_terminal_that_hangs_up_ends_it_within_two_seconds(tmp_path: Path) -> None:
    process, ours = start_on_pty(tmp_path)
    read_until(ours, b"READY")
    began = CLOCK.monotonic()
    os.close(ours)
    try:
        wait_for("the console ends", lambda: gone(process), 5.0)
    except AssertionError:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    assert CLOCK.monotonic() - began < 4.0  # 2 s for people; twice that on a machine busy with other tests


def test_a_console_that_was_stopped_goes_on_with_a_whole_screen_and_takes_keys(tmp_path: Path) -> None:
    process, ours = start_on_pty(tmp_path)
    read_until(ours, b"READY")
    os.kill(process, signal.SIGTSTP)
    wait_for("it stops", lambda: Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T", 10.0)
    os.kill(process, signal.SIGCONT)
    read_until(ours, b"\x1b[?1049h")
    read_until(ours, b"READY")
    os.write(ours, b"q")
    try:
        wait_for("it ends", lambda: gone(process), 10.0)
    except AssertionError:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    os.close(ours)


@pytest.mark.parametrize("how", ["the terminal hangs up", "SIGTERM", "q"])
def test_a_recording_is_whole_however_the_console_ends(how: str, tmp_path: Path) -> None:
    process, ours = start_on_pty(tmp_path)
    read_until(ours, b"READY")
    os.write(ours, b"r")
    read_until(ours, b"REC")
    subprocess.run(["sleep", "1.2"], check=True)  # a tick or two of the demo
    if how == "q":
        os.write(ours, b"q")
    elif how == "SIGTERM":
        os.kill(process, signal.SIGTERM)
    else:
        os.close(ours)
    try:
        wait_for("the console ends", lambda: gone(process), 10.0)
    except AssertionError:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    if how != "the terminal hangs up":
        os.close(ours)
    (path,) = tmp_path.glob("opsconsole-*.rec")
    reader = Reader(path)
    try:
        bounds = reader.bounds()
        assert bounds is not None and reader.check() == "ok"
        last = reader.at(bounds.last)
        assert last is not None and len(last.replicas) >= 8
    finally:
        reader.close()


def test_sigterm_ends_it_and_gives_the_terminal_back(tmp_path: Path) -> None:
    process, ours = start_on_pty(tmp_path)
    read_until(ours, b"READY")
    os.kill(process, signal.SIGTERM)
    rest = read_until(ours, b"\x1b[?1049l", 5.0)  # out of the alternate screen
    assert b"Traceback" not in rest
    wait_for("the console ends", lambda: gone(process), 5.0)
    os.close(ours)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name: the address of a socket has room for a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="oc-") as name:
        yield Path(name)


@pytest.mark.parametrize("how", ["hung up while it starts", "SIGTERM while it starts", "SIGHUP twice", "q", "SIGKILL"])
def test_it_leaves_no_folder_behind(how: str, tmp_path: Path, short: Path) -> None:
    def folders() -> list[str]:
        return [path.name for path in short.glob("opsconsole-*")]

    process, ours = start_on_pty(tmp_path, f"TMPDIR={short}")
    wait_for("its folder", folders)
    if "starts" not in how:
        read_until(ours, b"READY")
    if how == "hung up while it starts":
        os.close(ours)
    elif how == "q":
        os.write(ours, b"q")
    else:
        number = {"SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}[how.split()[0]]
        os.kill(process, number)
    if how == "SIGHUP twice":
        read_until(ours, b"\x1b[?1049l", 10.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGHUP)  # while it cleans up
    wait_for("the console ends", lambda: gone(process), 15.0)
    if how != "hung up while it starts":
        os.close(ours)
    if how == "SIGKILL":
        assert folders()
        process, ours = start_on_pty(tmp_path, f"TMPDIR={short}")
        read_until(ours, b"READY")
        assert len(folders()) == 1  # its own
        os.kill(process, signal.SIGTERM)
        wait_for("the console ends", lambda: gone(process), 15.0)
        os.close(ours)
    assert folders() == []


def test_no_color_sends_no_colour(tmp_path: Path) -> None:
    import re

    process, ours = start_on_pty(tmp_path, "NO_COLOR=1")
    seen = read_until(ours, b"READY")
    os.kill(process, signal.SIGTERM)
    seen += read_until(ours, b"\x1b[?1049l", 5.0)
    wait_for("the console ends", lambda: gone(process), 5.0)
    os.close(ours)
    codes = {part for found in re.findall(rb"\x1b\[([0-9;]*)m", seen) for part in found.split(b";")}
    coloured = {code for code in codes if code and (30 <= int(code) <= 38 or 40 <= int(code) <= 48 or int(code) >= 90)}
    assert coloured == set()


def test_without_a_terminal_it_refuses_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        DEMO, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "opsconsole: The console needs a terminal" in done.stderr and "Traceback" not in done.stderr


class Engine(BaseHTTPRequestHandler):
    """A vLLM that always has one request running and two waiting, and gets on with its work."""

    asked = 0

    def do_GET(self) -> None:
        Engine.asked += 1
        body = "\n".join(
            f'vllm:{name}{{model_name="tiny",engine="0"}} {value}'
            for name, value in (
                ("num_requests_running", 1),
                ("num_requests_waiting", 2),
                ("kv_cache_usage_perc", 0.31),
                ("prompt_tokens_total", 1000 + 90 * Engine.asked),
                ("generation_tokens_total", 500 + 30 * Engine.asked),
                ("num_preemptions_total", 0),
            )
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(body) + 1))
        self.end_headers()
        self.wfile.write(body + b"\n")

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def engine() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_watch_shows_engines_that_run_through_an_agent_of_its_own(engine: str, tmp_path: Path) -> None:
    need_tmux()
    pane = Tmux(tmp_path, f"{sys.executable} -m opsconsole watch {engine} 127.0.0.1:9 --slo ttft=1s", (80, 24))
    try:
        pane.sees("LIVE", " OK ", " 31 ", "DOWN", "src 1/2 1 down", seconds=40.0)
        pane.keys("Enter")
        pane.sees("why:")
        pane.keys("s")
        pane.sees("RO")
        pane.keys("q")
        pane.sees("LEFT WITH 0")
    finally:
        pane.end()


def test_without_arguments_it_opens_on_what_the_machine_has(engine: str, tmp_path: Path) -> None:
    need_tmux()
    command = f"OPSCONSOLE_PORTS={engine.rpartition(':')[2]} {sys.executable} -m opsconsole --glyphs ascii"
    pane = Tmux(tmp_path, command, (80, 24))
    try:
        pane.sees("LIVE", "loopback", engine[-5:], "READY 1")  # an engine that answers, named by nobody
        pane.keys("q")
        pane.sees("LEFT WITH 0")
    finally:
        pane.end()
    (tmp_path / "opsconsole.toml").write_text(
        f'[agent]\nfleet = "ours"\ninterval = "1s"\n[pool.chat]\ntargets = ["{engine}"]\n[tui]\nread_only = true\n'
    )
    pane = Tmux(tmp_path, command, (80, 24))
    try:
        pane.sees("LIVE", "ours", "RO")
        pane.keys("q")
        pane.sees("LEFT WITH 0")
    finally:
        pane.end()
