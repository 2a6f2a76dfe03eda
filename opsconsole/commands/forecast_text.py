"""A forecast as text: the last hour and the band ahead as a plot, the quantiles, and the backtest below.

Pure: values in, lines out. The trap: the plot's right part has the leads' own spacing, one column a minute, so that the
eye compares like with like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from forecaster.backtest import Backtest
    from forecaster.forecast import Forecast
    from forecaster.series import Series

HEIGHT, PAST = 12, 50
SHOWN = (0.05, 0.5, 0.9, 0.95, 0.99)


def text(series: Series, forecast: Forecast, record: Backtest, unit: str, when: str) -> Iterator[str]:
    """Everything, line by line."""
    yield f"Forecast of {unit} at {when}, from {len(series) * series.step / 3600:.1f} h of history; {forecast.model}"
    yield ""
    yield from plot(series, forecast)
    yield ""
    yield "  ahead  " + "".join(f"{f'p{100 * level:g}':>10}" for level in SHOWN) + "  peak p99  mean p50"
    for lead in forecast.leads:
        cells = "".join(f"{number(forecast.quantile(lead, level)):>10}" for level in SHOWN)
        peak, mean = forecast.peak(0.0, lead, 0.99), forecast.mean(0.0, lead, 0.5)
        yield f"{minutes(lead):>7}  {cells}{number(peak):>10}{number(mean):>10}"
    yield ""
    yield from backtest_lines(record)
    if forecast.weights:
        best = sorted(forecast.weights.items(), key=lambda item: -item[1])[:5]
        yield "members: " + ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in best)
    yield from (f"event: {event}" for event in forecast.events)
    yield from (f"warning: {warning}" for warning in (*forecast.warnings, *record.warnings))


def backtest_lines(record: Backtest) -> Iterator[str]:
    """Skill against last value, pinball against a smoother with conformal quantiles, and coverage, by lead."""
    if not record.scores:
        return
    shown = [i for i, level in enumerate(record.levels) if level in (0.9, 0.99)]
    yield "backtest  origins  skill vs last value" + "".join(
        f"  p{100 * record.levels[i]:g} loss  covered" for i in shown
    )
    for score in record.scores:
        skill = "    -" if score.skill is None else f"{100 * score.skill:+4.0f} %"
        line = f"{minutes(score.lead):>8}  {score.origins:>7}  {skill:>19}"
        for i in shown:
            ratio = score.pinball_ratios[i]
            line += f"  {'-' if ratio is None else f'{ratio:.2f}x':>8}  {100 * score.coverage[i]:5.1f} %"
        yield line
    yield "(loss: of the quantile, against a 3-minute average with conformal quantiles; below 1x is better)"


def plot(series: Series, forecast: Forecast) -> Iterator[str]:
    """History as dots, the median as a line, the 5 to 95 % band shaded, p99 as a cap."""
    past = [float(v) if k else None for v, k in zip(series.values[-PAST:], series.known[-PAST:], strict=True)]
    ahead = np.arange(series.step, forecast.leads[-1] + 1, max(series.step, forecast.leads[-1] / 24))
    bands = [[forecast.quantile(float(lead), level) for level in (0.05, 0.5, 0.95, 0.99)] for lead in ahead]
    top = max([v for v in past if v is not None] + [band[3] for band in bands] + [1e-9])
    rows = [[" "] * (len(past) + 1 + len(bands)) for _ in range(HEIGHT)]

    def row(value: float) -> int:
        return HEIGHT - 1 - min(HEIGHT - 1, int(value / top * (HEIGHT - 1) + 0.5))

    for x, value in enumerate(past):
        if value is not None:
            rows[row(value)][x] = "•"
    for y in range(HEIGHT):
        rows[y][len(past)] = "┊"
    for x, (low, middle, high, cap) in enumerate(bands, len(past) + 1):
        for y in range(row(high), row(low) + 1):
            rows[y][x] = "░"
        rows[row(cap)][x] = "▔"
        rows[row(middle)][x] = "─"
    for y, line in enumerate(rows):
        label = number(top * (HEIGHT - 1 - y) / (HEIGHT - 1)) if y % 4 == 0 or y == HEIGHT - 1 else ""
        yield f"{label:>9} │{''.join(line)}".rstrip()
    left = f"-{minutes(len(past) * series.step)}"
    right = f"+{minutes(forecast.leads[-1])}"
    yield f"{'':>9} └{left:<{max(len(past) - 3, len(left))}}now{'':<{max(1, len(bands) - 5)}}{right}"
    yield f"{'':>11}• seen  ─ median  ░ 5 to 95 %  ▔ p99"


def as_json(forecast: Forecast, record: Backtest, unit: str, source: str) -> dict[str, Any]:
    """The same as plain data; unknown is null."""

    def table(values: Any) -> Any:
        return None if values is None else [[float(v) for v in row] for row in values]

    return {
        "source": source, "unit": unit, "at": forecast.at, "fitted_at": forecast.fitted_at, "model": forecast.model,
        "leads": list(forecast.leads), "levels": list(forecast.levels), "quantiles": table(forecast.values),
        "peaks": table(forecast.peaks), "means": table(forecast.means), "weights": dict(forecast.weights),
        "events": list(forecast.events), "warnings": [*forecast.warnings, *record.warnings],
        "backtest": {
            "levels": list(record.levels), "demoted": record.demoted,
            "leads": [
                {"lead": s.lead, "origins": s.origins, "error": s.error, "error_ratio": s.error_ratio, "skill": s.skill,
                 "pinball_ratios": list(s.pinball_ratios), "coverage": list(s.coverage)}
                for s in record.scores
            ],
        },
    }  # fmt: skip


def number(value: float) -> str:
    return f"{value:.0f}" if 1000 <= value < 1e8 else f"{value:.3g}"


def minutes(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g}s"
    return f"{seconds / 60:g}m" if seconds < 7200 else f"{seconds / 3600:.3g}h"
