"""A temporary folder that is gone when we are: at the end, on a signal, and after SIGKILL when the next one is made.

It must not remove what anybody may still use. The trap: a process's number says nothing, because another container that
shares `/tmp` counts its own; the lock on a file in the folder is the kernel's, and goes with the process that holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PREFIX = "opsconsole-"
LOCK = "held"  # locked while its folder is used; its text is written after that
ENDING = (signal.SIGHUP, signal.SIGTERM)


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A folder of our own, `opsconsole-KIND-...`."""
    sweep()
    with (
        unwinding(),
        tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", ignore_cleanup_errors=True) as name,
        (Path(name) / LOCK).open("w") as lock,
    ):
        with contextlib.suppress(OSError):  # a file system without locks; nobody will sweep there
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(str(os.getpid()))
            lock.flush()
        yield Path(name)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """SIGHUP and SIGTERM leave through every `finally` instead of at once; meanwhile the next ones do nothing."""

    before: dict[signal.Signals, Any] = {}

    def leave(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    with contextlib.suppress(ValueError):  # not the main thread
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` stays what it is
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def sweep() -> None:
    """Remove what processes of this user left that were killed."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX) and _own(entry)]
        for folder in found:
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _own(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()


def _is_left(folder: Path) -> bool:
    """Whether nobody holds it any more; one without a lock's text is just being made, or none of ours."""
    with contextlib.suppress(OSError), (folder / LOCK).open() as lock:
        if lock.read(1):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
