"""Temporary folders: gone at the end, gone on a signal, and swept up when their process was killed."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from opsconsole.commands.scratch import LOCK, scratch

WAITS = """
import select, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests under nohup has it ignored
from opsconsole.commands.scratch import scratch
with scratch("demo") as folder:
    print(folder, flush=True)
    while True:
        select.select([], [], [], 0.05)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def left(temporary: Path, name: str, text: str | None) -> Path:
    """A folder as a process that was killed leaves it."""
    folder = temporary / name
    folder.mkdir()
    if text is not None:
        (folder / LOCK).write_text(text)
    return folder


def test_a_folder_is_there_and_then_not(temporary: Path) -> None:
    with scratch("watch") as folder:
        assert folder.parent == temporary and folder.name.startswith("opsconsole-watch-")
        assert folder.stat().st_mode & 0o077 == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_takes_the_folder_with_it(number: signal.Signals, temporary: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(number)
        try:
            assert process.wait(timeout=20) == 128 + number
        finally:
            process.kill()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_when_the_next_one_starts(temporary: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        with scratch("demo"):
            assert folder.is_dir()  # it runs
        process.kill()
        process.wait(timeout=20)
    assert folder.is_dir()
    with scratch("demo"):
        assert not folder.exists()


def test_what_somebody_may_still_use_stays(temporary: Path) -> None:
    used = left(temporary, "opsconsole-demo-used", "7")
    young, foreign = left(temporary, "opsconsole-demo-young", ""), left(temporary, "opsconsole-other", None)
    other = left(temporary, "else-demo", "7")
    (temporary / "opsconsole-link").symlink_to(other)
    with (used / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with scratch("demo"):
            assert used.is_dir() and young.is_dir() and foreign.is_dir() and other.is_dir()
    with scratch("demo"):
        assert not used.exists() and young.is_dir() and foreign.is_dir() and other.is_dir()


def test_a_process_that_ignores_a_hang_up_still_does(temporary: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with scratch("watch"):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
