"""What the console costs: processor, bytes to the terminal, memory, time to paint, at 1 to 1,000 replicas.

    make bench-tui BENCH_ARGS="--seconds 15 --replicas 1,8,64"

Each row is the real program on a pseudo-terminal of 160x48 against a demo agent in another process, at one tick a
second with every value moving; the agent's own cost stands beside it. It prints and judges nothing. The trap: the first
seconds hold imports and history, so measuring starts after a settling time.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsconsole.clock import SystemClock
from opsconsole.commands.tui_cmd import companion

CLOCK = SystemClock()
TICKS = os.sysconf("SC_CLK_TCK")
BUDGETS = {1: 3.0, 8: 4.0, 64: 8.0, 256: 15.0, 1000: 25.0}


@dataclass
class Measured:
    """One row of the table."""

    replicas: int
    percent: float = 0.0
    agent_percent: float = 0.0
    kib_per_s: float = 0.0
    rss_mib: float = 0.0
    frame_s: float | None = None
    data_s: float | None = None
    key_p50_ms: float | None = None
    key_p99_ms: float | None = None


def cpu_seconds(process: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(process: int) -> float:
    """Resident memory."""
    line = next(x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Terminal:
    """The console on a pseudo-terminal, its output counted."""

    def __init__(self, address: str, width: int, height: int) -> None:
        self.seen = b""
        self.count = 0
        self.began = CLOCK.monotonic()
        self.process, self._ours = pty.fork()
        if self.process == 0:
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"})
            os.execv(sys.executable, [sys.executable, "-m", "opsconsole", "--attach", address])
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds: float, until: bytes | None = None) -> float | None:
        """Drain output for so long, or until a word was seen; when that was, in seconds from the start."""
        end = CLOCK.monotonic() + seconds
        self.seen = b""
        while (left := end - CLOCK.monotonic()) > 0:
            if not select.select([self._ours], [], [], min(left, 0.05))[0]:
                continue
            chunk = os.read(self._ours, 65536)
            self.count += len(chunk)
            self.seen = (self.seen + chunk)[-200_000:]
            if until is not None and until in self.seen:
                return CLOCK.monotonic() - self.began
        return None

    def press(self, key: bytes) -> float | None:
        """Milliseconds from a key to the first byte painted for it."""
        self.read(0.15)
        start = CLOCK.monotonic()
        os.write(self._ours, key)
        if not select.select([self._ours], [], [], 2.0)[0]:
            return None
        return (CLOCK.monotonic() - start) * 1e3

    def end(self) -> None:
        os.kill(self.process, signal.SIGTERM)
        with contextlib.suppress(OSError):
            self.read(2.0, b"\x1b[?1049l")
        os.waitpid(self.process, 0)
        os.close(self._ours)


@contextlib.contextmanager
def demo(replicas: int) -> Iterator[tuple[str, int]]:
    """A demo agent; its socket and process."""
    with tempfile.TemporaryDirectory(prefix="bench-tui-") as folder:
        socket = Path(folder) / "agent.sock"
        arguments = ["--socket", str(socket), "--tied", "--replicas", str(replicas)]
        with companion("opsconsole.client.demo", arguments, Path(folder)) as process:
            end = CLOCK.monotonic() + 60
            while not socket.exists() and CLOCK.monotonic() < end:
                select.select([], [], [], 0.05)
            yield str(socket), process.pid


def measure(replicas: int, seconds: float, keys: int, settle: float) -> Measured:
    """One row."""
    row = Measured(replicas)
    with demo(replicas) as (address, agent):
        terminal = Terminal(address, 160, 48)
        try:
            row.frame_s = terminal.read(20.0, b"opsconsole")
            row.data_s = terminal.read(20.0, b"READY")
            terminal.read(settle)
            used, used_agent = cpu_seconds(terminal.process), cpu_seconds(agent)
            sent, began = terminal.count, CLOCK.monotonic()
            CLOCK.monotonic()
            terminal.read(seconds)
            took = CLOCK.monotonic() - began
            row.percent = (cpu_seconds(terminal.process) - used) / took * 100
            row.agent_percent = (cpu_seconds(agent) - used_agent) / took * 100
            row.kib_per_s = (terminal.count - sent) / took / 1024
            row.rss_mib = rss_mib(terminal.process)
            times = sorted(t for i in range(keys) if (t := terminal.press(b"j" if i % 2 else b"k")) is not None)
            if times:
                row.key_p50_ms = times[len(times) // 2]
                row.key_p99_ms = times[min(len(times) - 1, int(len(times) * 0.99))]
        finally:
            terminal.end()
    return row


def said(value: float | None, digits: int = 2) -> str:
    return "--" if value is None else f"{value:.{digits}f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicas", default="1,8,64,256,1000")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--keys", type=int, default=30)
    parser.add_argument("--settle", type=float, default=4.0)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"console at 160x48, 1 tick a second, {given.seconds:.0f} s a row; load {load:.1f} on {os.cpu_count()} cores")
    print("replicas  TUI %core  budget  agent %  tty KiB/s  RSS MiB  frame s  data s  key p50 ms  p99 ms")
    for count in (int(word) for word in given.replicas.split(",")):
        row = measure(count, given.seconds, given.keys, given.settle)
        cells = [
            f"{row.replicas:8d}", f"{row.percent:9.1f}", f"{BUDGETS.get(count, 0):6.0f}", f"{row.agent_percent:7.1f}",
            f"{row.kib_per_s:9.1f}", f"{row.rss_mib:7.0f}", f"{said(row.frame_s):>7}", f"{said(row.data_s):>6}",
            f"{said(row.key_p50_ms, 0):>10}", f"{said(row.key_p99_ms, 0):>6}",
        ]  # fmt: skip
        print("  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
