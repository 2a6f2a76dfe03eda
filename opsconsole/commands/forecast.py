"""`opsconsole forecast`: quantiles of the load ahead, with the backtest that says what they are worth.

Composes a history, the forecaster and a report. The trap: nothing later than `--at` may be read, not even to find out
how the file goes on; the cut is made before anything is fitted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from forecaster.series import Series
    from opsconsole.commands.forecast_source import History

FEWEST_MIN = 10.0  # of history
LONGEST_STEP_S = 3600.0  # of the model's own time; with fewer steps a day there is no day to see


def forecast(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A trace's CSV (.gz), an agent's opsconsole.db, a Prometheus URL."),
    ],
    at: Annotated[
        str,
        typer.Option("--at", metavar="T", help="Seconds from the start; of Unix times those or ISO. Default: the end."),
    ] = "",
    unit: Annotated[str, typer.Option("--unit", help="requests, prompt_tokens or output_tokens.")] = "requests",
    pool: Annotated[str, typer.Option("--pool", help="Of a database with several pools.")] = "",
    query: Annotated[
        str, typer.Option("--query", metavar="PROMQL", help="Of Prometheus; default: vLLM's counter of the --unit.")
    ] = "",
    token: Annotated[str, typer.Option("--token", envvar="OPSCONSOLE_PROMETHEUS_TOKEN", help="Of Prometheus.")] = "",
    span: Annotated[
        str, typer.Option("--history", metavar="TIME", help="How much before T is read; default 7d, all if --rolling.")
    ] = "",
    rolling: Annotated[bool, typer.Option("--rolling", help="Every origin's forecast, as CSV.")] = False,
    step: Annotated[str, typer.Option("--step", metavar="TIME", help="Between origins; targets are means of it.")] = "",
    leads: Annotated[str, typer.Option("--leads", metavar="LIST", help="With --rolling; default 2m,5m,10m.")] = "",
    quantiles: Annotated[
        str, typer.Option("--quantiles", metavar="LIST", help="With --rolling; default .5,.9,.99.")
    ] = "",
    time_scale: Annotated[float, typer.Option("--time-scale", help="60: an hour of the model in a minute.")] = 1.0,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json; csv with --rolling.")] = "",
) -> None:
    """Forecast the load of a history, and say how well that went before.

    Examples:

      opsconsole forecast trace.csv.gz --at 86400

      opsconsole forecast opsconsole.db --pool chat --unit output_tokens --output json

      opsconsole forecast http://prometheus:9090 --query 'sum(rate(vllm:prompt_tokens_total{pool="chat"}[1m]))'

      opsconsole forecast trace.csv.gz --rolling --step 60s --leads 2m,5m,10m --quantiles .5,.9,.99 --output csv
    """
    allowed = ("csv",) if rolling else ("text", "json")
    output = output or allowed[0]
    if output not in allowed:
        raise UsageError(
            f"--output {output}: give {' or '.join(allowed)} {'with' if rolling else 'without'} --rolling."
        )
    for name, given in (("leads", leads), ("quantiles", quantiles)):
        if given and not rolling:
            raise UsageError(f"--{name} {given} goes with --rolling: one forecast has its own.")
    if not (math.isfinite(time_scale) and time_scale > 0):
        raise UsageError(f"--time-scale {time_scale:g} must be above 0.")
    width = _seconds(step) if step else 60.0 / time_scale
    asked = Asked(source, unit, pool, at, span or ("" if rolling else "7d"), width, query, token)
    history = _history(asked)
    series = _regular(history, width, named=bool(step))
    if series.step * time_scale > LONGEST_STEP_S:
        raise UsageError(
            f"a step of {series.step:g} s is {series.step * time_scale / 3600:.3g} h at --time-scale {time_scale:g}; "
            f"at most {LONGEST_STEP_S / 3600:g} h can be forecast from: give {LONGEST_STEP_S / series.step:g} or less."
        )
    if rolling:
        _rolling(series, _leads(leads or "2m,5m,10m"), _levels(quantiles or ".5,.9,.99"), time_scale)
    else:
        _one(history, series, time_scale, output)


class Asked(NamedTuple):
    """Which history is wanted, as typed."""

    source: str
    unit: str
    pool: str
    at: str
    span: str
    width: float  # s of a step
    query: str
    token: str


def _history(asked: Asked) -> History:
    from opsconsole.clock import SystemClock
    from opsconsole.commands.forecast_source import read_history
    from opsconsole.commands.moments import moment, shown

    at, now = asked.at, SystemClock().now()
    until = moment(at, now) if at else None
    span = _seconds(asked.span) if asked.span else None
    if "://" in asked.source:
        found = _from_server(asked, now if until is None else until, span)
    elif asked.query or asked.token:
        raise UsageError(f"{asked.source} is a file: --query and --token are for a Prometheus URL.")
    else:
        found = read_history(asked.source, asked.unit, pool=asked.pool, step=asked.width, until=until, span=span)
    minutes = len(found.series) * found.series.step / 60
    if at and not found.clock and not (_is_number(at) and float(at) >= 0):
        raise UsageError(f"--at {at}: {found.name} counts seconds from its own start; give 0 or more of them.")
    if until is not None and until > found.reach:
        raise UsageError(
            f"--at {at}: {found.name} ends at {shown(found.reach) if found.clock else f'{found.reach:.10g} s'}."
        )
    if not found.series.known.any():
        raise UsageError(
            f"{found.name} has no known {found.unit}{f' before {at}' if at else ''}: nothing to forecast from."
        )
    if minutes * 60 < FEWEST_MIN * asked.width:
        raise UsageError(
            f"{found.name} has {minutes:.1f} min of history{f' before {at}' if at else ''}; "
            f"a forecast needs {FEWEST_MIN * asked.width / 60:g}."
        )
    return found


def _from_server(asked: Asked, until: float, span: float | None) -> History:
    from opsconsole.commands.forecast_prometheus import DEFAULT_SPAN_S, Question, default_query, read_prometheus
    from opsconsole.commands.forecast_source import UNITS, History

    if asked.unit not in UNITS:
        raise UsageError(f"--unit {asked.unit} is unknown: give {', '.join(UNITS)}.")
    if asked.pool:
        raise UsageError("--pool is for a database: choose the pool by a label in --query.")
    query = asked.query or default_query(asked.unit, asked.width)
    question = Question(asked.source, query, until, span or DEFAULT_SPAN_S, asked.width, asked.token)
    series, warnings = read_prometheus(question)
    for warning in warnings:
        typer.echo(f"the answer is partial: {warning}", err=True)
    return History(series, UNITS[asked.unit], asked.source, clock=True)


def _regular(history: History, width: float, *, named: bool) -> Series:
    """The history in steps of `width`, or of its own step where that is longer and none was asked for."""
    own = history.series.step
    if own > width and named:
        raise UsageError(f"{history.name} has steps of {own:g} s: --step must be {own:g}s or more.")
    factor = max(1, round(width / own))
    if own < width and abs(factor * own - width) > 1e-6 * width:
        raise UsageError(f"--step {width:g}s is no whole multiple of the {own:g} s steps of {history.name}.")
    return history.series.resample(factor * own)


def _one(history: History, series: Series, time_scale: float, output: str) -> None:
    import json

    from forecaster.backtest import roll, score
    from forecaster.forecast import LEADS_S, LEVELS
    from opsconsole.commands.forecast_text import as_json, text
    from opsconsole.commands.moments import shown

    leads = sorted({max(series.step, lead / time_scale) for lead in LEADS_S})
    rolled = roll(series, leads, LEVELS, time_scale)
    record, made = score(rolled), rolled.final.forecast()
    if output == "json":
        typer.echo(json.dumps(as_json(made, record, history.unit, history.name), indent=2, allow_nan=False))
        return
    when = shown(made.at) if history.clock else f"{made.at:g} s of {history.name}"
    for line in text(series, made, record, history.unit, when):
        typer.echo(line)


def _rolling(series: Series, leads: list[float], levels: list[float], time_scale: float) -> None:
    import sys

    from forecaster.backtest import table, walk

    furthest = 1200.0 / time_scale
    if max(leads) > furthest or min(leads) < series.step:
        raise UsageError(f"--leads must lie between one step ({series.step:g} s) and {furthest:g} s.")
    write = sys.stdout.write
    write("origin,lead,quantile,value\n")
    for index, forecaster in walk(series, time_scale):
        origin = series.start + (index + 1) * series.step
        values = table(forecaster.forecast(events=False), leads, levels)
        for lead, row in zip(leads, values, strict=True):
            for level, value in zip(levels, row, strict=True):
                write(f"{origin:.10g},{lead:g},{level:g},{value:.6g}\n")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _seconds(word: str) -> float:
    from opsconsole.commands.moments import duration

    found = duration(word)
    if not (math.isfinite(found) and found > 0):
        raise UsageError(f"{word!r} is no length of time above 0: give 60s, 5m or 7d.")
    return found


def _leads(text: str) -> list[float]:
    return sorted({_seconds(word) for word in text.split(",")})


def _levels(text: str) -> list[float]:
    from forecaster.forecast import LEVELS

    try:
        found = sorted({float(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--quantiles {text}: give shares such as .5,.9,.99.") from None
    if not found or found[0] < LEVELS[0] or found[-1] > LEVELS[-1] or not all(map(math.isfinite, found)):
        raise UsageError(f"--quantiles {text}: give shares from {LEVELS[0]} to {LEVELS[-1]}.")
    return found
