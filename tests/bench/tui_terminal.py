"""A program on a pseudo-terminal, and what it costs: processor, bytes written, memory, time from a key to its paint.

It must not know which program. The trap: a terminal that is not read stalls its program, so whoever waits, reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from opsconsole.clock import SystemClock

CLOCK = SystemClock()
TICKS = os.sysconf("SC_CLK_TCK")
SETTLED_S = 0.012  # output that pauses for so long is a repaint's end; frames come 16 ms apart at most
LOST_S = 2.0


def cpu_seconds(process: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(process: int) -> float:
    """Resident memory."""
    line = next(x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def descendants(process: int) -> list[int]:
    """Processes it has started, and those they have."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


class Terminal:
    """One program on one terminal of its own."""

    def __init__(self, command: Sequence[str], width: int, height: int, environ: Mapping[str, str]) -> None:
        self.seen = b""
        self.count = 0  # bytes written so far
        self.began = CLOCK.monotonic()
        self.process, self._ours = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            own = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
            os.execvpe(command[0], list(command), {**environ, **own})

    def read(self, seconds: float, until: bytes | None = None) -> float | None:
        """Drain output for so long, or until a word was seen; when that was, in seconds from the start."""
        end = CLOCK.monotonic() + seconds
        self.seen = b""
        while (left := end - CLOCK.monotonic()) > 0:
            if self._take(min(left, 0.05)) and until is not None and until in self.seen:
                return CLOCK.monotonic() - self.began
        return None

    def press(self, key: bytes) -> float | None:
        """Milliseconds from a key to the last byte of its repaint; None where none came."""
        start = CLOCK.monotonic()
        os.write(self._ours, key)
        if not self._take(LOST_S):
            return None
        painted = CLOCK.monotonic()
        while self._take(SETTLED_S) and painted - start < LOST_S:
            painted = CLOCK.monotonic()
        return (painted - start) * 1e3

    def press_all(self, keys: Sequence[bytes], seed: int = 1) -> list[float]:
        """A repaint's time for each key, sorted; the pauses between them are drawn so that ticks fall anywhere."""
        draw = Random(seed)
        times: list[float] = []
        for key in keys:
            self.read(0.05 + 0.06 * draw.random())
            took = self.press(key)
            times += [took] if took is not None else [LOST_S * 1e3]
        return sorted(times)

    def _take(self, seconds: float) -> bool:
        """Read what comes within so long; whether anything did."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the program has ended
            return False
        self.count += len(chunk)
        self.seen = (self.seen + chunk)[-200_000:]
        return bool(chunk)

    def end(self) -> None:
        """End the program and what it started."""
        others = descendants(self.process)
        os.kill(self.process, signal.SIGTERM)
        end = CLOCK.monotonic() + 5.0
        while os.waitpid(self.process, os.WNOHANG)[0] == 0:
            if CLOCK.monotonic() > end:
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                break
            self._take(0.05)
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self._ours)
