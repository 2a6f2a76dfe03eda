"""What is measured of an engine: prefill, decode at a batch, an idle request, goodput at a rate. Through HTTP, for all
alike.

Trap: every measurement draws fresh prompts; a prompt met before measures the prefix cache.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
from collections.abc import Sequence
from random import Random

from opsconsole.bench.arrivals import Arrival, poisson
from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Record, Target
from opsconsole.bench.openloop import run_open_loop
from opsconsole.bench.workload import FIRST_ID, LAST_ID, LONG_TOKENS, Ask, build
from opsconsole.clock import SystemClock

CLOCK = SystemClock()
DECODE_TOKENS = 64


def target(url: str) -> Target:
    return Target(url=url, model="m", timeout=600)


def prompt(tokens: int, draw: Random) -> tuple[int, ...]:
    return tuple(draw.choices(range(FIRST_ID, LAST_ID), k=tokens))


async def prefill(url: str, tokens: int, repeats: int) -> float:
    """Prompt tokens/s of lone requests for one token, median."""
    draw = Random(secrets.randbits(64))
    rates = []
    for _ in range(repeats):
        (record,) = await run_open_loop(target(url), [Arrival(0.0)], [Ask(prompt(tokens, draw), 1)], CLOCK, grace=600)
        rates.append(tokens / (_needed(record.ttft, record) - record.sent + record.intended))
    return statistics.median(rates)


async def decode(url: str, batch: int) -> float:
    """Output tokens/s while `batch` answers are being written at once: batch / median time per token."""
    draw = Random(secrets.randbits(64))
    asks = [Ask(prompt(32, draw), DECODE_TOKENS) for _ in range(batch)]
    records = await run_open_loop(target(url), [Arrival(0.0)] * batch, asks, CLOCK, grace=600)
    return batch / statistics.median(_needed(record.tpot, record) for record in records)


async def idle_bounds(url: str, workload: str, bounds: Bounds) -> Bounds:
    """The bounds, each doubled until a lone request of the workload meets it on the idle engine."""
    draw = Random(secrets.randbits(64))
    asks = build(workload, [Arrival(0.0)] * 2, secrets.randbits(31))
    if workload == "C":
        asks.append(Ask(prompt(LONG_TOKENS, draw), DECODE_TOKENS))
    ttft, tpot = bounds.ttft or 1.0, bounds.tpot or 0.08
    for ask in asks:
        (record,) = await run_open_loop(target(url), [Arrival(0.0)], [ask], CLOCK, grace=600)
        while _needed(record.ttft, record) > ttft:
            ttft *= 2
        while _needed(record.tpot, record) > tpot:
            tpot *= 2
    return Bounds(ttft=ttft, tpot=tpot, target=bounds.target)


async def offer(url: str, workload: str, rate: float, seconds: float) -> list[Record]:
    """One open-loop run with fresh prompts."""
    seed = secrets.randbits(31)
    arrivals = poisson(rate, seconds, Random(seed)) or (Arrival(0.0),)
    asks = build(workload, arrivals, seed + 1)
    records = await run_open_loop(target(url), arrivals, asks, CLOCK, grace=60)
    await _settle(url)
    return records


async def _settle(url: str) -> None:
    """Wait until the engine has got rid of what the last run left, or the next one would pay for it."""
    for _ in range(60):
        (record,) = await run_open_loop(
            target(url), [Arrival(0.0)], [Ask(prompt(16, Random(secrets.randbits(64))), 2)], CLOCK, grace=60
        )
        if record.ttft is not None and record.ttft < 0.5:
            return
        await asyncio.sleep(1.0)


def pooled(runs: Sequence[Sequence[Record]]) -> list[Record]:
    return [record for run in runs for record in run]


def _needed(value: float | None, record: Record) -> float:
    if value is None:
        raise RuntimeError(f"an answer could not be measured: {record.ending} {record.error or ''}")
    return value
