"""The forecaster's bars on real traces: point error, p99 pinball, coverage, capacity and CPU, by series and together.

Every origin of the last 60 % of each series is scored, against last value and against a three-minute average with a
day's additive conformal quantiles. Capacity is what buying the p99 five minutes ahead costs: its mean over the mean of
demand, scaled so that exactly 99 % of minutes are covered. At 180 s, its own cadence, Dynamo's Kalman filter is run
beside the forecaster. Beside the traces given, two made series where theory says what is possible. It prints a table
and asserts nothing; exit code 1 where a bar is missed. The trap: the bars are geometric means over the
six reference series, so fewer traces give another mean.

    make bench-forecast BENCH_ARGS="m-large.csv.gz:requests m-large.csv.gz:output_tokens nasa.csv.gz"
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from forecaster.backtest import WARM_SHARE, LeadScore, Rolled, regular, roll, score
from forecaster.planners import INTERVAL_S, kalman
from forecaster.series import Series, from_values
from opsconsole.commands.forecast_source import read_history

LEADS, LEVELS = (120.0, 300.0, 600.0), (0.5, 0.9, 0.99)
ERROR_BARS, P99_BARS = (0.89, 0.88, 0.83), (0.80, 0.85, 0.88)
COVERAGE_LONG, COVERAGE_SHORT, LONG_DAYS, CPU_MS = (98.5, 99.5), 98.0, 13.5, 5.0
# Mean bought over mean demand, by the beginning of a file's name and the column.
CAPACITY_BARS = {
    ("servegen_m-large.recon", "requests"): 1.50,
    ("servegen_m-large.recon", "output_tokens"): 1.75,
    ("servegen_m-small.recon", "requests"): 1.56,
    ("nasa_1995_jul", "requests"): 1.91,
    ("twitter_stream", "requests"): 3.22,
    ("gentd26", "requests"): 4.42,
}
HEAD = (
    f"{'series':44}{'days':>5}  {'error / last value':^20}  {'p99 pinball':^17}  {'p99 coverage %':^20}  ms/step"
    f"  bought  180 s: ours Kalman"
)
THEORY = {"Poisson": (0.70, 0.73), "random walk": (0.0, 1.01)}


class Row(NamedTuple):
    """What one series showed."""

    name: str
    days: float
    cpu_ms: float  # a step, all leads and levels
    scores: tuple[LeadScore, ...]
    capacity: float  # mean bought over mean demand
    rivals: tuple[float, float]  # error / last value at 180 s: the forecaster's, and the Kalman filter's


def measure(name: str) -> Row:
    """Roll over one series: a file and column, or one of the made ones."""
    series = made(name) if name in THEORY else traced(name)
    began = time.process_time()
    rolled = roll(series, LEADS, LEVELS)
    cpu = 1000 * (time.process_time() - began) / max(1, len(series))
    days = len(series) * series.step / 86400
    return Row(name.rsplit("/", 1)[-1], days, cpu, score(rolled).scores, bought(rolled), at_180_s(series))


def bought(rolled: Rolled) -> float:
    """The p99 five minutes ahead, scaled to cover 99 % of minutes, over demand; means of the scored part."""
    series, ahead = rolled.series, round(LEADS[1] / rolled.series.step)
    y = np.where(series.known, series.values, np.nan)
    said = rolled.values[int(len(y) * WARM_SHARE) : -ahead, 1, 2]
    truth = y[-said.size :]
    known = np.isfinite(truth)
    factor = np.quantile(truth[known] / np.maximum(said[known], 1e-12), 0.99)
    return float(factor * said[known].mean() / truth[known].mean())


def at_180_s(series: Series) -> tuple[float, float]:
    """One step of 180 s ahead: mean error over last value's, of the forecaster and of the Kalman filter on counts.

    The filter has no gaps: it is given the last value again. NaN where the series' own steps are no part of 180 s.
    """
    if INTERVAL_S % series.step:
        return math.nan, math.nan
    coarse = series.resample(INTERVAL_S)
    y = np.where(coarse.known, coarse.values, np.nan)
    filled = y[np.maximum.accumulate(np.where(np.isfinite(y), np.arange(y.size), 0))]
    ours = roll(coarse, (INTERVAL_S,), (0.5,)).values[:-1, 0, 0]
    theirs = kalman(filled * INTERVAL_S)[:-1] / INTERVAL_S
    scored = np.isfinite(y[1:]) & np.isfinite(y[:-1])
    scored[: int(len(y) * WARM_SHARE)] = False
    naive = np.abs(y[1:] - y[:-1])[scored].mean()
    own, other = (float(np.abs(said - y[1:])[scored].mean() / naive) for said in (ours, theirs))
    return own, other


def traced(name: str) -> Series:
    path, _, column = name.rpartition(":") if name.endswith(("requests", "tokens")) else (name, "", "requests")
    return regular(read_history(path, column).series)


def made(name: str) -> Series:
    random = np.random.default_rng(11)
    if name == "Poisson":
        return from_values(random.poisson(40.0, 8000) / 60.0, 60.0)
    return from_values(np.abs(500 + np.cumsum(random.normal(0, 1.0, 8000))), 60.0)


def line(row: Row) -> tuple[str, bool]:
    """One row of the table, and whether the bars of a single series hold."""
    errors = " ".join(f"{s.error_ratio or math.nan:6.3f}" for s in row.scores)
    pinballs = " ".join(f"{s.pinball_ratios[2] or math.nan:5.2f}" for s in row.scores)
    covered = [100 * s.coverage[2] for s in row.scores]
    notes = failures(row, covered)
    shown = " ".join(f"{c:6.2f}" for c in covered)
    return (
        f"{row.name[:43]:44}{row.days:5.1f}  {errors}  {pinballs}  {shown}  {row.cpu_ms:6.2f}  "
        f"{row.capacity:6.2f}  {row.rivals[0]:11.2f} {row.rivals[1]:6.2f}  {notes}"
    ), not notes


def together(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
    """The bars of all long series together, and whether they hold."""
    traces = [row for row in rows if row.name not in THEORY and row.days >= LONG_DAYS and len(row.scores) == 3]
    for title, bars in (("error / last value", ERROR_BARS), ("p99 pinball", P99_BARS)) if traces else ():
        means = [math.exp(float(np.mean([math.log(of_bar(r.scores[i], bars)) for r in traces]))) for i in range(3)]
        held = all(m <= b for m, b in zip(means, bars, strict=True))
        said = "  ".join(
            f"{lead / 60:g} min {m:.3f} (bar {b:.2f})" for lead, m, b in zip(LEADS, means, bars, strict=True)
        )
        yield f"{title}, geometric mean of {len(traces)} long series: {said}  {'held' if held else 'MISSED'}", held


def of_bar(lead: LeadScore, bars: tuple[float, ...]) -> float:
    """The ratio that `bars` speak of; NaN where there is none, which misses every bar."""
    ratio = lead.error_ratio if bars is ERROR_BARS else lead.pinball_ratios[2]
    return math.nan if ratio is None else ratio


def failures(row: Row, covered: Sequence[float]) -> str:
    """The bars a single series misses, in words; empty when none."""
    missed = []
    if row.name in THEORY:
        low, high = THEORY[row.name]
        missed += [
            f"error at {s.lead / 60:g} min" for s in row.scores if not low <= (s.error_ratio or math.nan) <= high
        ]
    else:
        low, high = COVERAGE_LONG if row.days >= LONG_DAYS else (COVERAGE_SHORT, 100.0)
        missed += ["coverage"] if not all(low <= c <= high for c in covered) else []
        column = row.name.rpartition(":")[2] if ":" in row.name else "requests"
        bars = [bar for (start, of), bar in CAPACITY_BARS.items() if row.name.startswith(start) and of == column]
        missed += [f"bought (bar {bar:.2f})" for bar in bars if round(row.capacity, 2) > bar]
        missed += ["Kalman"] if row.rivals[0] >= row.rivals[1] else []
    if row.cpu_ms > CPU_MS:
        missed.append("CPU")
    return f"MISSED: {', '.join(missed)}" if missed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", help="FILE or FILE:COLUMN (requests, prompt_tokens, output_tokens)")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    print(HEAD, flush=True)
    rows, fine = [], True
    with ProcessPoolExecutor(asked.jobs) as workers:
        for row in workers.map(measure, [*asked.traces, *THEORY]):
            rows.append(row)
            said, held = line(row)
            fine = fine and held
            print(said, flush=True)
    for said, held in together(rows):
        fine = fine and held
        print(said)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
