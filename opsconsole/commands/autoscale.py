"""`opsconsole autoscale`: the agent, headless. Watches, decides, says why; acts only where it may.

It composes `control` from flags, environment and file, in that order of strength. The trap: `--once` needs two looks
at counters before it knows any rate, so it ticks a few times and prints the last; a recording gives it the past.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.config import Loaded
    from opsconsole.domain.records import TickRecord


def autoscale(
    targets: Annotated[list[str] | None, typer.Argument(metavar="[URL...]", help="Engines' addresses.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file; see `opsconsole config init`.")] = None,
    mode: Annotated[str, typer.Option("--mode", help="off, advise or act. Default: advise.")] = "",
    allow_intents: Annotated[
        bool, typer.Option("--allow-intents", help="Let confirmed human actions through.")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", metavar="TIME", help="Between ticks. Default: 5s.")] = "",
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Database, log and socket.")] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Also for other machines; needs a token.")
    ] = "",
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="URL", help="A server that scrapes the engines.")
    ] = "",
    kubernetes: Annotated[str, typer.Option("--kubernetes", metavar="SELECTOR", help="Pods, such as app=vllm.")] = "",
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="As kubectl takes it.")] = None,
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig; default: its current one.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Decide once, print it, change nothing.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="With --once: the whole reasoning.")] = False,
    recording: Annotated[Path | None, typer.Option("--recording", help="With --once: a recorded fleet.")] = None,
    at: Annotated[str, typer.Option("--at", metavar="T", help="With --recording: when; default: its end.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="With --once: text or json.")] = "text",
    plain_log: Annotated[bool, typer.Option("--plain-log", help="Log in words instead of JSON lines.")] = False,
) -> None:
    """Run the agent: observe, decide, explain. It changes nothing unless told to. With --once the exit code is 1 when
    no source could be asked and no replica is listed.

    Examples:

      opsconsole autoscale --config fleet.toml

      opsconsole autoscale http://10.0.0.7:8000 http://10.0.0.8:8000 --once --explain

      opsconsole autoscale --config fleet.toml --mode act --context prod -n serving

      opsconsole autoscale --recording day.db --at 14:03 --once --explain
    """
    from opsconsole.config import load

    if output not in ("text", "json"):
        raise UsageError(f"--output {output}: give text or json.")
    if (explain or recording or at) and not once:
        raise UsageError("--explain, --recording and --at belong to --once.")
    flags = {
        "act.mode": mode or None,
        "act.allow_intents": allow_intents or None,
        "agent.interval": interval or None,
        "agent.data_dir": data_dir,
        "agent.listen": listen or None,
        "agent.json_log": False if plain_log else None,
        "sources.targets": targets or None,
        "sources.prometheus.url": prometheus or None,
        "sources.kubernetes.selector": kubernetes or None,
        "kubernetes.kubeconfig": kubeconfig,
        "kubernetes.context": context or None,
        "kubernetes.namespace": namespace or None,
    }
    loaded = load(config, flags=flags)
    if once:
        _once(loaded, recording, at, explain, output)
        return
    from opsconsole.control.agent import run_agent
    from opsconsole.control.configured import agent_settings, parts_builder

    raise typer.Exit(run_agent(agent_settings(loaded), parts_builder(loaded)))


def _once(loaded: Loaded, recording: Path | None, at: str, explain: bool, output: str) -> None:
    import asyncio
    import json

    from opsconsole.control.once import decide_live, decide_recorded
    from opsconsole.domain.wire import to_json

    if recording is not None:
        record = asyncio.run(decide_recorded(loaded, recording, _when(recording, at)))
    else:
        record = asyncio.run(decide_live(loaded))
    if output == "json":
        document = {
            "snapshot": to_json(record.snapshot),
            "decisions": to_json(record.decisions),
            "forecasts": to_json(record.forecasts),
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print(record, explain)
    if _is_blind(record):
        raise typer.Exit(1)


def _is_blind(record: TickRecord) -> bool:
    """Whether no source answered and none listed a replica: how many there are is unknown then, and not 0."""
    seen = record.snapshot
    return not seen.replicas and bool(seen.sources) and not any(source.ok for source in seen.sources)


def _when(recording: Path, at: str) -> float:
    from opsconsole.commands.moments import moment
    from opsconsole.history.reader import Reader

    reader = Reader(recording)
    try:
        bounds = reader.bounds()
        if bounds is None:
            raise UsageError(f"{recording} is empty.")
        return moment(at, bounds.last) if at else bounds.last
    finally:
        reader.close()


def _print(record: TickRecord, explain: bool) -> None:
    from opsconsole.commands.moments import shown
    from opsconsole.control.explanation import explain as lines
    from opsconsole.control.words import decision_text

    snapshot: Any = record.snapshot
    live = sum(r.state.value in ("OK", "HOT", "SAT") for r in snapshot.replicas)
    typer.echo(f"{shown(snapshot.at)}: {len(snapshot.replicas)} replicas, {live} live, mode {snapshot.mode}")
    for source in snapshot.sources:
        if not source.ok:
            typer.echo(f"source {source.name} fails: {source.error}")
    if _is_blind(record):
        typer.echo("Nothing is decided: no source could be asked, so how many replicas there are is unknown.")
        return
    if not record.decisions and not snapshot.replicas:
        typer.echo("Nothing is decided: no pool is configured and no replica is seen.")
    for decision in record.decisions:
        typer.echo("")
        for line in lines(decision) if explain else [decision_text(decision)]:
            typer.echo(line)
    if explain:
        typer.echo("")
        for replica in snapshot.replicas:
            typer.echo(f"{replica.replica:<24} {replica.state.value:<6} {replica.why}")
