"""What the console costs: processor, bytes to the terminal, memory, time to paint; alone, and beside other monitors.

    make bench-tui BENCH_ARGS="--replicas 1,8,64 --no-peers"

Two tables. The console alone at 1 to 1,000 replicas: the real program on a pseudo-terminal of 160x48, a demo agent in
another process, one tick a second, every value moving. Then ours and its peers on the same fake replicas (a real page
of vLLM each, 65 KB), ours with the agent that scrapes them. Rows are printed as they are measured; all of it takes
about seven minutes. What misses its budget is marked and named at the end. The traps: times to paint are wall times, so
they mean something on a quiet machine only; and a virtual core that sleeps between two ticks wakes slowly with cold
caches, and charges that to whoever woke it, two- to threefold. So a loop at idle priority, which yields to everything,
keeps each core awake (`--no-awake` leaves them alone); ours and the peers are measured alike.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opsconsole.clock import SystemClock
from opsconsole.commands.tui_cmd import companion

if TYPE_CHECKING:
    from tests.bench.tui_screen import Screen

CLOCK = SystemClock()
CPU_PERCENT = {1: 3.0, 8: 4.0, 64: 8.0, 256: 15.0, 1000: 25.0}  # of one core, by replicas
KEY_MS = {256: 50.0, 1000: 100.0}
FRAME_S, DATA_S, TTY_KIB, RSS_MIB = 0.9, 2.5, 12.0, {64: 110.0}
CONSOLE = (sys.executable, "-m", "opsconsole")


@dataclass
class Cost:
    """What one program took while it was looked at. Percent are of one core."""

    replicas: int
    percent: float = 0.0
    beside_percent: float = 0.0  # its agent's
    kib_per_s: float = 0.0
    rss_mib: float = 0.0
    beside_rss_mib: float = 0.0
    frame_s: float | None = None
    data_s: float | None = None
    keys_ms: list[float] = field(default_factory=list)
    key_cpu_ms: float | None = None

    def at(self, share: float) -> float | None:
        """A quantile of the keys' times: the smallest that so many are not above."""
        times = self.keys_ms
        return times[min(len(times) - 1, int(len(times) * share))] if times else None


@contextlib.contextmanager
def awake(wanted: bool) -> Iterator[str]:
    """Keep every core from sleeping, where idle priority is to be had; says which it was."""
    if not wanted or not hasattr(os, "SCHED_IDLE"):
        yield "cores may sleep"
        return
    spin = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    loops = [subprocess.Popen((sys.executable, "-S", "-c", spin)) for _ in range(os.cpu_count() or 1)]
    try:
        yield "cores kept awake at idle priority"
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


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


def watch(
    command: Sequence[str], replicas: int, seconds: float, settle: float, *, beside: int | None = None,
    keys: int = 0, words: tuple[bytes, bytes] | None = None,
) -> Cost:  # fmt: skip
    """Start a program on a terminal, let it settle, and count. Without `beside` its own children are what is beside."""
    from tests.bench.tui_peers import environment
    from tests.bench.tui_terminal import Terminal, cpu_seconds, descendants, rss_mib

    cost = Cost(replicas)
    terminal = Terminal(command, 160, 48, environment())
    try:
        if words:
            cost.frame_s, cost.data_s = terminal.read(20.0, words[0]), terminal.read(20.0, words[1])
        terminal.read(settle)
        others = [beside] if beside is not None else descendants(terminal.process)
        before = [cpu_seconds(pid) for pid in (terminal.process, *others)]
        sent, began = terminal.count, CLOCK.monotonic()
        terminal.read(seconds)
        took = CLOCK.monotonic() - began
        used = [cpu_seconds(pid) - was for pid, was in zip((terminal.process, *others), before, strict=True)]
        cost.percent, cost.beside_percent = used[0] / took * 100, sum(used[1:]) / took * 100
        cost.kib_per_s = (terminal.count - sent) / took / 1024
        cost.rss_mib, cost.beside_rss_mib = rss_mib(terminal.process), sum(map(rss_mib, others))
        if keys:
            was, began = cpu_seconds(terminal.process), CLOCK.monotonic()
            moves = b"jk" if replicas > 1 else b"  "  # a cursor on the only row stays there; a mark comes and goes
            cost.keys_ms = terminal.press_all([moves[i % 2 : i % 2 + 1] for i in range(keys)], cursor)
            idle = cost.percent / 100 * (CLOCK.monotonic() - began)
            cost.key_cpu_ms = max(0.0, cpu_seconds(terminal.process) - was - idle) / keys * 1e3
    finally:
        terminal.end()
    return cost


def cursor(screen: Screen) -> tuple[tuple[int, str], ...]:
    """The rows that carry the mark of the selected replica or a star, which every key pressed here changes."""
    marks = zip(screen.column(1), screen.column(2), strict=True)
    return tuple((y, mark) for y, (at, star) in enumerate(marks) if (mark := f"{at}{star}") in (">*", "> ", " *"))


def said(value: float | None, limit: float | None = None, digits: int = 1) -> str:
    """A number, marked where it misses its budget."""
    if value is None:
        return "--"
    return f"{value:.{digits}f}{'!' if limit is not None and value > limit else ''}"


def line(cells: Sequence[str], widths: Sequence[int]) -> None:
    print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)), flush=True)


def missed(cost: Cost) -> list[str]:
    """The budgets that a row of the console alone misses, in words."""
    limits = (
        ("% of a core", cost.percent, CPU_PERCENT.get(cost.replicas)),
        ("KiB/s to the terminal", cost.kib_per_s, TTY_KIB),
        ("MiB resident", cost.rss_mib, RSS_MIB.get(cost.replicas)),
        ("s to the first frame", cost.frame_s, FRAME_S),
        ("s to the first row", cost.data_s, DATA_S),
        ("ms from key to repaint, p99", cost.at(0.99), KEY_MS.get(cost.replicas)),
    )
    return [
        f"{cost.replicas} replicas: {value:.1f} {what}, {limit:g} allowed"
        for what, value, limit in limits
        if value is not None and limit is not None and value > limit
    ]


def alone(sizes: Sequence[int], given: argparse.Namespace) -> None:
    """The console itself, and what it misses."""
    print(f"The console alone; a demo agent beside it. {given.seconds:g} s a row, then {given.keys} keys.")
    head = ("replicas", "% core", "budget", "agent %", "tty KiB/s", "RSS MiB", "frame s", "data s",
            "key p50 ms", "p99 ms", "max ms", "CPU ms/key")  # fmt: skip
    widths = [len(title) for title in head]
    line(head, widths)
    misses: list[str] = []
    for size in sizes:
        with demo(size) as (address, agent):
            command = [*CONSOLE, "--attach", address]
            words = (b"opsconsole", b"READY")
            row = watch(command, size, given.seconds, given.settle, beside=agent, keys=given.keys, words=words)
        budget = CPU_PERCENT.get(size)
        line((
            str(size), said(row.percent, budget), said(budget, digits=0), said(row.beside_percent),
            said(row.kib_per_s, TTY_KIB), said(row.rss_mib, RSS_MIB.get(size), 0), said(row.frame_s, FRAME_S, 2),
            said(row.data_s, DATA_S, 2), said(row.at(0.5), digits=0), said(row.at(0.99), KEY_MS.get(size), 0),
            said(row.at(1.0), digits=0), said(row.key_cpu_ms),
        ), widths)  # fmt: skip
        misses += missed(row)
    print("\n".join(["Budgets missed:", *misses] if misses else ["Every budget is met."]), end="\n\n", flush=True)


def beside_peers(sizes: Sequence[int], given: argparse.Namespace) -> None:
    """Ours with its agent, and each peer, on the same replicas."""
    from tests.bench.fake_fleet import fleet
    from tests.bench.tui_peers import PEERS

    print("Beside others on the same fake replicas, once a second; peers scrape in the process that draws.")
    print("Ours is the screen and its agent together, then the screen alone.")
    head = ("replicas", "           program", "% core", "screen alone", "tty KiB/s", "RSS MiB", "screen alone")
    left_out = [p.name for p in PEERS if p.command(os.environ, [""]) is None]
    widths = [len(title) for title in head]
    line(head, widths)
    for size in sizes:
        with fleet(size) as urls:
            commands: list[tuple[str, list[str] | None]] = [("opsconsole watch", [*CONSOLE, "watch", *urls])]
            commands += [(p.name, p.command(os.environ, urls)) for p in PEERS if p.most is None or size <= p.most]
            for name, command in commands:
                if command is None:
                    line((str(size), f"{name}: left out", *["--"] * 5), widths)
                    continue
                row = watch(command, size, given.seconds, given.settle + 2)
                line((
                    str(size), name, said(row.percent + row.beside_percent), said(row.percent), said(row.kib_per_s),
                    said(row.rss_mib + row.beside_rss_mib, digits=0), said(row.rss_mib, digits=0),
                ), widths)  # fmt: skip
    print("".join(f"{p.name} shows one server. " for p in PEERS if p.most == 1), flush=True)
    if left_out:
        print(f"Left out: {', '.join(left_out)}; not installed, docs/bench.md says how.", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicas", default="1,8,64,256,1000", help="of the console alone")
    parser.add_argument("--beside", default="1,8,64", help="replicas beside peers")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--seconds", type=float, default=12.0, help="counted for each row")
    parser.add_argument("--keys", type=int, default=150)
    parser.add_argument("--settle", type=float, default=4.0, help="before the counting")
    parser.add_argument("--no-awake", action="store_true", help="let cores sleep between ticks")
    given = parser.parse_args()
    began, load = CLOCK.monotonic(), os.getloadavg()[0]
    sys.path.insert(0, str(Path(__file__).parents[2]))
    with awake(not given.no_awake) as cores:
        print(f"{os.cpu_count()} cores, load {load:.1f} before, {cores}; terminal 160x48")
        if given.replicas:
            alone([int(word) for word in given.replicas.split(",")], given)
        if not given.no_peers:
            beside_peers([int(word) for word in given.beside.split(",")], given)
    print(f"{CLOCK.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
