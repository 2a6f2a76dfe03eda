"""From records to what counts: attainment over everything offered, goodput per second of the arrival window.

Percentiles are exact (all values kept, inverted CDF: the smallest value with at least that share at or below it). Trap:
the drain after the last arrival is not part of the window; dividing by it has biased short runs 8 % low.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Ending, Record

P99_NEEDS = 1000  # values, below which a p99 is the luck of a handful


class Share(NamedTuple):
    """A share of `n` with its 95 % Wilson interval."""

    value: float
    low: float
    high: float
    good: int
    n: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of one latency, seconds; `n` values, `p99` None under 1,000 of them (the maximum is told instead)."""

    n: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    maximum: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One run, summed up. Rates are per second of the arrival window."""

    offered: int
    window: float
    endings: dict[str, int]
    bounds: Bounds
    attainment: Share | None
    goodput: float | None
    request_rate: float | None
    output_rate: float | None  # tokens/s of successful requests
    ttft: Spread
    tpot: Spread
    itl: Spread
    e2e: Spread
    send_lag: Spread  # how late the client itself sent
    tpot_undefined: int  # successes of fewer than two tokens, or of an unknown count
    tokens_per_chunk: float | None
    cached_share: float | None  # of prompt tokens

    @property
    def completed(self) -> int:
        return self.endings.get(Ending.OK, 0)

    @property
    def failed(self) -> int:
        return self.offered - self.completed

    @property
    def passes(self) -> bool:
        return self.attainment is not None and self.attainment.value >= self.bounds.target


def is_good(record: Record, bounds: Bounds) -> bool:
    """Succeeded inside every bound. TPOT does not exist for one token; uncounted tokens cannot be vouched for."""
    if not record.is_success:
        return False
    for name, limit in bounds.limits().items():
        if name == "tpot" and record.output_tokens is not None and record.output_tokens < 2:
            continue
        value = max(record.gaps, default=0.0) if name == "max_gap" else getattr(record, name)
        if value is None or value > limit:
            return False
    return True


def wilson(count: int, n: int, z: float = 1.959964) -> Share | None:
    """The share `count / n` with its Wilson score interval; None of nothing."""
    if n == 0:
        return None
    share = count / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Share(share, max(0.0, centre - half), min(1.0, centre + half), count, n)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Inverted CDF of ascending values."""
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)] if ordered else None


def spread(values: Iterable[float | None]) -> Spread:
    """Percentiles of the values that exist."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return Spread(0)
    return Spread(
        n=len(ordered),
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99) if len(ordered) >= P99_NEEDS else None,
        maximum=ordered[-1],
        mean=sum(ordered) / len(ordered),
    )


def summarise(records: Sequence[Record], bounds: Bounds, window: float) -> Summary:
    """Latencies are of successes; attainment and goodput are over everything offered."""
    done = [record for record in records if record.is_success]
    good = sum(is_good(record, bounds) for record in records)
    tokens = sum(record.output_tokens or 0 for record in done)
    chunks = sum(record.chunks for record in done)
    prompt = sum(record.prompt_tokens or 0 for record in done if record.cached_tokens is not None)
    cached = sum(record.cached_tokens or 0 for record in done)
    return Summary(
        offered=len(records),
        window=window,
        endings=dict(Counter(record.ending.value for record in records)),
        bounds=bounds,
        attainment=wilson(good, len(records)),
        goodput=good / window if window > 0 else None,
        request_rate=len(done) / window if window > 0 else None,
        output_rate=tokens / window if window > 0 else None,
        ttft=spread(record.ttft for record in done),
        tpot=spread(record.tpot for record in done),
        itl=spread(record.itl for record in done),
        e2e=spread(record.e2e for record in done),
        send_lag=spread(record.sent - record.intended for record in records),
        tpot_undefined=sum(record.tpot is None for record in done),
        tokens_per_chunk=tokens / chunks if chunks and tokens else None,
        cached_share=cached / prompt if prompt else None,
    )
