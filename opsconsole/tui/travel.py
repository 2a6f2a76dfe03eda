"""Time travel: the whole screen as it was, stepped through, and jumps between decisions.

It must not show the present under a past clock: journal entries after the moment are left out, and what history does
not hold is said to be missing. The trap: a step back from live starts at the last tick, not at this machine's time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from opsconsole.tui.answers import GOING
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import journal
from opsconsole.tui.world import Trends, World

if TYPE_CHECKING:
    from opsconsole.client.agent import AgentClient

STEP_S = 10.0
TREND_S, TREND_POINTS = 120.0, 40
MANY = 100  # above so many replicas the small charts of the past are left out


async def travel(
    session: Session, client: AgentClient | None, how: str, argument: str, repaint: Callable[[], None]
) -> None:
    """Go to another moment, or say why not."""
    refused = await _go(session, client, how, argument)
    if refused:
        session.say(refused)
    elif session.state.message == GOING:
        session.change(message="")
    repaint()


async def _go(session: Session, client: AgentClient | None, how: str, argument: str) -> str:
    """Go there; else the sentence that says why not."""
    live = session.live
    if how == "live":
        go_live(session)
        return ""
    if client is None or live.snapshot is None:
        return "no agent answers, so there is no past to show"
    target = moment(session, how, argument)
    if isinstance(target, str):
        return target
    if target >= live.snapshot.at - 1e-6:
        go_live(session)
        return ""
    world = await past(client, live, target)
    if world is None:
        return "history does not reach back so far"
    session.hold(world)
    session.change(at=world.snapshot.at if world.snapshot else target, paused=False)
    return ""


def go_live(session: Session) -> None:
    """Back to the present."""
    session.hold(None)
    session.change(at=None, paused=False)


def moment(session: Session, how: str, argument: str) -> float | str:
    """The moment asked for, or a sentence."""
    snapshot = session.live.snapshot
    assert snapshot is not None
    here = session.state.at if session.state.at is not None else snapshot.at
    if how in ("back", "forward"):
        return here - STEP_S if how == "back" else here + STEP_S
    if how == "at":
        return parse_moment(argument, session, snapshot.at)
    times = sorted({entry.at for entry in journal.decisions(session.live.journal, regrets=False)})
    if how == "earlier":
        before = [at for at in times if at < here - 0.5]
        return before[-1] if before else "no decision is known before this one"
    after = [at for at in times if at > here + 0.5]
    if not after:
        return snapshot.at if session.state.at is not None else "this is the newest decision"
    return after[0]


def parse_moment(text: str, session: Session, now: float) -> float | str:
    """`12:01`, `12:01:05`, or `-5m`, `-90s`, `-1h` before now."""
    relative = re.fullmatch(r"-(\d+)([smh]?)", text.strip())
    if relative:
        return now - int(relative[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[relative[2]]
    clock = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d))?", text.strip())
    if not clock or int(clock[1]) > 23 or int(clock[2]) > 59 or int(clock[3] or 0) > 59:
        return "say a time of day, 12:01 or 12:01:05, or a while ago, -5m"
    today = datetime.fromtimestamp(now, session.look.zone)
    wanted = today.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
    return (wanted if wanted <= today else wanted - timedelta(days=1)).timestamp()


async def past(client: AgentClient, live: World, at: float) -> World | None:
    """Everything as it stood at a moment."""
    snapshot = await client.at(at)
    if snapshot is None:
        return None
    trends = Trends()
    if len(snapshot.replicas) <= MANY:
        recent = await client.history(
            snapshot.at - TREND_S, snapshot.at, step=TREND_S / TREND_POINTS, limit=TREND_POINTS
        )
        trends = Trends.of(recent)
    trends.add(snapshot)
    decisions = await client.decisions(at)
    forecasts = await client.forecast(at=snapshot.at)
    return replace(
        live,
        snapshot=snapshot,
        trends=trends,
        decisions=decisions,
        journal=tuple(entry for entry in live.journal if entry.at <= snapshot.at + 1e-6),
        history=tuple(old for old in live.history if old.at <= snapshot.at),
        alerts=(),
        forecasts=tuple(f for f in forecasts if f.made_at <= snapshot.at + 1e-6),  # an older agent tells only today's
        findings=(),
        prefixes=(),
        holds=tuple(hold for hold in live.holds if hold.at <= snapshot.at),
    )
