"""A few seconds on the first worker, alone: how fast is one request, and how much does one worker sustain.

Without bounds from the user, the bounds are multiples of the idle times, so that the built-in loads mean the same on a
slow and on a fast machine. Trap: a worker that is asked too many at once still finishes everything, only late; what it
*sustains* is the most it did while a token still came within the bound.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from opsconsole.bench.arrivals import Arrival
from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Record, Target
from opsconsole.bench.openloop import run_closed_loop
from opsconsole.bench.workload import DEMO_OUTPUT, build
from opsconsole.clock import Clock
from opsconsole.errors import OpsConsoleError
from opsconsole.local.settings import Measured

IDLE_REQUESTS = 4  # the first is not counted: it meets cold code
USERS = (4, 8, 16)
STEP_SECONDS = 2.0
TTFT_FACTOR, TPOT_FACTOR = 5.0, 2.5
TTFT_LEAST, TPOT_LEAST = 0.05, 0.005  # s; under these a bound would measure the machine's scheduler
TARGET, HOLDS = 0.95, 0.9
BUDGET = 12.0  # s, all steps together

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the first worker showed. Seconds; rates per second."""

    idle_ttft: float
    idle_tpot: float
    sustained: float  # requests/s of the demo workload, one worker
    users: int  # at once, when it did
    bounds: Bounds
    is_measured: bool  # False: the bounds are the user's own

    def measured(self) -> Measured:
        """For the other processes."""
        return Measured(self.bounds, self.sustained, self.idle_ttft, self.idle_tpot)

    def lines(self) -> list[str]:
        """What is printed of it."""
        origin = "5x idle TTFT, 2.5x idle TPOT" if self.is_measured else "as asked"
        return [
            f"idle request: TTFT {self.idle_ttft * 1000:.0f} ms, TPOT {self.idle_tpot * 1000:.1f} ms",
            f"one worker sustains {self.sustained:.2f} requests/s of the built-in load ({self.users} at once)",
            f"bounds: {self.bounds} ({origin})",
        ]


async def calibrate(target: Target, asked: Bounds | None, clock: Clock, seed: int, say: Say) -> Calibration:
    """Measure one worker."""
    asks = build("demo", [Arrival(0.0)] * 600, seed)
    say("measuring one request at a time")
    idle, _ = await run_closed_loop(target, asks[:IDLE_REQUESTS], clock, users=1, seconds=20.0)
    ttft, tpot = _idle(idle)
    bounds = asked or Bounds(
        ttft=_round(max(TTFT_LEAST, TTFT_FACTOR * ttft)),
        tpot=_round(max(TPOT_LEAST, TPOT_FACTOR * tpot)),
        target=TARGET,
    )
    draw = Random(seed)
    best, best_users = 1.0 / _mean_time(idle), 1
    began = clock.monotonic()
    for users in USERS:
        if clock.monotonic() - began > BUDGET:
            break
        say(f"measuring {users} requests at a time")
        draw.shuffle(asks)
        records, took = await run_closed_loop(target, asks, clock, users=users, seconds=STEP_SECONDS)
        rate = _rate(records, took)
        if not _holds(records, bounds):
            break
        if rate <= best * 1.05:
            break
        best, best_users = rate, users
    return Calibration(ttft, tpot, best, best_users, bounds, asked is None)


def _idle(records: Sequence[Record]) -> tuple[float, float]:
    good = [record for record in records if record.is_success][1:]
    ttft, tpot = _median(record.ttft for record in good), _median(record.tpot for record in good)
    if ttft is None or tpot is None:
        why = next((record.error for record in records if record.error), "no answer had two tokens")
        raise OpsConsoleError(f"the first worker does not answer as it should: {why}")
    return ttft, tpot


def _mean_time(records: Sequence[Record]) -> float:
    times = [record.e2e for record in records if record.is_success and record.e2e is not None]
    return max(1e-3, sum(times) / len(times)) if times else 1.0


def _rate(records: Sequence[Record], took: float) -> float:
    """Requests/s by the tokens that came: whole requests are too coarse for so short a run."""
    tokens = sum(record.output_tokens or record.chunks for record in records)
    return tokens / took / DEMO_OUTPUT.mean if took > 0 else 0.0


def _holds(records: Sequence[Record], bounds: Bounds) -> bool:
    """Whether nine answers in ten came within the bound per token. TTFT is left out: all users began at once."""
    if bounds.tpot is None:
        return True
    within = [record.tpot is None or record.tpot <= bounds.tpot for record in records if record.is_success]
    return bool(within) and sum(within) >= HOLDS * len(within)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _round(seconds: float) -> float:
    """Two significant digits: a bound is a promise, not a measurement."""
    return float(f"{seconds:.2g}")
