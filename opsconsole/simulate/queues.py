"""Queues whose answers are known: the formulas, the recursions, and a simulated replica made to be one.

A replica with `servers` seats whose steps take a fixed time, and requests whose service is a number of output tokens,
is a queue with that many servers. What M/M/1, M/D/1 and M/M/c say of the mean wait, and what Lindley's recursion
(Kiefer and Wolfowitz's for several servers) says of every single wait, must come out. It must not know fleets. The
trap: time is in steps of `STEP_S`, so a service is a whole number of steps; they are made small against a service.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal

from opsconsole.simulate.alone import serve
from opsconsole.simulate.replica import Replica
from opsconsole.simulate.settings import Arrival, ReplicaModel
from opsconsole.simulate.steptime import StepCurve

STEP_S = 1.0 / 4096.0  # a power of two: sums of steps are exact
STEPS = 4096  # of a mean service, which is 1 s

Kind = Literal["M/M/1", "M/D/1", "M/M/4"]
SERVERS: dict[Kind, int] = {"M/M/1": 1, "M/D/1": 1, "M/M/4": 4}


def mean_wait(kind: Kind, load: float) -> float:
    """Seconds in the queue, with a mean service of 1 s."""
    servers = SERVERS[kind]
    if kind == "M/D/1":
        return load / (2.0 * (1.0 - load))
    return erlang_c(servers, load * servers) / (servers * (1.0 - load))


def erlang_c(servers: int, offered: float) -> float:
    """The chance to have to wait, with `offered` servers' worth of work."""
    free = sum(offered**k / math.factorial(k) for k in range(servers))
    full = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return full / (free + full)


def draws(kind: Kind, load: float, count: int, seed: int, mirrored: bool = False) -> Iterator[tuple[float, int]]:
    """(gap to the one before in s, service in steps). `mirrored` takes 1 - u for every draw u: it cancels noise."""
    draw = Random(f"{seed}:{kind}:{load}")
    rate = load * SERVERS[kind]
    for _ in range(count):
        one, other = draw.random(), draw.random()
        if mirrored:
            one, other = 1.0 - one, 1.0 - other
        gap = -math.log(max(1e-300, 1.0 - one)) / rate
        service = STEPS if kind == "M/D/1" else max(1, round(-STEPS * math.log(max(1e-300, 1.0 - other))))
        yield gap, service


def simulated_waits(kind: Kind, drawn: Sequence[tuple[float, int]]) -> list[float]:
    """Every wait, from a replica that is this queue."""
    servers = SERVERS[kind]
    curve = StepCurve(((0.0, STEP_S),))
    model = ReplicaModel(kind, curve, 1 << 40, chunk=servers, max_seqs=servers, prefix_cache=False)
    times = itertools.accumulate(gap for gap, _ in drawn)
    arrivals = (Arrival(at, 1, service) for at, (_, service) in zip(times, drawn, strict=True))
    return [(request.first or 0.0) - STEP_S - request.arrived for request in serve(Replica(model), arrivals)]


def recursion_waits(kind: Kind, drawn: Sequence[tuple[float, int]]) -> list[float]:
    """The same draws through Lindley's (Kiefer and Wolfowitz's) recursion."""
    free, at, waits = [0.0] * SERVERS[kind], 0.0, []
    for gap, service in drawn:
        at += gap
        begin = max(at, free[0])
        heapq.heapreplace(free, begin + service * STEP_S)
        waits.append(begin - at)
    return waits
