"""`opsconsole bench`: goodput of any OpenAI-compatible server under open-loop load.

Composes arrivals, workload, client and report. Trap: exit code 1 means that the target share was missed or something
failed, so that a script can rely on it; a tool that exits 0 over errors hides them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from random import Random

    from opsconsole.bench.arrivals import Arrival
    from opsconsole.bench.client import Record


def bench(
    url: str = typer.Argument(..., metavar="URL", help="The server, without /v1: http://127.0.0.1:8000"),
    rate: float = typer.Option(1.0, "--rate", min=0.001, help="Requests per second (mean)."),
    seconds: str = typer.Option("60s", "--for", metavar="TIME", help="How long requests arrive."),
    workload: str = typer.Option("A", "--workload", "-w", help="A chat, B shared prefix, C mixed, demo."),
    arrivals: str = typer.Option(
        "poisson", "--arrivals", metavar="KIND|FILE", help="poisson, constant, burst, onoff, diurnal, or a trace's CSV."
    ),
    slo: str = typer.Option("ttft=1s,tpot=80ms,target=90%", "--slo", help="Bounds and the share that must meet them."),
    model: str = typer.Option("", "--model", help="The model's name; default: the first the server lists."),
    chat: bool = typer.Option(False, "--chat", help="Use /v1/chat/completions (prompts as text)."),
    text: bool = typer.Option(False, "--text", help="Prompts as words, for servers that take no token ids."),
    seed: int = typer.Option(-1, "--seed", help="Default: a fresh one, printed; a repeated seed meets a warm cache."),
    api_key: str = typer.Option("", "--api-key", envvar="OPENAI_API_KEY", help="Sent as bearer token."),
    slo_class: str = typer.Option("", "--slo-class", help="Sent as x-slo-class."),
    grace: str = typer.Option("30s", "--grace", metavar="TIME", help="What is unfinished after this counts as bad."),
    eos: bool = typer.Option(False, "--stop-at-eos", help="Let answers end by themselves (default: ignore_eos)."),
    output: str = typer.Option("text", "--output", "-o", help="text or json."),
    records: Path | None = typer.Option(
        None, "--records", metavar="FILE", help="Also write one JSON line per request."
    ),
) -> None:
    """Measure goodput: the requests per second that met every bound, of all that were offered.

    Load is open: a request is sent at its time whatever became of the others, and times count from that time.

    Examples:

      opsconsole bench http://127.0.0.1:8000 --rate 2 --for 60s

      opsconsole bench http://127.0.0.1:8000 -w B --slo ttft=500ms,tpot=50ms,target=99% -o json

      opsconsole bench http://10.0.0.7:8000 --arrivals trace.csv.gz --rate 4 --text
    """
    import asyncio
    import json
    import secrets
    from random import Random

    from opsconsole.bench.bounds import parse_bounds, parse_duration
    from opsconsole.bench.client import Target
    from opsconsole.bench.goodput import summarise
    from opsconsole.bench.openloop import run_open_loop
    from opsconsole.bench.probe import first_model
    from opsconsole.bench.report import to_fields, to_lines
    from opsconsole.bench.workload import build
    from opsconsole.clock import SystemClock
    from opsconsole.errors import UsageError

    if output not in ("text", "json"):
        raise UsageError(f"--output {output} is unknown; write text or json")
    bounds, window = parse_bounds(slo), parse_duration(seconds)
    chosen = seed if seed >= 0 else secrets.randbelow(2**31)
    when = _arrivals(arrivals, rate, window, Random(chosen))
    asks = build(workload, when, chosen + 1, text=text or chat)

    async def run() -> list[Record]:
        target = Target(
            url=url,
            model=model or await first_model(url, api_key or None),
            chat=chat,
            api_key=api_key or None,
            slo_class=slo_class or None,
            ignore_eos=not eos,
        )
        typer.echo(f"{len(when)} requests of workload {workload} over {window:g} s, seed {chosen}", err=True)
        return await run_open_loop(target, when, asks, SystemClock(), grace=parse_duration(grace))

    measured = asyncio.run(run())
    summary = summarise(measured, bounds, window)
    if records is not None:
        records.write_text("".join(_line(record) for record in measured), encoding="utf-8")
    if output == "json":
        fields = {"url": url, "workload": workload, "seed": chosen, "rate": rate, **to_fields(summary)}
        typer.echo(json.dumps(fields, indent=2))
    else:
        typer.echo("\n".join(to_lines(summary)))
    if summary.failed or not summary.passes:
        raise typer.Exit(1)


def _arrivals(kind: str, rate: float, seconds: float, draw: Random) -> tuple[Arrival, ...]:
    from opsconsole.bench import arrivals as shapes
    from opsconsole.errors import UsageError

    if kind == "poisson":
        return shapes.poisson(rate, seconds, draw)
    if kind == "constant":
        return shapes.constant(rate, seconds)
    if kind == "burst":
        parts = ((0.25, 0.5), (0.35, 1.8), (0.4, 0.6125))  # mean 1
        return shapes.phased([shapes.Phase(seconds * length, rate * level) for length, level in parts], draw)
    if kind == "onoff":
        return shapes.on_off(2 * rate, seconds, draw, on=seconds / 10, off=seconds / 10)
    if kind == "diurnal":
        return shapes.diurnal(0.2 * rate, 1.8 * rate, seconds, draw, period=seconds)
    if not Path(kind).is_file():
        raise UsageError(f"--arrivals {kind} is neither a file nor one of poisson, constant, burst, onoff, diurnal")
    return shapes.read_trace(Path(kind), seconds, draw, rate=rate)


def _line(record: Record) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(record)) + "\n"
