"""A child that cannot outlive its parent: death signal from the kernel, a watch on the parent's id, a group of its own.

`spawn` wraps a Python module of ours in `opsconsole.local.child`, which ties itself to us before it runs the module.
Knows processes and nothing of what they do. Trap: the kernel's signal is tied to the *thread* that spawned; spawn from
the main thread only, or the child dies with the helper thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
WATCH_EVERY = 0.5  # s
LOG_LIMIT = 16 * 2**20  # bytes after which a new life of a process begins a new log


def tie_to_parent(parent: int, death: signal.Signals) -> None:
    """Die by `death` when `parent` does. Exits at once when it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent, death), daemon=True, name="parent-watch").start()


def _watch(parent: int, death: signal.Signals) -> None:
    """Where the kernel has no such signal, or it was lost: notice, ask once, then insist."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(WATCH_EVERY)
    os.kill(os.getpid(), death)
    pause.wait(4.0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(0, signal.SIGKILL)


def child_argv(module: str, args: Sequence[str], death: signal.Signals) -> list[str]:
    """The command line that runs `module` tied to this process."""
    return [sys.executable, "-m", "opsconsole.local.child", str(os.getpid()), str(int(death)), module, *args]


async def spawn(
    module: str,
    args: Sequence[str],
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    death: signal.Signals = signal.SIGKILL,
    pass_fds: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    """Start `python -m module args`, tied to this process, in a session of its own, its output appended to `log`."""
    if log is not None and log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    out = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600) if log else None
    try:
        return await asyncio.create_subprocess_exec(
            *child_argv(module, args, death),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if out is None else out,
            stderr=asyncio.subprocess.DEVNULL if out is None else out,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    finally:
        if out is not None:
            os.close(out)


async def stop(process: asyncio.subprocess.Process, grace: float) -> None:
    """Ask, wait up to `grace` seconds, then kill the whole group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await process.wait()
    kill_group(process.pid)
    if process.returncode is None:
        await process.wait()


def kill_group(pid: int) -> None:
    """Kill the process and whatever it has started in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def exit_words(code: int | None) -> str:
    """How a process ended, for people."""
    if code is None:
        return "is still running"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with code {code}"
