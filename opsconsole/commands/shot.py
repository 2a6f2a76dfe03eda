"""`opsconsole shot`: one screen of the console written as SVG, without a terminal; for documents and for CI.

It must not draw anything itself: the picture is the real console, run without a screen against a real agent. The trap:
a picture taken at once shows empty charts, so it waits until the agent's journal and history have arrived.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opsconsole.errors import AgentUnavailable, UsageError

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp

SETTLE_S, LONGEST_WAIT_S = 1.5, 15.0


def shot(
    out: Path = typer.Argument(..., metavar="OUT.svg", help="The file to write; .txt gives the characters alone."),
    attach: str = typer.Option("", "--attach", metavar="ADDRESS", help="The agent to show: a URL or a socket's path."),
    demo: bool = typer.Option(False, "--demo", help="A synthetic fleet, clearly labelled."),
    size: str = typer.Option("160x48", "--size", metavar="WxH", help="Columns and rows."),
    screen: str = typer.Option("fleet", "--screen", help="fleet, replica, decisions, slo, caches or events."),
    theme: str = typer.Option("dark", "--theme", help="dark, light, contrast, cvd or mono."),
    keys: str = typer.Option("", "--keys", metavar="K,K", help="Keys pressed first, by Textual's names."),
    title: str = typer.Option("opsconsole", "--title", help="The window's title in the picture."),
) -> None:
    """Write one screen of a running agent as SVG.

    Examples:

      opsconsole shot --attach ~/.local/state/opsconsole/agent.sock fleet.svg

      opsconsole shot --demo --size 80x24 --screen decisions decisions.svg
    """
    import asyncio
    import contextlib

    from opsconsole.commands import tui_cmd
    from opsconsole.commands.found import find_agent
    from opsconsole.tui.actions import PAGES

    across, down = parse_size(size)
    if screen not in PAGES:
        raise UsageError(f"There is no screen {screen!r}; there are {', '.join(PAGES)}.")
    with contextlib.ExitStack() as stack:
        address = attach or (stack.enter_context(tui_cmd.demo_agent()) if demo else find_agent())
        if not address:
            raise AgentUnavailable("No agent was found; name one with --attach ADDRESS, or use --demo.")
        app = tui_cmd.build(address, read_only=False, theme=theme, glyphs="block", fresh=True)
        pressed = [key for key in keys.split(",") if key]
        text = asyncio.run(picture(app, (across, down), screen, pressed, title, out.suffix == ".txt"))
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out} ({screen}, {across}x{down})")


def parse_size(text: str) -> tuple[int, int]:
    """`160x48`."""
    found = re.fullmatch(r"(\d{1,3})x(\d{1,3})", text.strip())
    if not found or not int(found[1]) or not int(found[2]):
        raise UsageError(f"{text!r} is no size; say columns x rows, such as 160x48.")
    return int(found[1]), int(found[2])


async def picture(
    app: ConsoleApp, size: tuple[int, int], screen: str, keys: list[str], title: str, characters: bool
) -> str:
    """Run the console without a terminal until it has something to show, and take the picture."""
    from opsconsole.tui import export

    async with app.run_test(size=size) as pilot:
        waited = 0.0
        while not (app.session.live.snapshot and app.session.live.history and app.session.live.journal):
            if waited >= LONGEST_WAIT_S:
                break
            await pilot.pause(0.1)
            waited += 0.1
        if app.session.live.snapshot is None:
            raise AgentUnavailable(app.session.live.link.detail or "The agent sent nothing to show.")
        await pilot.pause(SETTLE_S)
        app.perform(f"page_{screen}")
        for key in keys:
            await pilot.press(key)
        await pilot.pause(0.3)
        app.repaint()
        await pilot.pause()
        found = app.console_screen
        return (found.grid.text() + "\n") if characters and found else export.picture(app, title)
