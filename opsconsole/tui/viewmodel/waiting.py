"""Every screen before the agent's first tick: what is tried, since when, and what to type where nothing is known.

It must not know the screens. The trap: it is the first frame of all; what it imports is paid before anything is seen.
"""

from __future__ import annotations

from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import bars
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.world import LinkState, Look, World

HINTS = (
    "Nothing is connected yet. What to type next, in this terminal after q:",
    "",
    "  opsconsole up                        serve a model on this machine and watch it",
    "  opsconsole up --load burst           the same, under a built-in load",
    "  opsconsole watch URL [URL...]        watch engines that already run (their /metrics)",
    "  opsconsole --attach ADDRESS          another console for an agent that runs",
    "  opsconsole --demo                    a synthetic fleet, to look around",
)


def waiting(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """No tick yet: says why, and what to do about it."""
    lines: list[Line] = [bars.header(world, state, look, size.width), ()]
    link = world.link
    if link.state is LinkState.NONE:
        lines += [(Cell(f" {hint}", "text" if hint.startswith(" ") else "dim"),) for hint in HINTS]
    else:
        words = link.detail or "waiting for the agent's first tick"
        lines += [(Cell(f" {clean(link.address)}", "title"),), (Cell(f" {clean(words)}", "warn"),)]
        if link.since is not None and look.now - link.since >= 1:
            lines.append((Cell(f" tried for {fmt.span(look.now - link.since)}; trying again by itself", "dim"),))
    return framed_to(lines, bars.foot(world, state, look, size.width), size)
