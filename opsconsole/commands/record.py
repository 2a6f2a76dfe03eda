"""`opsconsole record TARGET... FILE`: what every engine said, tick by tick, in one file that `replay` plays.

It looks and decides nothing: the agent's loop in mode `off`, without an API; or it writes down what another agent
sees (`--attach`), and then nobody is asked twice. The trap: an agent's own database thins out what is old, and a
recording must not; here only the size is bounded, and the file can be read while it grows.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.client.agent import AgentClient
    from opsconsole.config import Loaded
    from opsconsole.domain.records import FleetSnapshot
    from opsconsole.history.retention import Retention
    from opsconsole.history.store import Store

MOST_BYTES = 2 * 2**30  # as `[agent] history_size`
RETRY_S = 1.0


def record(
    words: Annotated[list[str], typer.Argument(metavar="[URL...] FILE", help="Engines' addresses, and the file.")],
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between ticks. Default: 1s.")] = "",
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Default: until Ctrl-C.")] = "",
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="URL", help="A server that scrapes the engines.")
    ] = "",
    kubernetes: Annotated[str, typer.Option("--kubernetes", metavar="SELECTOR", help="Pods, such as app=vllm.")] = "",
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with sources, pools and SLOs.")] = None,
    attach: Annotated[str, typer.Option("--attach", metavar="URL", help="Record what this agent sees.")] = "",
    token: Annotated[
        str, typer.Option("--token", envvar="OPSCONSOLE_TOKEN", help="For an agent on another machine.")
    ] = "",
) -> None:
    """Record a fleet into a file. Exit code 1 when no replica ever answered.

    Examples:

      opsconsole record 10.0.0.7:8000 10.0.0.8:8000 evening.rec --for 2h

      opsconsole record --kubernetes app=vllm launch.rec

      opsconsole record --attach ~/.local/state/opsconsole/agent/agent.sock incident.rec

      opsconsole replay launch.rec --speed 10x
    """
    import asyncio

    from opsconsole.commands.moments import duration as seconds_of
    from opsconsole.config import load

    *targets, name = words
    path = _fresh(name)
    lasts = seconds_of(duration) if duration else None
    if lasts is not None and lasts <= 0:
        raise UsageError(f"--for {duration}: give a time, such as 10m.")
    if attach:
        if targets or prometheus or kubernetes or config or every:
            raise UsageError("--attach records what an agent sees, at its own pace: leave out addresses and --every.")
        _report(path, asyncio.run(_record_agent(attach, token or None, path, lasts)))
        return
    flags = {
        "agent.interval": every or "1s",
        "sources.targets": targets or None,
        "sources.prometheus.url": prometheus or None,
        "sources.kubernetes.selector": kubernetes or None,
    }
    _report(path, asyncio.run(_record(load(config, flags=flags), path, lasts)))


def _report(path: Path, kept: _Kept) -> None:
    """What is in the file; a recording in which nobody answered is a failure."""
    size = path.stat().st_size
    typer.echo(
        f"{path}: {kept.ticks} ticks over {kept.last - kept.first:.0f} s, {len(kept.replicas)} replicas of which "
        f"{len(kept.answered)} answered, {size / 1024:.0f} KiB",
        err=True,
    )
    if not kept.answered:
        raise typer.Exit(1)


def _fresh(name: str) -> Path:
    """The file to write; one that is there is never overwritten."""
    path = Path(name)
    host, _, port = name.rpartition(":")
    if "://" in name or (host and port.isdigit() and "/" not in host):
        raise UsageError(f"{name} is an address: name the FILE to write last, as in `record {name} evening.rec`.")
    if path.exists():
        raise UsageError(f"{path} is there already: name another file, or remove it.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder.")
    return path


class _Kept:
    """What has been recorded so far; says on standard error which sources and replicas fail, once each."""

    def __init__(self) -> None:
        self.ticks, self.first, self.last = 0, 0.0, 0.0
        self.replicas: set[str] = set()
        self.answered: set[str] = set()
        self._told: dict[str, str] = {}

    def take(self, snapshot: FleetSnapshot) -> None:
        self.first = self.first or snapshot.at
        self.ticks, self.last = self.ticks + 1, snapshot.at
        for view in snapshot.replicas:
            self.replicas.add(view.replica)
            if view.sample is not None:
                self.answered.add(view.replica)
            self.tell(view.replica, view.error)
        for source in snapshot.sources:
            self.tell(f"source {source.name}", None if source.ok else source.error or "no answer")

    def tell(self, who: str, error: str | None) -> None:
        kind = (error or "").partition(":")[0]
        if self._told.get(who, "") != kind:
            typer.echo(f"{who}: {error or 'answers again'}", err=True)
        self._told[who] = kind


async def _record(loaded: Loaded, path: Path, lasts: float | None) -> _Kept:
    import asyncio
    from dataclasses import replace

    from opsconsole.clock import SystemClock
    from opsconsole.commands.scratch import scratch
    from opsconsole.control.agent import Parts, compose, end_on_signals
    from opsconsole.control.configured import agent_settings, sources
    from opsconsole.control.loop import wait
    from opsconsole.control.settings import Mode
    from opsconsole.history.store import Store

    clock, stop, kept = SystemClock(), asyncio.Event(), _Kept()
    found = tuple(sources(loaded, clock))
    with scratch("record") as folder:
        settings = replace(agent_settings(loaded), mode=Mode.OFF, data_dir=folder, allow_intents=False)
        store = Store(path, _everything(loaded.config.agent.history_size))
        try:
            loop = await compose(settings, Parts(found), store, clock)
            end_on_signals(stop)
            began = due = clock.monotonic()
            while not stop.is_set() and (lasts is None or due - began < lasts):
                kept.take((await loop.tick()).snapshot)
                due = max(due + settings.interval_s, clock.monotonic())
                await wait(stop, clock, due - clock.monotonic())
        finally:
            _close(store)
            for source in found:
                await source.close()
    return kept


async def _record_agent(address: str, token: str | None, path: Path, lasts: float | None) -> _Kept:
    """Every tick of a running agent, with its journal; it may end and come back, and the recording goes on."""
    import asyncio

    from opsconsole.client.agent import AgentClient
    from opsconsole.clock import SystemClock
    from opsconsole.control.agent import end_on_signals
    from opsconsole.control.loop import wait
    from opsconsole.errors import AgentUnavailable
    from opsconsole.history.store import Store

    clock, stop, kept = SystemClock(), asyncio.Event(), _Kept()
    async with AgentClient(address, token=token) as client:
        await client.snapshot()  # an agent that is not there is said before a file is made
        store = Store(path, _everything(MOST_BYTES))
        end_on_signals(stop)
        ending = asyncio.create_task(wait(stop, clock, math.inf if lasts is None else lasts))
        try:
            while not ending.done():
                following = asyncio.create_task(_follow(client, store, kept))
                await asyncio.wait({ending, following}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
                    break
                error = following.exception()
                if error is not None and not isinstance(error, AgentUnavailable):
                    raise error
                kept.tell("agent", str(error or "it ended"))
                await wait(stop, clock, RETRY_S)
        finally:
            ending.cancel()
            _close(store)
    return kept


async def _follow(client: AgentClient, store: Store, kept: _Kept) -> None:
    """Write ticks down as the agent makes them, numbered anew, since an agent that starts again may repeat itself."""
    from dataclasses import replace

    lines = await client.journal(limit=1)
    told = lines[-1].seq if lines else 0
    async for snapshot in client.stream():
        kept.tell("agent", None)
        lines = await client.journal(after=told, limit=1000)
        told = lines[-1].seq if lines else told
        kept.take(snapshot)
        store.write_tick(replace(snapshot, tick=kept.ticks), (), [replace(line, seq=0) for line in lines])


def _everything(most_bytes: int) -> Retention:
    """Nothing is too old for a recording; only its size is bounded."""
    from opsconsole.history.retention import Retention

    ever = math.inf
    return Retention(ever, ever, ever, ever, ever, most_bytes)


def _close(store: Store) -> None:
    from opsconsole.history.clip import seal

    store.close()
    seal(store.path)
