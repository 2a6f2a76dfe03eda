"""`opsconsole status`: the fleet once, as a table or as JSON, without a terminal and without an agent of its own.

With addresses it looks for itself (twice, so that rates are known); without, it asks the agent of this user. The trap:
a window in which nothing finished has no latencies; then those since the engine's start are shown, marked as such.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.config import Loaded
    from opsconsole.domain.records import FleetSnapshot

PIPE_WIDTH = 200  # columns where there is no terminal to fit


def status(
    targets: Annotated[list[str] | None, typer.Argument(metavar="[URL...]", help="Engines' addresses.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="URL", help="A server that scrapes the engines.")
    ] = "",
    kubernetes: Annotated[str, typer.Option("--kubernetes", metavar="SELECTOR", help="Pods, such as app=vllm.")] = "",
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="As kubectl takes it.")] = None,
    context: Annotated[str, typer.Option("--context", help="Of the kubeconfig; default: its current one.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")] = "",
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with the sources.")] = None,
    attach: Annotated[str, typer.Option("--attach", metavar="URL", help="Ask this agent.")] = "",
    token: Annotated[
        str, typer.Option("--token", envvar="OPSCONSOLE_TOKEN", help="For an agent on another machine.")
    ] = "",
    over: Annotated[str, typer.Option("--over", metavar="TIME", help="Between the two looks that rates need.")] = "2s",
) -> None:
    """Print the fleet once. Exit code 1 when a replica or a source is in trouble.

    Examples:

      opsconsole status

      opsconsole status http://10.0.0.7:8000 10.0.0.8:8000 --output json

      opsconsole status --prometheus http://prometheus:9090

      opsconsole status --kubernetes app=vllm --context prod -n serving
    """
    import asyncio

    if output not in ("table", "json"):
        raise UsageError(f"--output {output}: give table or json.")
    looking = bool(targets or prometheus or kubernetes or config)
    if attach and looking:
        raise UsageError("--attach asks an agent; leave it out to look at addresses directly.")
    if looking:
        from opsconsole.commands.moments import duration
        from opsconsole.config import load

        flags = {
            "sources.targets": targets or None,
            "sources.prometheus.url": prometheus or None,
            "sources.kubernetes.selector": kubernetes or None,
            "kubernetes.kubeconfig": kubeconfig,
            "kubernetes.context": context or None,
            "kubernetes.namespace": namespace or None,
        }
        snapshot = asyncio.run(_look(load(config, flags=flags), duration(over)))
    else:
        snapshot = asyncio.run(_ask(attach, token))
    _print(snapshot, output)
    from opsconsole.domain.records import ReplicaState

    trouble = any(r.state in (ReplicaState.DOWN, ReplicaState.STALE) for r in snapshot.replicas)
    if trouble or not all(s.ok for s in snapshot.sources):
        raise typer.Exit(1)


async def _ask(address: str, token: str) -> FleetSnapshot:
    from opsconsole.client.agent import AgentClient
    from opsconsole.commands.found import find_agent

    found = address or find_agent()
    if found is None:
        raise UsageError("No agent of this user runs here: give addresses, as in `opsconsole status http://HOST:8000`.")
    async with AgentClient(found, token=token or None) as client:
        return await client.snapshot()


async def _look(loaded: Loaded, between_s: float) -> FleetSnapshot:
    from opsconsole.clock import SystemClock
    from opsconsole.control.configured import agent_settings, sources
    from opsconsole.control.observing import FoldInput, gather, safe_fold
    from opsconsole.control.standing import with_pools_seen
    from opsconsole.domain.fleet import FleetState

    clock = SystemClock()
    settings = agent_settings(loaded)
    found, state = tuple(sources(loaded, clock)), FleetState()
    try:
        for look in (1, 2):
            if look > 1:
                await clock.sleep(between_s)
            now = clock.now()
            seen = await gather(found, now, 2.0 * loaded.config.sources.timeout + 5.0)
            settings = with_pools_seen(settings, (o.replica.pool for o in seen.observations))
            given = FoldInput(look, now, settings, {}, seen.sources)
            snapshot, state = safe_fold(given, seen.observations, state)
        return snapshot
    finally:
        for source in found:
            await source.close()


def _print(snapshot: FleetSnapshot, output: str) -> None:
    import json

    from opsconsole.commands import status_text

    if output == "json":
        typer.echo(json.dumps(status_text.document(snapshot), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.print(status_text.table(snapshot))
    for line in status_text.lines(snapshot):
        typer.echo(line)
