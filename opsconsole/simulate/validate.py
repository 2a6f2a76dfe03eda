"""The ladder a simulation has to climb before its tables are believed: theory, conservation, and its own reference.

Every rung says what was expected, what was found and how far apart they may be. It must not need a network, a real
engine or a clock; the check against the real engine is `engine_check`. The trap: a mean wait near saturation
converges so slowly that an honest run misses 2 % by chance; at 0.95 the waits are held to the recursion on the same
draws instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from engine.step_time import StepTimeModel
from opsconsole.simulate.alone import serve
from opsconsole.simulate.engine_twin import run_twin
from opsconsole.simulate.queues import Kind, draws, mean_wait, recursion_waits, simulated_waits
from opsconsole.simulate.replica import Replica
from opsconsole.simulate.settings import DEFAULT_REPLICA, Arrival, ReplicaModel
from opsconsole.simulate.steptime import StepCurve

KINDS: tuple[Kind, ...] = ("M/M/1", "M/D/1", "M/M/4")
# Customers a run, each run once as drawn and once mirrored: enough for a standard error of about 0.7 %.
FULL: dict[tuple[Kind, float], int] = {
    ("M/M/1", 0.5): 200_000,
    ("M/M/1", 0.8): 800_000,
    ("M/D/1", 0.5): 100_000,
    ("M/D/1", 0.8): 400_000,
    ("M/M/4", 0.5): 1_500_000,
    ("M/M/4", 0.8): 1_500_000,
}


@dataclass(frozen=True, slots=True)
class Rung:
    """One thing that must hold: `found` within `tolerance` of `expected`, relative where `relative`."""

    name: str
    says: str
    expected: float
    found: float
    tolerance: float
    unit: str
    relative: bool = False

    @property
    def error(self) -> float:
        gap = abs(self.found - self.expected)
        return gap / abs(self.expected) if self.relative else gap

    @property
    def ok(self) -> bool:
        return math.isfinite(self.error) and self.error <= self.tolerance


def ladder(full: bool = False, seed: int = 1) -> tuple[Rung, ...]:
    """All rungs. `full` adds the long runs against the formulas, which take minutes."""
    rungs = [recursion(kind, load, 20_000, seed) for kind in KINDS for load in (0.5, 0.8, 0.95)]
    if full:
        rungs += [formula(kind, load, count, seed) for (kind, load), count in FULL.items()]
    else:
        rungs += [formula(kind, 0.5, FULL[kind, 0.5] // 2, seed) for kind in ("M/M/1", "M/D/1")]
    rungs += conservation(seed)
    rungs += [fast_forward(seed), scheduler(seed)]
    return tuple(rungs)


# -- theory ----------------------------------------------------------------------------------------------------


def recursion(kind: Kind, load: float, count: int, seed: int) -> Rung:
    """Every single wait against the recursion on the same draws; several servers share steps, so to one step's time."""
    drawn = list(draws(kind, load, count, seed))
    pairs = zip(simulated_waits(kind, drawn), recursion_waits(kind, drawn), strict=True)
    worst = max(abs(one - other) for one, other in pairs)
    if kind == "M/M/4":
        ours, theirs = _mean(simulated_waits(kind, drawn)), _mean(recursion_waits(kind, drawn))
        says = f"mean of {count:,} waits, the same draws through Kiefer and Wolfowitz's recursion"
        return Rung(f"{kind} at {load:g}, recursion", says, theirs, ours, 0.01, "s", relative=True)
    says = f"largest gap of {count:,} waits to Lindley's recursion on the same draws"
    return Rung(f"{kind} at {load:g}, recursion", says, 0.0, worst, 1e-6, "s")


def formula(kind: Kind, load: float, count: int, seed: int) -> Rung:
    """The mean wait against the formula."""
    means = [_mean(simulated_waits(kind, list(draws(kind, load, count, seed, mirrored)))) for mirrored in (False, True)]
    says = f"mean wait of 2 x {count:,} customers"
    return Rung(f"{kind} at {load:g}", says, mean_wait(kind, load), _mean(means), 0.02, "s", relative=True)


# -- conservation ----------------------------------------------------------------------------------------------


def conservation(seed: int) -> list[Rung]:
    """Little's law and the books, on the default replica near its limit and on one that is short of blocks."""
    calm = _Books(DEFAULT_REPLICA, poisson(9.0, 3000, seed, (1000, 1000), (100, 100)))
    tight = _Books(replace(DEFAULT_REPLICA, kv_blocks=3000), pressing(400, seed))
    inside = sum((r.last or 0.0) - r.arrived for r in calm.requests)
    return [
        Rung(
            "Little's law",
            "mean number inside, from the replica's own counts, against arrivals x mean time inside",
            inside / calm.span,
            calm.inside / calm.span,
            0.01,
            "requests",
            relative=True,
        ),
        Rung(
            "output tokens",
            f"made against asked for, {tight.replica.preemptions} preemptions on the way",
            float(sum(r.output for r in tight.requests)),
            float(tight.replica.output_tokens),
            0.0,
            "tokens",
        ),
        Rung(
            "prompt tokens",
            "computed against asked for less cached, without preemption",
            float(sum(r.prompt - (r.cached or 0) for r in calm.requests)),
            float(calm.replica.computed_prompt),
            0.0,
            "tokens",
        ),
        Rung(
            "blocks",
            f"free at the end against all; every block has one fate after each of {tight.events:,} events",
            float(tight.replica.kv.total),
            float(tight.replica.kv.free),
            0.0,
            "blocks",
        ),
    ]


class _Books:
    """One replica run to the end, counted from outside at every event."""

    def __init__(self, model: ReplicaModel, arrivals: Sequence[Arrival], fast: bool = True) -> None:
        self.replica = Replica(model, fast)
        self.inside = 0.0  # request-seconds
        self.events = 0
        self.span = 0.0
        self.requests = serve(self.replica, arrivals, self._watch)
        self.replica.check()

    def _watch(self, at: float) -> None:
        self.replica.check()
        self.events += 1
        self.inside += (len(self.replica.running) + len(self.replica.waiting)) * (at - self.span)
        self.span = at


# -- its own reference, and the engine's -----------------------------------------------------------------------


def fast_forward(seed: int) -> Rung:
    """Closed form against one step at a time, on a load that preempts and shares prefixes."""
    model, arrivals = replace(DEFAULT_REPLICA, kv_blocks=3000), pressing(300, seed)
    one, other = _Books(model, arrivals), _Books(model, arrivals, fast=False)
    worst = max(
        abs((a or 0.0) - (b or 0.0))
        for x, y in zip(one.requests, other.requests, strict=True)
        for a, b in ((x.first, y.first), (x.last, y.last))
    )
    says = f"largest gap of any token's time; {other.events:,} steps in {one.events:,} runs"
    return Rung("fast-forward", says, 0.0, worst, 1e-9, "s")


def scheduler(seed: int) -> Rung:
    """The replica against the engine's own scheduler on a virtual clock, on a machine that is short of everything."""
    step = StepTimeModel(0.01, 0.001, 1e-5, 2e-4, 1e-6)
    model = ReplicaModel("small", StepCurve.of_engine(step), 40, block_size=4, chunk=24, max_seqs=6, hash_tokens=4)
    arrivals = cramped(200, seed)
    twin = run_twin(model, step, arrivals)
    ours = _Books(model, arrivals).requests
    worst = max(
        abs((a or 0.0) - (b or 0.0))
        for mine, fate in zip(ours, twin, strict=True)
        for a, b in ((mine.first, fate.first), (mine.last, fate.last))
    )
    says = f"largest gap of any token's time to the engine's scheduler; {sum(f.preemptions for f in twin)} preemptions"
    return Rung("engine's scheduler", says, 0.0, worst, 1e-9, "s")


# -- loads -----------------------------------------------------------------------------------------------------


def poisson(
    rate: float, count: int, seed: int, prompt: tuple[int, int], output: tuple[int, int]
) -> tuple[Arrival, ...]:
    """Independent arrivals with sizes drawn evenly from two ranges."""
    draw, at, out = Random(f"{seed}:poisson"), 0.0, []
    for _ in range(count):
        at += draw.expovariate(rate)
        out.append(Arrival(at, draw.randint(*prompt), draw.randint(*output)))
    return tuple(out)


def pressing(count: int, seed: int) -> tuple[Arrival, ...]:
    """Long prompts, some behind shared openings of 512-token blocks, at a rate that fills the cache."""
    draw, at, out = Random(f"{seed}:pressing"), 0.0, []
    for _ in range(count):
        at += draw.expovariate(5.0)
        opening, shared = draw.randrange(4), draw.randrange(5)
        blocks = tuple(100 * opening + i for i in range(shared))
        out.append(Arrival(at, 512 * shared + draw.randint(20, 4000), draw.randint(1, 500), blocks))
    return tuple(out)


def cramped(count: int, seed: int) -> tuple[Arrival, ...]:
    """For a machine of 40 blocks of 4 tokens."""
    draw, at, out = Random(f"{seed}:cramped"), 0.0, []
    for _ in range(count):
        at += draw.expovariate(8.0)
        opening, shared = draw.randrange(3), draw.randrange(9)
        blocks = tuple(1000 * opening + i for i in range(shared))
        out.append(Arrival(at, 4 * shared + draw.randint(1, 30), draw.randint(1, 40), blocks))
    return tuple(out)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
