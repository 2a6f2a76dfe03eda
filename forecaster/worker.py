"""A process beside, for work that costs more than a few milliseconds: one job at a time, each with a deadline.

The caller asks and comes back later; nothing here waits unless told to. A job over its deadline takes its process with
it, and the next job gets a new one. Jobs are functions by name with plain arguments, so this file knows none of them.
Trap: the process is started by name (`python -m forecaster.worker`) and not by `multiprocessing`, which would import
the caller's whole program a second time.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

NICENESS = 10
LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """How a job ended: with a value, or with what went wrong."""

    value: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    key: str
    call: tuple[Callable[..., Any], tuple[Any, ...]]
    deadline_s: float


class Worker:
    """One process, started when first asked. `now` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._line: dict[str, _Job] = {}
        self._running: tuple[_Job, float] | None = None
        self._done: dict[str, Answer] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self.late = 0  # jobs given up at their deadline

    def ask(self, key: str, function: Callable[..., Any], *args: Any, deadline_s: float = LONGEST_S) -> None:
        """Have `function(*args)` done; a job of the same key that still waits in line is replaced."""
        self._line[key] = _Job(key, (function, args), deadline_s)
        self._turn()

    def take(self, key: str) -> Answer | None:
        """The answer, once; None while there is none."""
        self._turn()
        return self._done.pop(key, None)

    def is_asked(self, key: str) -> bool:
        """Whether a job of this key waits or runs, or its answer has not been taken."""
        return key in self._line or key in self._done or (self._running is not None and self._running[0].key == key)

    def wait(self, key: str) -> Answer | None:
        """Wait for the answer: for backtests, never for a tick."""
        while self.is_asked(key) and key not in self._done:
            self._sit_out()
        return self._done.pop(key, None)

    def finish(self) -> None:
        """Wait until all that was asked is done; the answers stay to be taken."""
        while self._line or self._running is not None:
            self._sit_out()

    def _sit_out(self) -> None:
        if self._pipe is not None and self._running is not None:
            self._pipe.poll(self._running[0].deadline_s)
        self._turn()

    def close(self) -> None:
        """End the process; what it was doing is lost."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._pipe = self._running = None

    def _turn(self) -> None:
        """Collect what is ready, give up what is late, and hand out the next."""
        if self._running is not None:
            self._collect(*self._running)
        if self._running is None and self._line:
            job = self._line.pop(next(iter(self._line)))
            try:
                (self._pipe or self._start()).send(job.call)
            except OSError as error:
                self._end(job, f"the worker process cannot be asked: {error}")
                return
            self._running = job, self._now()

    def _collect(self, job: _Job, since: float) -> None:
        assert self._pipe is not None
        try:
            if self._pipe.poll(0):
                value, error = self._pipe.recv()
                self._running = None
                self._done[job.key] = Answer(value, error)
                return
        except (EOFError, OSError) as error:
            self._end(job, f"the worker process ended: {error}")
            return
        if self._now() - since > job.deadline_s:
            self.late += 1
            self._end(job, f"not done within {job.deadline_s:g} s")

    def _end(self, job: _Job, error: str) -> None:
        self.close()
        self._done[job.key] = Answer(error=error)

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            fd = theirs.fileno()
            command = [sys.executable, "-m", "forecaster.worker", str(fd)]
            self._process = subprocess.Popen(command, pass_fds=(fd,), stdin=subprocess.DEVNULL)
            self._pipe = Connection(ours.detach())
        return self._pipe


def serve(pipe: Connection) -> None:
    """The other side: jobs in, answers out, until the pipe closes."""
    while True:
        try:
            function, args = pipe.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # a job that cannot be read: of another version, or not importable here
            pipe.send((None, f"{type(error).__name__}: {error}"))
            continue
        try:
            value, problem = function(*args), None
        except Exception as error:
            value, problem = None, f"{type(error).__name__}: {error}"
        pipe.send((value, problem))


def main() -> None:
    """The process: quiet, patient, and gone with the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
