"""What `opsconsole simulate backtest` does once its words are understood: reads loads, runs cells, writes reports.

It knows simulate and no terminal beyond a line of progress on standard error. The trap: options are checked before any
trace is read, so that a misspelt law does not cost a minute first.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import typer

from opsconsole.commands.moments import duration
from opsconsole.config import share
from opsconsole.errors import UsageError
from opsconsole.simulate.backtest import WARM_SHARE, Bounds, Fidelity, stage
from opsconsole.simulate.cells import Drawer, forecast_version
from opsconsole.simulate.importers import read_trace
from opsconsole.simulate.price import price, sentences, to_json
from opsconsole.simulate.report import Table, as_json, as_text, table_of
from opsconsole.simulate.settings import FleetSettings, SloBounds
from opsconsole.simulate.sweep import Bench, Cell, sweep
from opsconsole.simulate.synthetic import PREFIX, synthetic
from opsconsole.simulate.taught import check_taught
from opsconsole.simulate.traces import Lengths, Trace
from policies.registry import REGISTRY, names
from policies.situation import Limits

PROMETHEUS = "prometheus:"
MOST_REPLICAS = 10_000
LONGEST_REQUEST_S = 6 * 3600.0  # what the request level is meant for


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options of a backtest."""

    policies: tuple[str, ...]
    cold_starts: tuple[float, ...]
    fidelity: Fidelity
    scale: float | None
    fleet: float
    swept: bool
    lengths: Lengths
    slo: SloBounds
    seed: int
    cache: Path | None
    limits: Bounds

    @classmethod
    def checked(
        cls, *, policies: str, cold_starts: str, fidelity: str, scale: float, fleet: float, swept: bool,
        lengths: tuple[float, float], bounds: tuple[str, str, str], seed: int, cache: Path | None,
        limits: tuple[int, int, str],
    ) -> Options:  # fmt: skip
        laws = laws_of(policies)
        starts = tuple(dict.fromkeys(moments(word) for word in cold_starts.split(",") if word.strip()))
        if not laws or not starts:
            raise UsageError("a backtest needs at least one --policy and one --cold-start.")
        check_fleet(fleet)
        for name, value in (("--prompt-tokens", lengths[0]), ("--output-tokens", lengths[1])):
            if not (math.isfinite(value) and value >= 1):
                raise UsageError(f"{name} {value:g} must be 1 or more.")
        _kept_in(cache)
        if not (math.isfinite(scale) and scale >= 0):
            raise UsageError(f"--scale {scale:g} must be above 0, or 0 to be found.")
        return cls(
            laws, starts, cast(Fidelity, fidelity), scale or None, fleet, swept, Lengths(*lengths),
            SloBounds(moments(bounds[0]), moments(bounds[1]), _share(bounds[2])), seed, cache,
            _bounds(limits[0], limits[1], moments(limits[2])),
        )  # fmt: skip

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need for law in self.policies for need in REGISTRY[law].needs))


def laws_of(words: str) -> tuple[str, ...]:
    """Laws by their names, all of them known."""
    laws = tuple(word.strip() for word in words.split(",") if word.strip())
    for law in laws:
        if law not in names():
            raise UsageError(f"policy {law!r} is unknown: use one of {', '.join(names())}.")
    return laws


def check_fleet(count: float) -> None:
    """Replicas that the clairvoyant schedule should need on average."""
    if not (math.isfinite(count) and count >= 1):
        raise UsageError(f"--fleet {count:g} must be 1 or more.")
    if count > MOST_REPLICAS:
        raise UsageError(f"--fleet {count:g} is more than the {MOST_REPLICAS:,} replicas that are simulated.")


def check_span(load: Trace) -> None:
    """Request by request is for short loads."""
    if load.seconds * (1 - WARM_SHARE) > LONGEST_REQUEST_S:
        raise UsageError(
            f"{load.name} spans {load.seconds / 3600:.1f} h: request by request is for {LONGEST_REQUEST_S / 3600:g} h "
            f"or less of scored time; give --window FROM,TO, or --fidelity fluid."
        )


def moments(text: str) -> float:
    """Seconds of `300s`."""
    return duration(text.strip())


def _bounds(minimum: int, maximum: int, down_window_s: float) -> Bounds:
    """What is impossible is refused here as the fleet would refuse it, before any load is read."""
    scrape_s = FleetSettings().scrape_s
    if down_window_s < scrape_s:
        raise UsageError(
            f"--down-window {down_window_s:g}s is shorter than the {scrape_s:g} s between two scrapes, which makes a "
            f"fleet swing: give {scrape_s:g}s or more."
        )
    most = maximum or max(1, minimum)
    FleetSettings(limits=Limits(minimum, most, stabilise_down_s=down_window_s), initial=max(0, minimum))
    return Bounds(minimum, maximum or None, down_window_s)


def _kept_in(folder: Path | None) -> None:
    """A drawer that cannot be opened is told before anything is run for it."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--cache {folder} cannot be used: {error.strerror}.") from None


def _share(text: str) -> float:
    try:
        return float(cast(float, share(text)))
    except ValueError:
        raise UsageError(f"--target {text} is no share: write 99% or 0.99.") from None


def read(source: str, seed: int, query: str, span: float, token: str = "") -> Trace:
    """A load by its name."""
    if source.startswith(PREFIX):
        return synthetic(source.removeprefix(PREFIX), seed)
    if source.startswith(PROMETHEUS):
        from opsconsole.simulate.prometheus_history import read_prometheus

        return read_prometheus(source.removeprefix(PROMETHEUS), query, span, token=token)
    if "://" in source:
        raise UsageError(f"{source}: for a Prometheus server write {PROMETHEUS}{source} and give --query.")
    return read_trace(source, seed)


def part(trace: Trace, window: str) -> Trace:
    """Only FROM to TO of a trace."""
    if not window:
        return trace
    words = window.split(",")
    if len(words) != 2:
        raise UsageError(f"--window {window}: give FROM,TO as 6d,7d.")
    return trace.window(moments(words[0]), moments(words[1]))


def check_page(html: Path | None) -> None:
    """A page that cannot be written is told before anything is run for it."""
    if html is None:
        return
    if not html.parent.is_dir():
        raise UsageError(f"--html {html}: there is no folder {html.parent}.")
    if html.is_dir():
        raise UsageError(f"--html {html} is a folder: name a file in it.")
    if not os.access(html if html.exists() else html.parent, os.W_OK):
        raise UsageError(f"--html {html} cannot be written: no permission.")


def write_page(tables: list[Table], html: Path) -> None:
    from opsconsole.simulate.html import page

    try:
        html.write_text(page(tables, "Backtest"), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {html} cannot be written: {error.strerror}.") from None


def backtest_tables(loads: list[Trace], options: Options) -> list[Table]:
    """Everything run, once every load is known to be fit for it."""
    for load in loads:
        _check_load(load, options)
    return [table for load in loads for table in _tables(load, options)]


def backtest_text(tables: list[Table], options: Options, output: str, of_one: bool) -> str:
    """The report; starts are priced where all tables are `of_one` load."""
    starts = [price(c.policy, t.cold_s, c.outcome) for t in tables for c in t.cells if c.knob is None] if of_one else []
    if output == "json":
        extra: dict[str, Any] = {"seed": options.seed, "starts": to_json(starts)}
        return as_json(tables, extra)
    return as_text(tables, sentences(starts))


def _check_load(load: Trace, options: Options) -> None:
    if options.fidelity == "request":
        check_span(load)
    if load.requests.any() and not load.requests[math.floor(WARM_SHARE * load.requests.size) :].any():
        raise UsageError(
            f"{load.name} holds no requests in the last {100 * (1 - WARM_SHARE):.0f} %, which are scored: give another "
            "--window FROM,TO."
        )
    check_taught(load, options.policies)


def _tables(load: Trace, options: Options) -> list[Table]:
    reads = any(law == "predictive" for law in options.policies)
    found = stage(
        load, scale=options.scale, fleet=options.fleet, lengths=options.lengths, slo=options.slo, needs=options.needs,
        cache=options.cache, version=forecast_version(), forecast=reads or bool(options.needs),
    )  # fmt: skip
    needed = float(found.oracle(0.0).max())
    if needed > 10 * MOST_REPLICAS:
        raise UsageError(
            f"{load.name} x {found.scale:g} needs {needed:.3g} replicas at its peak: give a smaller --scale, or none."
        )
    tables = []
    for cold_s in options.cold_starts:
        bench = Bench(found, cold_s, options.slo, options.fidelity, options.seed, Drawer(options.cache), options.limits)
        cells: list[Cell] = []
        for law in options.policies:
            typer.echo(f"{load.name}, {cold_s:g} s, {law}", err=True)
            cells += sweep(bench, law) if options.swept else (bench.cell(law),)
        tables.append(table_of(found, cold_s, options.fidelity, options.slo, cells))
    return tables
