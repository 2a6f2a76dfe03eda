"""When requests arrive: pre-drawn offsets from the start, so that no reply can slow the load down.

Pure: draws come from a seeded `random.Random`. Trap: a rate is per second of the run, and a trace's own rate is scaled
by keeping or repeating arrivals, never by stretching time, which would flatten its bursts.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from opsconsole.errors import UsageError


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request's intended send, seconds from the start, with sizes where a trace tells them."""

    at: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of constant rate."""

    seconds: float
    rate: float  # requests/s


def constant(rate: float, seconds: float) -> tuple[Arrival, ...]:
    """Evenly spaced arrivals, the first at 0."""
    return tuple(Arrival(i / rate) for i in range(math.ceil(rate * seconds))) if rate > 0 else ()


def poisson(rate: float, seconds: float, draw: Random) -> tuple[Arrival, ...]:
    """Exponential gaps: what independent users do."""
    return phased((Phase(seconds, rate),), draw)


def phased(phases: Sequence[Phase], draw: Random) -> tuple[Arrival, ...]:
    """Poisson arrivals whose rate changes at fixed times (a burst, or on and off)."""
    out: list[Arrival] = []
    begin = 0.0
    for phase in phases:
        at = begin
        while phase.rate > 0:
            at += draw.expovariate(phase.rate)
            if at >= begin + phase.seconds:
                break
            out.append(Arrival(at))
        begin += phase.seconds
    return tuple(out)


def on_off(rate: float, seconds: float, draw: Random, *, on: float, off: float) -> tuple[Arrival, ...]:
    """Poisson at `rate` for `on` seconds, silence for `off`, and again."""
    phases: list[Phase] = []
    left = seconds
    for length, level in itertools.cycle(((on, rate), (off, 0.0))):
        if left <= 0:
            break
        phases.append(Phase(min(length, left), level))
        left -= length
    return phased(phases, draw)


def varying(rate_at: Callable[[float], float], peak: float, seconds: float, draw: Random) -> tuple[Arrival, ...]:
    """Poisson arrivals of any rate curve that stays under `peak`, by thinning."""
    return tuple(a for a in poisson(peak, seconds, draw) if draw.random() * peak < rate_at(a.at))


def diurnal(low: float, high: float, seconds: float, draw: Random, *, period: float) -> tuple[Arrival, ...]:
    """A day compressed into `period` seconds: from the night's `low` to the day's `high` and back."""

    def rate_at(at: float) -> float:
        return low + (high - low) * (1 - math.cos(2 * math.pi * at / period)) / 2

    return varying(rate_at, high, seconds, draw)


def read_trace(path: Path, seconds: float, draw: Random, *, rate: float | None = None) -> tuple[Arrival, ...]:
    """Arrivals of a CSV (also .gz) with `t_seconds`, and `requests` where rows are bins, else one request a row.

    `rate` scales the mean over the stretch used; without it the trace's own rate is kept.
    """
    rows = list(_rows(path))
    if not rows:
        raise UsageError(f"{path} has no arrivals; a trace is a CSV with the column t_seconds")
    first = rows[0][0]
    span = min(seconds, max(row[0] for row in rows) - first + _bin_width(rows))
    used = [(at - first, count, prompt, output) for at, count, prompt, output in rows if at - first < seconds]
    total = sum(row[1] for row in used)
    keep = 1.0 if rate is None or not total else rate * span / total
    width = _bin_width(rows)
    out = []
    for at, count, prompt, output in used:
        for _ in range(_whole(count * keep, draw)):
            shift = draw.random() * width if width and (count != 1 or keep > 1) else 0.0
            out.append(Arrival(at + shift, _share(prompt, count), _share(output, count)))
    return tuple(sorted((a for a in out if a.at < seconds), key=lambda a: a.at))


def _rows(path: Path) -> Iterator[tuple[float, float, float | None, float | None]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                sizes = (row.get("prompt_tokens"), row.get("output_tokens"))
                prompt, output = (float(size) if size else None for size in sizes)
                yield float(row["t_seconds"]), float(row.get("requests") or 1), prompt, output
    except KeyError:
        raise UsageError(f"{path} has no column t_seconds; a trace is a CSV with that column") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a trace: {error}") from None


def _bin_width(rows: Sequence[tuple[float, float, float | None, float | None]]) -> float:
    """The step of the time column: a bin's width, or about the gap between requests."""
    gaps = sorted(b[0] - a[0] for a, b in itertools.pairwise(rows) if b[0] > a[0])
    return gaps[len(gaps) // 2] if gaps else 0.0


def _whole(expected: float, draw: Random) -> int:
    """An integer with this mean."""
    return int(expected) + (draw.random() < expected - int(expected))


def _share(tokens: float | None, count: float) -> int | None:
    return None if tokens is None or count <= 0 else max(1, round(tokens / count))
