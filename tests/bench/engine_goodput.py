"""Goodput side by side: the peer's highest passing rate is sought, then both are offered it in turns.

Every run is told as it ends, since an hour's work must not hang on its last line. Trap: two engines on two cores
measure each other; whoever is not being measured is stopped by signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Record
from opsconsole.bench.goodput import Summary, summarise
from opsconsole.bench.knee import find_knee
from tests.bench.engine_measures import idle_bounds, offer, pooled
from tests.bench.engine_servers import Server

ASKED = Bounds(ttft=1.0, tpot=0.08, target=0.90)
START_RATES = {"A": 1.5, "B": 1.0, "C": 0.5}

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long is measured. `rates` names the rate of a workload (requests/s) where it shall not be sought."""

    seconds: float
    runs: int
    search_seconds: float
    rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one engine did with a workload at a rate, all its runs pooled."""

    workload: str
    engine: str
    rate: float
    bounds: Bounds
    summary: Summary


async def focus(server: Server, all_of_them: Sequence[Server]) -> None:
    """Let one engine run and hold the others still."""
    for other in all_of_them:
        if other is not server:
            other.pause()
    server.resume()
    await asyncio.sleep(0.2)


async def contest(
    workload: str, lead: Server, servers: Sequence[Server], effort: Effort, tell: Tell
) -> AsyncIterator[Verdict]:
    """One verdict for each server, at the highest rate that `lead` passes; none where it passes at no rate."""
    await focus(lead, servers)
    bounds = await idle_bounds(lead.url, workload, ASKED)
    rate = effort.rates.get(workload) or await highest(workload, lead, bounds, effort, tell)
    if rate is None:
        tell(f"  {workload}: {lead.recipe.name} passes at no rate")
        return
    runs: dict[str, list[Sequence[Record]]] = {server.recipe.name: [] for server in servers}
    for turn in range(effort.runs):
        for server in servers:
            await focus(server, servers)
            runs[server.recipe.name].append(await offer(server.url, workload, rate, effort.seconds))
            found = summarise(runs[server.recipe.name][-1], bounds, effort.seconds)
            tell(f"  {workload} {server.recipe.name} at {rate:.2f}/s, run {turn + 1}: {told(found)}")
    for server in servers:
        records = pooled(runs[server.recipe.name])
        summary = summarise(records, bounds, effort.seconds * effort.runs)
        yield Verdict(workload, server.recipe.name, rate, bounds, summary)


async def highest(workload: str, server: Server, bounds: Bounds, effort: Effort, tell: Tell) -> float | None:
    """The highest rate at which single runs of the server passed, requests/s."""

    async def passes(rate: float) -> bool:
        found = summarise(await offer(server.url, workload, rate, effort.search_seconds), bounds, effort.search_seconds)
        tell(f"  {workload} {server.recipe.name} at {rate:.2f}/s, search: {told(found)}")
        return found.passes

    return (await find_knee(passes, START_RATES[workload])).passed


def told(summary: Any) -> str:
    """`93 % of 240 inside the bounds`."""
    share = summary.attainment
    return f"{share.value:.1%} of {summary.offered} inside the bounds" if share else "nothing offered"
