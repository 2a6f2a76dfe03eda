"""`opsconsole web` as a real process, and the consoles that it has started for readers.

It must not know who reads. The trap: the line that it is there is printed before it accepts connections.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ports import free_port


def run_web(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "opsconsole", "web", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def serving(*words: str, sessions: int) -> Iterator[int]:
    """Its port, once it says that it is there."""
    port = free_port()
    with run_web(*words, "--port", str(port), "--sessions", str(sessions)) as process:
        try:
            assert process.stdout is not None
            readers = "1 reader" if sessions == 1 else f"{sessions} readers"
            assert f"http://127.0.0.1:{port} for up to {readers}, read-only" in process.stdout.readline()
            yield port
        finally:
            process.terminate()
            assert process.wait(timeout=30) == 0


def consoles(port: int) -> list[int]:
    """Processes that the server of this port has started for readers."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and "--read-only" in (entry / "cmdline").read_text():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                found += [int(entry.name)] if str(port) in Path(f"/proc/{parent}/cmdline").read_text() else []
    return found
