"""A program on a pseudo-terminal, and what it costs: processor, bytes written, memory, time from a key to its effect.

It must not know which program. The traps: a terminal that is not read stalls its program, so whoever waits, reads; and
a program that paints by itself every second has painted something soon after any key, so a key's time ends when the
screen shows what the key does, not when anything was written, nor when the writing stops.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from opsconsole.clock import SystemClock
from tests.bench.tui_screen import Screen

CLOCK = SystemClock()
TICKS = os.sysconf("SC_CLK_TCK")
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
        self.count = 0  # bytes written so far
        self.screen = Screen(width, height, self._say)
        self.began = CLOCK.monotonic()
        self.process, self._ours = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            own = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
            os.execvpe(command[0], list(command), {**environ, **own})

    def read(self, seconds: float, until: bytes | None = None) -> float | None:
        """Drain output for so long, or until a word was seen; when that was, in seconds from the start."""
        end = CLOCK.monotonic() + seconds
        seen = b""
        while (left := end - CLOCK.monotonic()) > 0:
            chunk = self._take(min(left, 0.05))
            for _ in self.screen.feed(chunk):
                pass
            seen = (seen + chunk)[-200_000:]
            if chunk and until is not None and until in seen:
                return CLOCK.monotonic() - self.began
        return None

    def _say(self, answer: bytes) -> None:
        """What a terminal answers by itself, typed as if by a user."""
        os.write(self._ours, answer)

    def press(self, key: bytes, shown: Callable[[Screen], object]) -> float | None:
        """Milliseconds from a key to the end of the frame in which `shown` differs; None where it never did."""
        before, start = shown(self.screen), CLOCK.monotonic()
        took: float | None = None
        os.write(self._ours, key)
        while took is None and (left := start + LOST_S - CLOCK.monotonic()) > 0:
            for _ in self.screen.feed(self._take(left)):
                if took is None and shown(self.screen) != before:
                    took = (CLOCK.monotonic() - start) * 1e3
        return took

    def press_all(self, keys: Sequence[bytes], shown: Callable[[Screen], object], seed: int = 1) -> list[float]:
        """Each key's time, sorted; the pauses between them are drawn so that ticks fall anywhere. Lost is `LOST_S`."""
        draw = Random(seed)
        times: list[float] = []
        for key in keys:
            self.read(0.05 + 0.06 * draw.random())
            took = self.press(key, shown)
            times += [took] if took is not None else [LOST_S * 1e3]
        return sorted(times)

    def _take(self, seconds: float) -> bytes:
        """What comes next, if anything does within so long."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return b""
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the program has ended
            return b""
        self.count += len(chunk)
        return chunk

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
