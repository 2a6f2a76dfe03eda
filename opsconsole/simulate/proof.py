"""The whole table: every law with its knob, on the proof set, at each cold start, over several processes and days.

Cells are filed as they finish, so a run that is stopped goes on where it was, and the report is written again as they
come, with what has not been run yet named in it. The laws that matter most come first. The trap: two processes must not
make the same forecast twice, so forecasts come before the cells that read them.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from opsconsole.errors import UsageError
from opsconsole.simulate.backtest import Stage, stage
from opsconsole.simulate.cells import Drawer, forecast_version
from opsconsole.simulate.html import grid, page
from opsconsole.simulate.importers import read_trace
from opsconsole.simulate.outlooks import forecasts
from opsconsole.simulate.price import Start, price, sentences, to_json
from opsconsole.simulate.report import Table, table_of
from opsconsole.simulate.settings import SloBounds
from opsconsole.simulate.sweep import Bench, Cell, sweep
from opsconsole.simulate.traces import Trace, shuffled
from opsconsole.simulate.verdict import COLUMNS, CONTROL, LLM, SEASONAL, Promise, judge, missed, rows
from policies.registry import REGISTRY

LAWS = (
    "oracle", "keda-epp", "reactive", "predictive", "static", "hpa-ttft", "bound", "hpa-kv", "wva-v2",
    "dynamo-constant", "kpa", "hpa-queue", "hpa-gpu", "dynamo-arima", "dynamo-kalman",
)  # fmt: skip
FIRST = 4  # of them, run everywhere before the others
NEEDS = ("kalman", "arima")
CONTROL_START_S = 300.0
CONTROL_LAWS = ("oracle", "reactive", "predictive")


@dataclass(frozen=True, slots=True)
class Entry:
    """One load of the proof set."""

    file: str
    requests_only: bool = False
    shuffled: bool = False  # the control: bins in random order
    seasonal: bool = False

    @property
    def promise(self) -> Promise:
        return CONTROL if self.shuffled else SEASONAL if self.seasonal else LLM


LARGE, SMALL = "servegen_m-large.recon_agg10s.csv.gz", "servegen_m-small.recon_agg10s.csv.gz"
NASA, TWITTER = "nasa_1995_jul.agg10s.csv.gz", "twitter_stream_2021_08.agg10s.csv.gz"
PROOF_SET = (
    Entry(LARGE), Entry(TWITTER, seasonal=True), Entry(LARGE, requests_only=True), Entry(SMALL),
    Entry(NASA, seasonal=True), Entry(SMALL, requests_only=True),
)  # fmt: skip
CONTROLS = (Entry(LARGE, shuffled=True), Entry(TWITTER, shuffled=True))


Group = tuple[Entry, float, tuple[str, ...]]  # a load, a start, and the laws to run
EVERY = 8  # finished tasks between two reports


@dataclass(frozen=True, slots=True)
class Task:
    """One law on one load at one start; no law: only the forecasts."""

    folder: str
    cache: str
    entry: Entry
    cold_s: float = 0.0
    law: str = ""


def run_proof(
    folder: Path, cache: Path, out: Path, cold_starts: Sequence[float], processes: int,
    told: Callable[[str], None], laws: Sequence[str] = LAWS, entries: Sequence[Entry] = PROOF_SET,
    controls: Sequence[Entry] = CONTROLS,
) -> str:  # fmt: skip
    """Run what is not filed yet, write the reports, and return the summary as text."""
    absent = [e.file for e in (*entries, *controls) if not (folder / e.file).is_file()]
    if absent:
        raise UsageError(f"{folder} lacks {', '.join(dict.fromkeys(absent))}: give the traces' folder.")
    where = (str(folder), str(cache))
    groups: list[Group] = [(e, c, tuple(laws)) for c in cold_starts for e in entries]
    groups += [(e, CONTROL_START_S, tuple(law for law in CONTROL_LAWS if law in laws)) for e in controls]
    tasks = [Task(*where, e, c, law) for e, c, some in groups for law in some]
    tasks.sort(key=_turn)
    first = [Task(*where, e) for e in dict.fromkeys((*entries, *controls))]
    plain = sum(1 for task in tasks if _turn(task) == 0)
    tasks[plain:plain] = first if any(_turn(task) for task in tasks) else []
    done: dict[Task, list[Cell]] = {}
    text = ""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin) as pool:
        waiting = {pool.submit(_cells, task): task for task in tasks}
        for future in as_completed(waiting):
            task = waiting[future]
            if not task.law:
                told(f"forecasts of {task.entry}")
                continue
            done[task] = future.result()
            told(f"{task.entry} {task.cold_s:g} s {task.law}: {len(done[task])} cells")
            if len(done) % EVERY == 0 or len(done) == sum(1 for task in tasks if task.law):
                tables = _tables(groups, done, where)
                text = write(out, tables, all_begun=len(tables) == len(groups))
    return text


def _tables(
    groups: Sequence[Group], done: Mapping[Task, list[Cell]], where: tuple[str, str]
) -> list[tuple[Table, Promise]]:
    """A table for every trace and start of which something has been run, with what is promised of it."""
    tables = []
    for entry, cold_s, some in groups:
        tasks = {law: Task(*where, entry, cold_s, law) for law in some}
        ran = [law for law in some if tasks[law] in done]
        if ran:
            cells = [cell for law in ran for cell in done[tasks[law]]]
            left = [law for law in some if law not in ran]
            table = table_of(_stage(*where, entry), cold_s, "fluid", SloBounds(), cells, left)
            tables.append((table, entry.promise))
    return tables


def _begin() -> None:
    """A worker's first act: nothing it keeps is a cycle, so few collections; and it does not outlive who started it."""
    gc.set_threshold(100_000, 50, 50)
    parent = parent_process()
    if parent is not None:
        Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _turn(task: Task) -> int:
    """The laws that matter most come first; among all, those that read a forecast come after the forecasts."""
    if LAWS.index(task.law) < FIRST:
        return 1 if task.law == "predictive" else 0
    return 2


def _cells(task: Task) -> list[Cell]:
    """The cells of a law, or with no law only the forecasts."""
    found = _stage(task.folder, task.cache, task.entry)
    if not task.law or task.law == "predictive" or REGISTRY[task.law].needs:
        columns = task.law in ("", "predictive")
        needs = REGISTRY[task.law].needs if task.law else NEEDS
        cache = Path(task.cache) / "forecasts"
        found = replace(found, said=forecasts(found.trace, needs, cache, forecast_version(), columns))
    if not task.law:
        return []
    bench = Bench(found, task.cold_s, SloBounds(), drawer=Drawer(Path(task.cache) / "cells"))
    return list(sweep(bench, task.law))


@lru_cache(maxsize=3)
def _stage(folder: str, cache: str, entry: Entry) -> Stage:
    """Without forecasts."""
    return stage(_trace(Path(folder), entry), forecast=False)


def _trace(folder: Path, entry: Entry) -> Trace:
    trace = read_trace(folder / entry.file)
    if entry.requests_only:
        trace = trace.without_tokens()
    return shuffled(trace, seed=1) if entry.shuffled else trace


def write(out: Path, promised: Sequence[tuple[Table, Promise]], *, all_begun: bool = True) -> str:
    """`proof.json` and `proof.html` in `out`; the summary as text, which calls no promise kept before all was run."""
    verdicts = [judge(table, promise) for table, promise in promised]
    tables = [table for table, _ in promised]
    starts: dict[str, list[Start]] = {t.trace: [] for t in tables}
    for table in tables:
        starts[table.trace] += [
            price(c.policy, table.cold_s, c.outcome) for c in table.cells if c.policy == "predictive" and c.knob is None
        ]
    lost = missed(verdicts)
    summary = [COLUMNS, *rows(verdicts)]
    out.mkdir(parents=True, exist_ok=True)
    found = {
        "verdicts": [v.to_json() for v in verdicts],
        "missed": list(lost),
        "starts": {trace: to_json(some) for trace, some in starts.items()},
        "tables": [t.to_json() for t in tables],
    }
    _replace(out / "proof.json", json.dumps(found, indent=1, sort_keys=True) + "\n")
    prices = [line for trace, some in starts.items() for line in (f"{trace}:", *sentences(some))]
    is_whole = all_begun and all(v.is_whole for v in verdicts)
    kept = "every promise kept" if is_whole else "nothing missed so far; not all was run"
    words = [f"<p>{line}</p>" for line in ("missed: " + "; ".join(lost) if lost else kept, *prices)]
    _replace(out / "proof.html", page(tables, "Proof", [grid(COLUMNS, summary[1:]), *words]))
    widths = [max(len(row[i]) for row in summary) for i in range(len(COLUMNS))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in summary]
    return "\n".join([*lines, "", *(lost or (kept,)), "", *prices])


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
