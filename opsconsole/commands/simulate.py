"""`opsconsole simulate`: the live laws on a virtual fleet and a recorded load.

Composes traces, cells and reports. The trap: what is printed must follow from the inputs alone, so nothing here tells
how long a run took except on standard error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.simulate.traces import Trace

app = typer.Typer(help="Backtests and what-ifs on a virtual fleet.", no_args_is_help=True)

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="A trace's file, a ServeGen directory, synthetic:NAME, or prometheus:URL with --query.",
    ),
]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json.")]
POLICIES = "oracle,static,hpa-queue,hpa-kv,hpa-gpu,hpa-ttft,keda-epp,kpa,wva-v2,dynamo-constant,dynamo-arima,"
POLICIES += "dynamo-kalman,reactive,predictive"


@app.callback()
def simulate() -> None:
    """Backtests and what-ifs on a virtual fleet."""


@app.command()
def backtest(
    traces: Traces,
    policy: Annotated[str, typer.Option("--policy", metavar="NAME,...", help="Laws to run.")] = POLICIES,
    cold_start: Annotated[str, typer.Option("--cold-start", metavar="TIME,...")] = "120s",
    fidelity: Annotated[str, typer.Option("--fidelity", help="fluid (days) or request (hours).")] = "fluid",
    scale: Annotated[
        float, typer.Option("--scale", help="Factor on demand; 0 finds the one at which --fleet replicas are needed.")
    ] = 0.0,
    fleet: Annotated[float, typer.Option("--fleet", help="Replicas the clairvoyant schedule needs on average.")] = 20.0,
    swept: Annotated[bool, typer.Option("--sweep", help="Turn each law's own knob until it meets the target.")] = False,
    requests_only: Annotated[bool, typer.Option("--requests-only", help="Leave recorded token counts aside.")] = False,
    prompt_tokens: Annotated[float, typer.Option("--prompt-tokens", help="Mean, where a trace has none.")] = 1000.0,
    output_tokens: Annotated[float, typer.Option("--output-tokens", help="Mean, where a trace has none.")] = 100.0,
    ttft: Annotated[str, typer.Option("--ttft", metavar="TIME")] = "1s",
    tpot: Annotated[str, typer.Option("--tpot", metavar="TIME")] = "50ms",
    target: Annotated[str, typer.Option("--target", help="Share of requests that should meet both.")] = "99%",
    window: Annotated[str, typer.Option("--window", metavar="FROM,TO", help="Only this part, as 6d,7d.")] = "",
    minimum: Annotated[int, typer.Option("--minimum", help="Replicas.")] = 1,
    maximum: Annotated[int, typer.Option("--maximum", help="Replicas; 0 is half again the clairvoyant peak.")] = 0,
    down_window: Annotated[str, typer.Option("--down-window", metavar="TIME", help="Of our own laws.")] = "300s",
    query: Annotated[str, typer.Option("--query", help="PromQL of requests/s, with prometheus:URL.")] = "",
    history: Annotated[str, typer.Option("--history", metavar="TIME", help="With prometheus:URL.")] = "14d",
    token: Annotated[str, typer.Option("--token", envvar="OPSCONSOLE_PROMETHEUS_TOKEN", help="Of Prometheus.")] = "",
    seed: Annotated[int, typer.Option("--seed", min=0)] = 1,
    cache: Annotated[Path | None, typer.Option("--cache", metavar="DIR", help="Keep finished cells here.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a picture.")] = None,
) -> None:
    """Run laws on recorded loads: who meets the SLO, with how many GPU-hours.

    Examples:

      opsconsole simulate backtest synthetic:diurnal --policy oracle,keda-epp,predictive --cold-start 120s,300s

      opsconsole simulate backtest trace.csv.gz --policy static,reactive,predictive --sweep --html front.html

      opsconsole simulate backtest prometheus:http://prom:9090 --query 'sum(rate(vllm:request_success_total[1m]))'
    """
    from opsconsole.commands.simulate_run import (
        Options,
        backtest_tables,
        backtest_text,
        check_page,
        moments,
        part,
        read,
        write_page,
    )

    if output not in ("table", "json"):
        raise UsageError(f"--output {output}: give table or json.")
    if fidelity not in ("fluid", "request"):
        raise UsageError(f"--fidelity {fidelity}: give fluid or request.")
    options = Options.checked(
        policies=policy, cold_starts=cold_start, fidelity=fidelity, scale=scale, fleet=fleet, swept=swept,
        lengths=(prompt_tokens, output_tokens), bounds=(ttft, tpot, target), seed=seed, cache=cache,
        limits=(minimum, maximum, down_window),
    )  # fmt: skip
    check_page(html)
    loads: list[Trace] = []
    for name in traces:
        found = part(read(name, seed, query, moments(history), token), window)
        loads.append(found.without_tokens() if requests_only else found)
    tables = backtest_tables(loads, options)
    typer.echo(backtest_text(tables, options, output, of_one=len(loads) == 1))
    if html is not None:
        write_page(tables, html)


@app.command()
def proof(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", envvar="OPSCONSOLE_TRACES", help="Of the proof set's traces.")
    ] = None,
    cold_start: Annotated[str, typer.Option("--cold-start", metavar="TIME,...")] = "120s,300s,600s",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where proof.json and proof.html go.")] = Path(
        "docs/proof"
    ),
    cache: Annotated[
        Path, typer.Option("--cache", metavar="DIR", help="Finished cells; a stopped run goes on.")
    ] = Path(".proof"),
    processes: Annotated[int, typer.Option("--processes", min=1)] = 2,
    law: Annotated[str, typer.Option("--policy", metavar="NAME,...", help="Only these laws.")] = "",
    output: Output = "text",
) -> None:
    """Every law on the proof set, its knob swept, at each cold start; resumable.

    Examples:

      OPSCONSOLE_TRACES=~/traces opsconsole simulate proof

      opsconsole simulate proof ~/traces --cold-start 300s --policy oracle,keda-epp,predictive
    """
    from opsconsole.commands.simulate_run import laws_of, moments
    from opsconsole.simulate.proof import LAWS, run_proof

    _check_output(output)
    if folder is None:
        raise UsageError("give the folder of the proof set's traces, or set OPSCONSOLE_TRACES to it.")
    starts = [moments(word) for word in cold_start.split(",") if word.strip()]
    chosen = laws_of(law) if law else LAWS
    if not starts or not chosen:
        raise UsageError("a proof needs at least one --policy and one --cold-start.")
    text = run_proof(folder, cache, out, starts, processes, lambda line: typer.echo(line, err=True), chosen)
    typer.echo((out / "proof.json").read_text(encoding="utf-8").rstrip() if output == "json" else text)


@app.command()
def agreement(
    traces: Traces,
    policy: Annotated[str, typer.Option("--policy", metavar="NAME,...")] = "static,keda-epp,reactive",
    cold_start: Annotated[str, typer.Option("--cold-start", metavar="TIME")] = "120s",
    window: Annotated[str, typer.Option("--window", metavar="FROM,TO", help="Of each trace.")] = "0h,2h",
    fleet: Annotated[float, typer.Option("--fleet", help="Replicas the clairvoyant schedule needs on average.")] = 6.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first one.")] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many; means are compared.")] = 1,
    output: Output = "text",
) -> None:
    """Both fidelities on the same windows: attainment within 2 points, GPU-hours within 3 %.

    Examples:

      opsconsole simulate agreement synthetic:diurnal synthetic:walk synthetic:bursts

      opsconsole simulate agreement trace.csv.gz --window 6d,6.05d --fleet 8 --seeds 3
    """
    from opsconsole.commands.simulate_run import check_fleet, check_span, laws_of, moments, part, read
    from opsconsole.simulate.agreement import as_json, as_text, compare
    from opsconsole.simulate.taught import check_taught

    _check_output(output)
    chosen = laws_of(policy)
    check_fleet(fleet)
    loads = [part(read(name, seed, "", 0.0), window) for name in traces]
    for load in loads:
        check_span(load)
        check_taught(load, chosen)
    drawn = range(seed, seed + seeds)
    found = [row for load in loads for row in compare(load, chosen, moments(cold_start), fleet, drawn)]
    typer.echo(as_json(found) if output == "json" else as_text(found))
    if not all(row.agrees for row in found):
        raise typer.Exit(1)


@app.command()
def validate(
    full: Annotated[bool, typer.Option("--full", help="The long runs against the formulas too: some minutes.")] = False,
    engine: Annotated[bool, typer.Option("--engine", help="And the embedded engine on this machine.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", min=10, help="Of load for --engine.")] = 60.0,
    cpu_time: Annotated[
        bool, typer.Option("--cpu-time", help="With --engine: one thread, timed by its CPU seconds (a busy machine).")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 1,
    output: Output = "text",
) -> None:
    """Climb the ladder a simulation must climb: theory, conservation, the engine itself.

    Examples:

      opsconsole simulate validate --full

      opsconsole simulate validate --engine --seconds 120
    """
    from opsconsole.commands.simulate_validate import as_json, as_text, check_engine
    from opsconsole.simulate.validate import ladder

    _check_output(output)
    rungs = ladder(full, seed)
    found = check_engine(seconds, seed, cpu_time, lambda line: typer.echo(line, err=True)) if engine else None
    typer.echo(as_json(rungs, found) if output == "json" else as_text(rungs, found))
    if not all(rung.ok for rung in rungs) or not (found is None or found.ok):
        raise typer.Exit(1)


def _check_output(output: str) -> None:
    if output not in ("text", "json"):
        raise UsageError(f"--output {output}: give text or json.")
