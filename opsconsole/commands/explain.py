"""`opsconsole explain`: why the agent decided as it did, now or at any moment its database remembers.

It prints the journal. The trap: with an agent running, its database is read beside it (a reader never blocks the
writer); only an agent on another machine is asked over its API, which gives the trace without the situation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.history.reader import PastDecision, Reader

FOLLOWED_S = 30.0  # what happened within this after a decision is shown with it


def explain(
    at: Annotated[
        str, typer.Option("--at", metavar="T", help="-5m, 14:03, an ISO time or Unix seconds. Default: now.")
    ] = "",
    pool: Annotated[str, typer.Option("--pool", help="One pool; default: every pool.")] = "",
    database: Annotated[
        Path | None, typer.Option("--db", help="A database or recording. Default: the agent's own.")
    ] = None,
    attach: Annotated[str, typer.Option("--attach", metavar="URL", help="An agent on another machine.")] = "",
    token: Annotated[str, typer.Option("--token", envvar="OPSCONSOLE_TOKEN", help="Its token.")] = "",
    moved: Annotated[
        bool, typer.Option("--moved", help="The last decision before then that changed something.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Say why: every rule's own account, what was seen, and what came of it.

    Examples:

      opsconsole explain

      opsconsole explain --at 14:03 --pool chat

      opsconsole explain --at -2h --moved --output json
    """
    from opsconsole.clock import SystemClock
    from opsconsole.commands.moments import moment

    if output not in ("text", "json"):
        raise UsageError(f"--output {output}: give text or json.")
    now = SystemClock().now()
    when = moment(at, now) if at else now
    if attach and (database is not None or moved):
        raise UsageError(
            f"{'--moved' if moved else '--db'} reads a database and --attach asks an agent: leave one out."
        )
    if attach:
        _remote(attach, token, when if at else None, pool, output)
        return
    from opsconsole.history.reader import Reader

    reader = Reader(database or _found())
    try:
        _print(reader, _last_moves(reader, when, pool) if moved else _standing(reader, when, pool), output)
    finally:
        reader.close()


def _found() -> Path:
    """The database beside the newest agent's socket, else the daemon's default one."""
    import os

    from opsconsole.commands.found import find_agent
    from opsconsole.control.configured import default_data_dir

    address = find_agent()
    if address is not None and "://" not in address:
        beside = Path(address).parent / "opsconsole.db"
        if beside.is_file():
            return beside
    found = default_data_dir(os.environ) / "opsconsole.db"
    if not found.is_file():
        raise UsageError("No agent runs here and none has left a database: name one with --db.")
    return found


def _standing(reader: Reader, when: float, pool: str) -> tuple[PastDecision, ...]:
    """Each pool's decision as it stood then."""
    past = reader.decisions_at(when, pool or None)
    if not past:
        raise UsageError(f"No decision{_of(pool)} by then: {_reach(reader)}.")
    return past


def _last_moves(reader: Reader, when: float, pool: str) -> tuple[PastDecision, ...]:
    """What moved in the last moment before then in which anything did; other pools' standing decisions are left out."""
    from opsconsole.commands.moments import shown

    moved = reader.next_change(when, -1, pool or None)
    if moved is None:
        raise UsageError(f"No decision{_of(pool)} before {shown(when)} changed anything; {_reach(reader)}.")
    past = reader.decisions_at(moved, pool or None)
    return tuple(p for p in past if p.at == moved and p.decision.target != p.decision.current)


def _of(pool: str) -> str:
    return f" for pool {pool!r}" if pool else ""


def _reach(reader: Reader) -> str:
    from opsconsole.commands.moments import shown

    bounds = reader.bounds()
    if bounds is None:
        return f"{reader.path} is empty"
    return f"{reader.path} reaches from {shown(bounds.first)} to {shown(bounds.last)}"


def _print(reader: Reader, past: tuple[PastDecision, ...], output: str) -> None:
    import json

    from opsconsole.commands.moments import shown
    from opsconsole.control.explanation import explain as lines
    from opsconsole.domain.wire import to_json

    told: list[dict[str, Any]] = []
    for each in past:
        pool = each.decision.pool
        after = [
            entry
            for entry in reader.journal(since=each.at, until=each.at + FOLLOWED_S, pool=pool)
            if entry.kind in ("plan", "outcome") and each.decision.target != each.decision.current
        ]
        if output == "json":
            told.append(
                {
                    "at": each.at,
                    "tick": each.tick,
                    "decision": to_json(each.decision),
                    "situation": each.situation,
                    "memory_delta": each.memory_delta,
                    "after": to_json(after),
                    **each.extra,
                }
            )
            continue
        typer.echo(f"{shown(each.at)}, tick {each.tick}")
        for line in lines(each.decision, each.situation, each.memory_delta, after):
            typer.echo(line)
        typer.echo("")
    if output == "json":
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))


def _remote(address: str, token: str, at: float | None, pool: str, output: str) -> None:
    import asyncio
    import json

    from opsconsole.client.agent import AgentClient
    from opsconsole.commands.moments import shown
    from opsconsole.control.explanation import explain as lines
    from opsconsole.domain.wire import to_json

    async def ask() -> list[Any]:
        async with AgentClient(address, token=token or None) as client:
            return [d for d in await client.decisions(at) if pool in ("", d.pool)]

    found = asyncio.run(ask())
    if not found:
        raise UsageError(f"{address} has no decision{_of(pool)} by then.")
    if output == "json":
        typer.echo(json.dumps([{"at": d.at, "decision": to_json(d)} for d in found], indent=2, ensure_ascii=False))
        return
    for view in found:
        typer.echo(shown(view.at))
        for line in lines(view):
            typer.echo(line)
