"""A run's summary as JSON fields and as the few lines a person reads.

Knows no clock and no network. Trap: a share is never printed without its n, and a p99 of fewer than 1,000 values is
printed as the maximum it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.bench.goodput import Spread, Summary


def to_fields(summary: Summary) -> dict[str, Any]:
    """The summary as JSON values; unknown is null."""
    share = summary.attainment
    return {
        "offered": summary.offered,
        "completed": summary.completed,
        "failed": summary.failed,
        "endings": summary.endings,
        "window_s": summary.window,
        "bounds": summary.bounds.limits(),
        "target": summary.bounds.target,
        "passes": summary.passes,
        "attainment": None if share is None else share.value,
        "attainment_low": None if share is None else share.low,
        "attainment_high": None if share is None else share.high,
        "goodput": summary.goodput,
        "request_rate": summary.request_rate,
        "output_tokens_per_s": summary.output_rate,
        **{name: _spread_fields(getattr(summary, name)) for name in ("ttft", "tpot", "itl", "e2e", "send_lag")},
        "tpot_undefined": summary.tpot_undefined,
        "tokens_per_chunk": summary.tokens_per_chunk,
        "cached_share": summary.cached_share,
        "capacity": capacity(summary),
    }


def capacity(summary: Summary) -> dict[str, float] | None:
    """What the server surely serves inside the bounds, as `[pool.NAME.capacity]` names it; None where it missed them.

    A lower bound: a run that was met does not tell how much more would have been.
    """
    if not summary.passes or summary.request_rate is None:
        return None
    rates = {"requests": summary.request_rate, "output_tokens": summary.output_rate}
    return {name: float(f"{rate:.4g}") for name, rate in rates.items() if rate}


def _spread_fields(spread: Spread) -> Mapping[str, float | int | None]:
    return {
        "n": spread.n,
        "p50": spread.p50,
        "p95": spread.p95,
        "p99": spread.p99,
        "max": spread.maximum,
        "mean": spread.mean,
    }


def to_lines(summary: Summary) -> list[str]:
    """What a person reads after a run."""
    share = summary.attainment
    lines = [
        f"offered    {summary.offered} in {summary.window:.1f} s   completed {summary.completed}   "
        f"failed {summary.failed}{_failures(summary)}",
    ]
    if share is not None:
        verdict = "meets" if summary.passes else "misses"
        lines.append(
            f"attainment {share.value:.1%} of {share.n} offered ({share.low:.1%} to {share.high:.1%}, 95 % Wilson), "
            f"{verdict} {summary.bounds}"
        )
    lines.append(
        f"goodput    {_number(summary.goodput)} req/s of {_number(summary.request_rate)} completed req/s, "
        f"{_number(summary.output_rate)} output tok/s"
    )
    lines += [_spread_line(name, getattr(summary, name)) for name in ("ttft", "tpot", "itl", "e2e")]
    lag = summary.send_lag
    if lag.p95 is not None and lag.p95 > 0.02:
        lines.append(
            f"note       this client sent late: p95 {_ms(lag.p95)}, so the load was not quite the one asked for"
        )
    if summary.tpot_undefined:
        lines.append(
            f"note       {summary.tpot_undefined} answers have no TPOT (fewer than two tokens, or not counted)"
        )
    found = capacity(summary)
    if found:
        told = ", ".join(f"{name} = {rate:g}" for name, rate in found.items())
        lines.append(f"capacity   at least {told}: if this was one replica, write it under [pool.NAME.capacity]")
    return lines


def _failures(summary: Summary) -> str:
    bad = [f"{count} {name}" for name, count in sorted(summary.endings.items()) if name != "ok"]
    return f" ({', '.join(bad)})" if bad else ""


def _spread_line(name: str, spread: Spread) -> str:
    if not spread.n:
        return f"{name:<10} -"
    top = f"p99 {_ms(spread.p99)}" if spread.p99 is not None else f"p99 >= max {_ms(spread.maximum)}"
    return f"{name:<10} p50 {_ms(spread.p50)}   p95 {_ms(spread.p95)}   {top}   n {spread.n}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
