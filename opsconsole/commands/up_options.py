"""From `up`'s options to its settings, and from its session to an exit code.

Knows what is refused and why. Trap: the terminal belongs to the console while it is shown; everything said meanwhile is
kept and told afterwards.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from opsconsole.bench.bounds import parse_bounds, parse_duration
from opsconsole.clock import SystemClock
from opsconsole.control.live import why_not
from opsconsole.errors import UsageError
from opsconsole.local.companions import bind
from opsconsole.local.datalock import DataLock
from opsconsole.local.loads import check_load, time_scale
from opsconsole.local.machine import find_devices, parse_workers, threads_per_worker, usable_cores
from opsconsole.local.runs import summary_lines
from opsconsole.local.session import RunOptions, Screen, Session
from opsconsole.local.settings import INTERVAL_S, UpSettings, check_data_dir, default_data_dir
from opsconsole.local.weights import find_model

DEMO_SECONDS, DEMO_LOAD = 90.0, "burst"
SHORTEST_DAY = 60.0  # s; the forecaster's steps are a tick then, and fewer of them make no day
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Prepared(NamedTuple):
    """What to run, and whether with the console."""

    settings: UpSettings
    options: RunOptions
    wants_screen: bool


def prepare(asked: Mapping[str, Any]) -> Prepared:
    """Check everything that can be checked before a process starts."""
    if asked["output"] not in ("text", "json"):
        raise UsageError(f"--output {asked['output']} is unknown; write text or json")
    if asked["host"] not in LOOPBACK and not asked["api_key"]:
        raise UsageError(f"--host {asked['host']} opens the port to other machines; set --api-key for that")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    is_demo = not has_terminal and not asked["no_tui"] and not asked["seconds"]
    load = asked["load"] or (DEMO_LOAD if is_demo else None)
    seconds = parse_duration(asked["seconds"]) if asked["seconds"] else DEMO_SECONDS if is_demo else None
    if load is not None:
        check_load(load)
    day = parse_duration(asked["day"])
    if day < SHORTEST_DAY:
        raise UsageError(f"--day {asked['day']} is too short; give {SHORTEST_DAY:g}s or more")
    seed = asked["seed"] if asked["seed"] >= 0 else secrets.randbelow(2**31)
    options = RunOptions(load, seconds, seed, day, asked["sustained"] or None)
    settings = replace(_settings(asked, load), time_scale=time_scale(load, day), has_past=load is None)
    return Prepared(settings, options, has_terminal and not asked["no_tui"])


def _settings(asked: Mapping[str, Any], load: str | None) -> UpSettings:
    low, high = parse_workers(asked["workers"])
    devices = find_devices(asked["devices"] or None)
    if devices and high > len(devices):
        typer.echo(f"at most {len(devices)} workers: one for each of the devices {', '.join(devices)}", err=True)
        high, low = len(devices), min(low, len(devices))
    law = asked["policy"] or ("predictive" if load == "diurnal" else "reactive")
    wrong = why_not(law)
    if wrong is not None:
        raise UsageError(f"--policy: {wrong}")
    model = find_model(asked["model"] or None)
    folder = Path(asked["data_dir"]) if asked["data_dir"] else default_data_dir()
    return UpSettings(
        data_dir=str(check_data_dir(folder)),
        run_id=secrets.token_hex(6),
        model=model.path,
        model_name=model.name,
        minimum=low,
        maximum=high,
        host=asked["host"],
        port=asked["port"],
        devices=devices,
        is_cpu_only=asked["devices"].strip() == "cpu",
        threads=threads_per_worker(usable_cores(), high),
        bounds=parse_bounds(asked["slo"]) if asked["slo"] else None,
        policy=law,
        stabilise_down=_calm(asked["stabilise"]),
        drain_deadline=parse_duration(asked["drain_deadline"]),
        start_delay=parse_duration(asked["start_delay"]),
        engine_args=tuple(asked["engine_arg"]),
        api_key=asked["api_key"] or None,
        router_token=secrets.token_hex(16),
        capture=asked["capture"],
    )


def _calm(told: str) -> float:
    """Seconds of calm before a drain; as long as two readings at least, or the pool would swing."""
    calm, least = parse_duration(told), 2 * INTERVAL_S
    if calm < least:
        raise UsageError(f"--stabilise {told} is shorter than two readings of the workers; give {least:g}s or more")
    return calm


def run_session(settings: UpSettings, options: RunOptions, screen: Screen | None, output: str) -> None:
    """Run it, print its summary, exit with its code."""
    lock = DataLock(settings.folder)
    try:
        bind(settings.host, settings.port).close()
        clock = SystemClock()
        began = clock.monotonic()

        def say(line: str) -> None:
            typer.echo(f"[{clock.monotonic() - began:6.1f}s] {line}", err=True)

        say(
            f"up to {settings.maximum} workers of {settings.threads} thread(s) each; "
            f"logs and database in {settings.data_dir}"
        )
        if settings.start_delay:
            say(f"every start is delayed by {settings.start_delay:g} s (--cold-start-delay): slower than this engine's")
        if settings.capture:
            say(f"requests are captured, redacted, in {settings.captured}")
        code, summary = asyncio.run(Session(settings, options, clock, say).run(screen))
    finally:
        lock.release()
    if summary is not None:
        typer.echo(json.dumps(summary, indent=2) if output == "json" else "\n".join(summary_lines(summary)))
    if code:
        raise typer.Exit(code)
