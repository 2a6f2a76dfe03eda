"""What the forecast wins on one machine: `up` with the reactive law and with the predictive one, on the same load.

Each pair of runs has the same seed, the same bounds and the same rate of one worker (measured once, before), so the
arrivals are the same to the millisecond; which law goes first alternates. It prints a table and asserts nothing. The
traps: a machine that does other things meanwhile measures those; and the first day of a load has no yesterday, so the
run must be longer than a day or it shows the trend's part of the forecast only.

    make bench-single-node BENCH_ARGS="--runs 3 --day 80s --for 160s"
"""

from __future__ import annotations

import argparse
import json
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from opsconsole.bench.bounds import parse_duration
from opsconsole.history.reader import Reader

LAWS = ("reactive", "predictive")
MAXIMUM = 2
CALIBRATIONS = 3
AROUND_S = 2.5  # arrivals are counted over this much to both sides
HEAD = f"{'run':8}{'law':12}{'offered':>8}{'inside SLO':>11}{'TTFT p95':>10}{'worker-s':>10}{'short s':>9}{'starts':>8}"


class Machine(NamedTuple):
    """What one worker does here: requests/s, and the bounds made of its idle times."""

    sustained: float
    slo: str


class Run(NamedTuple):
    """One `up`, from its database."""

    law: str
    seed: int
    offered: int
    attainment: float
    ttft_p95: float | None  # s
    worker_seconds: float  # starting and draining ones included
    short_s: float  # more arrived than what served could take, and another worker was to be had
    starts: tuple[float, ...]  # s, from each decision to its worker's first token


def up(folder: Path, *words: str) -> dict[str, Any]:
    """One run in `folder`, its summary."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "opsconsole", "up", "--no-tui", "--output", "json", "--data-dir", str(folder)]
    command += ["--workers", f"1:{MAXIMUM}", "--port", str(port), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"up failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def calibrated() -> Machine:
    """The median of a few calibrations."""
    rates, ttfts, tpots = [], [], []
    for number in range(CALIBRATIONS):
        with tempfile.TemporaryDirectory(prefix="ab-") as name:
            up(Path(name), "--load", "steady", "--for", "2s", "--seed", str(number))
            with closing(sqlite3.connect(Path(name) / "opsconsole.db")) as database:
                config = json.loads(database.execute("SELECT config FROM runs").fetchone()[0])
        rates.append(config["sustained"])
        bounds = dict(part.split("=") for part in config["bounds"].split(","))
        ttfts.append(parse_duration(bounds["ttft"]))
        tpots.append(parse_duration(bounds["tpot"]))
    slo = f"ttft={1000 * statistics.median(ttfts):.0f}ms,tpot={1000 * statistics.median(tpots):.0f}ms,target=95%"
    return Machine(round(statistics.median(rates), 2), slo)


def measured(law: str, seed: int, machine: Machine, words: Sequence[str]) -> Run:
    """One run of one law, read from what it left."""
    with tempfile.TemporaryDirectory(prefix="ab-") as name:
        fixed = ("--load", "diurnal", "--slo", machine.slo, "--sustained", str(machine.sustained))
        summary = up(Path(name), *fixed, "--policy", law, "--seed", str(seed), *words)
        span = summary["started_at"], summary["ended_at"]
        with closing(Reader(Path(name) / "opsconsole.db")) as reader:
            ticks = [(s.at, s.replicas) for s in reader.range(*span, limit=10_000)]
        with closing(sqlite3.connect(Path(name) / "opsconsole.db")) as database:
            arrivals = [at for (at,) in database.execute("SELECT intended_at FROM requests ORDER BY 1")]
    present = short = 0.0
    for (at, replicas), (after, _) in pairwise(ticks):
        serving = sum(r.state.value in ("OK", "HOT", "SAT") for r in replicas)
        rate = sum(at - AROUND_S <= when < at + AROUND_S for when in arrivals) / (2 * AROUND_S)
        present += len(replicas) * (after - at)
        short += (after - at) * (serving < MAXIMUM and rate > serving * machine.sustained)
    starts = tuple(start["seconds"] for start in summary["starts"])
    return Run(law, seed, summary["offered"], summary["attainment"], summary["ttft_p95"], present, short, starts)


def line(name: str, runs: Sequence[Run]) -> str:
    """One row: a run, or the median of several."""

    def middle(values: Sequence[float | None]) -> float:
        return statistics.median([v for v in values if v is not None] or [float("nan")])

    starts = [s for r in runs for s in r.starts]
    return (
        f"{name:8}{runs[0].law:12}{middle([r.offered for r in runs]):8.0f}"
        f"{100 * middle([r.attainment for r in runs]):10.2f}%{1000 * middle([r.ttft_p95 for r in runs]):8.0f}ms"
        f"{middle([r.worker_seconds for r in runs]):10.1f}"
        f"{middle([r.short_s for r in runs]):9.1f}{middle(starts) if starts else 0.0:7.1f}s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="of each law")
    parser.add_argument("--day", default="80s")
    parser.add_argument("--for", dest="length", default="160s")
    parser.add_argument("--cold-start-delay", default="0s", help="a demonstration: every start made this much slower")
    parser.add_argument("--json", type=Path, help="also written here")
    given = parser.parse_args()
    say = sys.stdout.write
    machine = calibrated()
    words = ["--day", given.day, "--for", given.length, "--cold-start-delay", given.cold_start_delay]
    say(f"one worker sustains {machine.sustained:g} requests/s; bounds {machine.slo}; {' '.join(words)}\n{HEAD}\n")
    sys.stdout.flush()
    runs: list[Run] = []
    for number in range(given.runs):
        for law in LAWS if number % 2 == 0 else LAWS[::-1]:
            runs.append(measured(law, 100 + number, machine, words))
            say(line(str(number + 1), runs[-1:]) + "\n")
            sys.stdout.flush()
    by_law = {law: [r for r in runs if r.law == law] for law in LAWS}
    for law in LAWS:
        say(line("median", by_law[law]) + "\n")
    if given.json is not None:
        document = {"machine": machine._asdict(), "options": words, "runs": [r._asdict() for r in runs]}
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
