"""`opsconsole pause | resume | pin`: standing orders to a running agent, kept in its journal with who gave them.

They decide nothing and only speak the agent's API. The trap: a pause without an end is easily forgotten; it stands in
the agent's notes on every screen until somebody resumes.
"""

from __future__ import annotations

from typing import Annotated

import typer

from opsconsole.errors import AgentUnavailable

Attach = Annotated[str, typer.Option("--attach", metavar="URL", help="The agent; default: the one of this user.")]
Token = Annotated[str, typer.Option("--token", envvar="OPSCONSOLE_TOKEN", help="For an agent on another machine.")]
For = Annotated[str, typer.Option("--for", metavar="TIME", help="30m, 2h, 1d. Default: until resumed.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the journal.")]
Pool = Annotated[str, typer.Argument(help="A pool; default: every pool.")]


def pause(pool: Pool = "", for_: For = "", note: Note = "", attach: Attach = "", token: Token = "") -> None:
    """Stop what the agent does by itself; the minimum and what people ask for go on.

    Examples:

      opsconsole pause --for 1h --note "load test"

      opsconsole pause chat
    """
    _give("pause", pool, None, for_, note, attach, token)


def resume(pool: Pool = "", note: Note = "", attach: Attach = "", token: Token = "") -> None:
    """Lift pause and pin.

    Examples:

      opsconsole resume

      opsconsole resume chat --note "load test over"
    """
    _give("resume", pool, None, "", note, attach, token)


def pin(
    minimum: Annotated[int, typer.Argument(min=0, help="Replicas to keep at least.")],
    pool: Annotated[str, typer.Option("--pool", help="A pool; default: every pool.")] = "",
    for_: For = "",
    note: Note = "",
    attach: Attach = "",
    token: Token = "",
) -> None:
    """Keep at least so many replicas for a while, whatever the load says.

    Examples:

      opsconsole pin 4 --pool chat --for 2h --note "launch at noon"
    """
    _give("pin", pool, minimum, for_, note, attach, token)


def _give(kind: str, pool: str, minimum: int | None, lasts: str, note: str, attach: str, token: str) -> None:
    import asyncio

    from opsconsole.client.agent import AgentClient
    from opsconsole.clock import SystemClock
    from opsconsole.commands.found import find_agent
    from opsconsole.commands.moments import duration
    from opsconsole.control.mode import sentence
    from opsconsole.domain.records import HoldView

    address = attach or find_agent()
    if address is None:
        raise AgentUnavailable(
            "No agent of this user runs here: start `opsconsole autoscale`, or name one with --attach."
        )
    for_s = duration(lasts) if lasts else None

    async def ask() -> tuple[HoldView, ...]:
        async with AgentClient(address, token=token or None) as client:
            return await client.hold(kind, pool, minimum=minimum, for_s=for_s, note=note)

    in_force = asyncio.run(ask())
    now = SystemClock().now()
    typer.echo("\n".join(sentence(order, now) for order in in_force) or "No order is in force.")
