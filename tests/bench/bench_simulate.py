"""How many simulated requests a second one core gets through, by load and fleet; fast-forward beside single steps.

Prints one table and asserts nothing; numbers are of this machine and of this run. CPU time is what is compared: wall
time of a busy machine is shown beside it. The Mooncake rows need the trace (its path, or OPSCONSOLE_SHARED). Then the
fluid fidelity: seconds that each law takes for so many days in bins of 10 s.

    make bench-simulate BENCH_ARGS="--count 20000 --mooncake ../shared/traces/mooncake_conversation.requests.csv.gz"
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from forecaster.planners import PLANNERS
from opsconsole.simulate.alone import serve
from opsconsole.simulate.backtest import WARM_SHARE, run, stage
from opsconsole.simulate.replica import Replica
from opsconsole.simulate.run import Arrival, FleetSettings, PolicyHandle, simulate
from opsconsole.simulate.settings import DEFAULT_REPLICA
from opsconsole.simulate.synthetic import synthetic
from opsconsole.simulate.validate import poisson
from policies.registry import names

SHARED = Path(os.environ.get("OPSCONSOLE_SHARED", Path(__file__).parents[3] / "shared"))
MOONCAKE = SHARED / "traces" / "mooncake_conversation.requests.csv.gz"
RATE = 9.0  # requests/s a replica at 1,000 in, 100 out; it saturates near 10.8


def mooncake(path: Path) -> list[Arrival]:
    """The trace with its prefix blocks."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [
            Arrival(
                float(row["t_seconds"]),
                int(row["prompt_tokens"]),
                max(1, int(row["output_tokens"])),
                tuple(map(int, row["hash_ids"].split())),
            )
            for row in csv.DictReader(lines)
        ]


def fleet(arrivals: Sequence[Arrival], replicas: int, law: str, router: str = "place") -> Callable[[], str]:
    """One run of a fleet, and what to say of it."""

    def run() -> str:
        settings = FleetSettings(initial=replicas, router=router)  # type: ignore[arg-type]
        out = simulate(arrivals, PolicyHandle.named(law), settings)
        hit = (out.cached_tokens or 0) / max(1, out.prompt_tokens)
        return f"attainment {out.attainment:.3f}, {out.mean_replicas:.1f} replicas, hit {hit:.3f}"

    return run


def lone(arrivals: Sequence[Arrival], fast: bool) -> Callable[[], str]:
    """One replica without a fleet around it."""

    def run() -> str:
        events = [0]

        def count(at: float) -> None:
            events[0] += 1

        serve(Replica(DEFAULT_REPLICA, fast), arrivals, count)
        return f"{events[0]:,} events"

    return run


def show(name: str, count: int, run: Callable[[], str]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    said = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{name:44} {count / cpu:10,.0f} {count / wall:10,.0f}   {said}", flush=True)


def fluid(days: float) -> None:
    """Every law once, as published, on a synthetic trace of which the last `days` are simulated."""
    begun = time.process_time()
    found = stage(synthetic("diurnal", 1, days / (1 - WARM_SHARE)), needs=tuple(PLANNERS))
    print(f"\nfluid, {days:g} days of 10 s bins, starts of 300 s; CPU seconds")
    print(f"{'forecasts, once for all laws':44} {time.process_time() - begun:10.1f}", flush=True)
    total = 0.0
    for law in names():
        begun = time.process_time()
        out = run(found, law, 300.0)
        took = time.process_time() - begun
        total += took
        print(f"{law:44} {took:10.1f}   attainment {out.attainment:.3f}, {out.mean_replicas:.1f} replicas", flush=True)
    print(f"{'all laws':44} {total:10.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="requests a row at 1,000 in, 100 out")
    parser.add_argument("--mooncake", type=Path, default=MOONCAKE)
    parser.add_argument("--fluid-days", type=float, default=14.0, help="0 leaves the fluid out")
    options = parser.parse_args()
    requests(options)
    if options.fluid_days > 0:
        fluid(options.fluid_days)


def requests(options: argparse.Namespace) -> None:
    """The request level's rows."""
    print(f"{'load':44} {'req/s CPU':>10} {'req/s wall':>10}")
    count = options.count
    for rate in (0.5, RATE):
        few = poisson(rate, count // 4, 1, (1000, 1000), (100, 100))
        show(f"1,000/100 at {rate:g}/s, one replica, fast-forward", len(few), lone(few, True))
        show(f"1,000/100 at {rate:g}/s, one replica, single steps", len(few), lone(few, False))
    for replicas in (1, 10, 20, 100):
        load = poisson(RATE * replicas, count, 1, (1000, 1000), (100, 100))
        show(f"1,000/100, {replicas} replicas, static", count, fleet(load, replicas, "static"))
    load = poisson(RATE * 20, count, 1, (1000, 1000), (100, 100))
    show("1,000/100, 20 replicas, reactive", count, fleet(load, 20, "reactive"))
    if not options.mooncake.exists():
        print(f"no Mooncake trace at {options.mooncake}: give its path with --mooncake")
        return
    trace = mooncake(options.mooncake)
    for replicas in (8, 20):
        show(f"Mooncake conversation, {replicas} replicas, static", len(trace), fleet(trace, replicas, "static"))
    show("Mooncake conversation, from 10, reactive", len(trace), fleet(trace, 10, "reactive"))


if __name__ == "__main__":
    main()
