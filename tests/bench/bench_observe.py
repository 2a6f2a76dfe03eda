"""What it costs to read metrics pages: one page beside the library's parser, then 10 to 1,000 replicas over loopback.

Prints two tables and asserts nothing; numbers are of this machine and of this run. The fake replicas (`fake_fleet`, a
port each) live in a process of their own, so that only our side is counted; reader processes (`--shards`) are ours and
counted. The trap: wall time of a busy machine. CPU time is what is compared, and it too grows beside other work: the
library's parser is in the first table, so that two runs can be set against each other.

    make bench-observe BENCH_ARGS="--replicas 10,100,1000 --ticks 60"
    make bench-observe BENCH_ARGS="--replicas 1000 --ticks 60 --shards 2"
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import resource
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opsconsole.clock import SystemClock
from opsconsole.domain.fleet import FleetState, PoolSpec, SloSpec, fold
from opsconsole.garbage import Collector
from opsconsole.history.store import Store
from opsconsole.observe.dialects.normalise import new_memo, normalise
from opsconsole.observe.exposition import scan
from opsconsole.observe.fetch import FetchOptions
from opsconsole.observe.layout import Layouts, PageReader
from opsconsole.observe.scrape import ScrapeOptions, ScrapeSource
from opsconsole.observe.sharded import ShardedSource
from opsconsole.observe.targets import StaticTargets, target_at


def best(rounds: int, **calls: Callable[[], object]) -> dict[str, float]:
    """Milliseconds a call, the best of many short turns, taken in turn: foreign load only ever adds."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            found[name] = min(found[name], timeit.timeit(call, number=2) / 2 * 1e3)
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)))
    print()


def bench_page() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    from tests.bench.fake_fleet import page

    data, memo = page(0), new_memo()
    reader = PageReader(Layouts(memo))
    read = reader.read(data)
    text = data.decode()
    took = best(
        60,
        scan=lambda: reader.read(data),
        normalise=lambda: normalise(read, 1.0, "r"),
        warm=lambda: normalise(reader.read(data), 1.0, "r"),
        cold=lambda: normalise(scan(data, new_memo()), 1.0, "r"),
        library=lambda: list(text_string_to_metric_families(text)),
    )
    print(f"One page: {len(data):,} bytes, {len(read.series)} wanted series. Milliseconds, best of 60 turns.")
    table(
        ("scan", "normalise", "both, warm", "both, cold", "library parser", "library / ours"),
        [[*(f"{ms:.3f}" for ms in took.values()), f"{took['library'] / took['warm']:.1f}x"]],
    )


def spent(source: ScrapeSource | ShardedSource) -> tuple[float, list[float]]:
    """Seconds of CPU that we and our readers have used, and what each process holds at most, MB."""
    us = resource.getrusage(resource.RUSAGE_SELF)
    seconds, held = us.ru_utime + us.ru_stime, [us.ru_maxrss / 1024]
    for shard in source._shards if isinstance(source, ShardedSource) else ():
        if shard.process is not None:
            words = Path(f"/proc/{shard.process.pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{shard.process.pid}/status").read_text())
            held.append(int(peak[1]) / 1024 if peak else 0.0)
    return seconds, held


@dataclass(slots=True)
class Costs:
    """CPU seconds by stage over all ticks, how late each tick began, and how many pages were read."""

    observe: float = 0.0
    fold: float = 0.0
    history: float = 0.0
    late: list[float] = field(default_factory=list)
    good: int = 0

    def row(self, replicas: int, ticks: int, interval: float, held: Sequence[float]) -> list[str]:
        each = replicas * ticks / 1e3
        stages = [self.observe, self.fold, self.history]
        cells = [f"{stage / each:.3f}" for stage in (*stages, sum(stages))]
        late = sorted(self.late)
        p99 = late[min(len(late) - 1, math.ceil(0.99 * len(late)) - 1)]
        share = f"{sum(stages) / (ticks * interval):.0%}"
        return [
            f"{replicas}", *cells, share, f"{p99 * 1e3:.0f}", "+".join(f"{megabytes:.0f}" for megabytes in held),
            f"{self.good / (replicas * ticks):.1%}",
        ]  # fmt: skip


SHARDED_FROM = 300  # replicas; few pages a tick are cheaper to read in the process that folds them


async def measure(urls: Sequence[str], ticks: int, interval: float, shards: int) -> list[str]:
    """CPU a replica and tick: scraping alone, and with the fold and the history; how late the ticks were."""
    replicas = len(urls)
    targets = [target_at(url, name=f"r{n:04}") for n, url in enumerate(urls)]
    options = ScrapeOptions(FetchOptions(timeout_s=5.0), budget_s=max(0.8, interval * 5), spread_s=0.3 * interval)
    source: ScrapeSource | ShardedSource
    if shards:
        source = ShardedSource(StaticTargets(targets), SystemClock(), options, shards)
    else:
        source = ScrapeSource(StaticTargets(targets), SystemClock(), options)
    state, costs, collector = FleetState(), Costs(), Collector(SystemClock())  # as the agent's loop has it
    pools = [PoolSpec("default", slos=(SloSpec("default", 1.0, 0.08),))]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "bench.db")
        for _ in range(2):  # connections and memory are warm before anything is counted
            await source.observe(0.0)
        begun = time.monotonic()
        for tick in range(ticks):
            due = begun + tick * interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            costs.late.append(max(0.0, time.monotonic() - due))
            marks = [spent(source)[0]]
            found = await source.observe(time.time())
            marks.append(spent(source)[0])
            snapshot, state = fold(tick, time.time(), found, pools, state, sources=[source.status()])
            marks.append(spent(source)[0])
            await asyncio.to_thread(store.write_tick, snapshot)  # where the agent's loop writes, too
            marks.append(spent(source)[0])
            costs.observe += marks[1] - marks[0]
            costs.fold += marks[2] - marks[1]
            costs.history += marks[3] - marks[2]
            costs.good += sum(o.sample is not None for o in found)
            collector.rest()
        store.close()
    held = spent(source)[1]
    collector.close()
    await source.close()
    return costs.row(replicas, ticks, interval, held)


def bench_fleet(sizes: Sequence[int], ticks: int, interval: float, shards: int) -> None:
    from tests.bench.fake_fleet import fleet

    print(f"Direct scrape over loopback, gzip, {ticks} ticks every {interval:g} s. CPU in ms a replica and tick.")
    rows = []
    for size in sizes:
        with fleet(size) as urls:
            rows.append(asyncio.run(measure(urls, ticks, interval, shards if size >= SHARDED_FROM else 0)))
    table(("replicas", "scrape", "fold", "history", "all", "of a core", "late p99 ms", "RSS MB", "answered"), rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--replicas", default="10,100,300,1000")
    options.add_argument("--ticks", type=int, default=8)
    options.add_argument("--interval", type=float, default=1.0)
    options.add_argument("--shards", type=int, default=0, help=f"reader processes, from {SHARDED_FROM} replicas on")
    given = options.parse_args()
    bench_page()
    bench_fleet([int(size) for size in given.replicas.split(",")], given.ticks, given.interval, given.shards)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
