"""What a user chooses about what is drawn: windows, series, horizon, and which panel has the screen.

It must not know how a panel is drawn. The trap: a panel belongs to a screen, so leaving it gives the space back.
"""

from __future__ import annotations

from typing import TypeVar

from opsconsole.tui.shell import Shell
from opsconsole.tui.state import HORIZONS, WINDOWS
from opsconsole.tui.viewmodel import objectives
from opsconsole.tui.viewmodel.maximised import PANELS
from opsconsole.tui.world import main_pool

T = TypeVar("T")
SPANS = dict(zip(("all", "15m", "5m"), HORIZONS, strict=True))
SERIES = {"requests": "requests/s", "prompt": "prompt tokens/s", "output": "output tokens/s"}


def following(values: tuple[T, ...], value: T) -> T:
    """The next of a few values, round and round."""
    return values[(values.index(value) + 1) % len(values)] if value in values else values[0]


def window(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument and argument not in WINDOWS:
        session.say(f"windows: {', '.join(WINDOWS)}")
        return
    chosen = argument or following(WINDOWS, session.state.window)
    snapshot = session.shown.snapshot
    slo = next((slo for pool in snapshot.pools for slo in pool.slos), None) if snapshot else None
    session.change(window=chosen)
    session.say(f"attainment over {objectives.window_word(slo, chosen)}" if chosen != "now" else "attainment now")


def series(shell: Shell, argument: str) -> None:
    session = shell.session
    world = session.shown
    pool = main_pool(world.snapshot, session.state.selected) if world.snapshot else None
    there = tuple(f.unit for f in world.forecasts if f.leads and (pool is None or f.pool == pool.pool))
    if argument and argument not in SERIES:
        session.say(f"series: {', '.join(SERIES)}")
        return
    shown = session.state.series or (there[0] if there else "")
    wanted = SERIES[argument] if argument else following(there or ("",), shown)
    if wanted not in there:
        session.say("no forecast in that unit yet" if there else "no forecast yet")
        return
    session.change(series=wanted)
    session.say(f"demand in {wanted}")


def horizon(shell: Shell, argument: str) -> None:
    session = shell.session
    if argument and argument not in SPANS:
        session.say(f"horizons: {', '.join(SPANS)}")
        return
    chosen = SPANS[argument] if argument else following(HORIZONS, session.state.horizon)
    session.change(horizon=chosen)
    session.say("demand: " + next(word for word, seconds in SPANS.items() if seconds == chosen))


def maximise(shell: Shell, argument: str) -> None:
    session = shell.session
    names = tuple(PANELS.get(session.state.page, ()))
    if not names:
        session.say("this screen is one list; there is nothing to maximise")
        return
    found = [name for name in names if name.startswith(argument)] if argument else []
    if argument and not found:
        session.say(f"panels here: {', '.join(names)}")
        return
    session.change(maximised=found[0] if found else following(("", *names), session.state.maximised))


def bare(shell: Shell, argument: str) -> None:
    shell.session.change(bare=not shell.session.state.bare)
