"""The whole screen as it was: moments, jumps, and nothing of the future."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.tui import travel
from opsconsole.tui.answers import GOING
from opsconsole.tui.session import Session
from opsconsole.tui.world import Look, World

AT = 1_764_504_271.0


@pytest.fixture
def session(world: World) -> Session:
    made = Session(ManualClock(AT + 0.4), Look(zone=UTC, now=AT + 0.4))
    made.live = world
    return made


async def go(session: Session, agent: Any, how: str, argument: str = "") -> Session:
    painted: list[int] = []
    await travel.travel(session, agent, how, argument, lambda: painted.append(1))
    assert painted
    return session


@pytest.mark.parametrize(
    ("text", "ago"),
    [("12:01", 211.0), ("12:01:05", 206.0), ("-5m", 300.0), ("-90", 90.0), ("-1h", 3600.0), ("13:00", 82_871.0)],
)
def test_a_moment_is_a_time_of_day_or_a_while_ago(text: str, ago: float, session: Session) -> None:
    assert travel.parse_moment(text, session, AT) == pytest.approx(AT - ago)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "12:99", "--5m", "-5d"])
def test_nonsense_is_answered_with_an_example(text: str, session: Session) -> None:
    assert "12:01" in str(travel.parse_moment(text, session, AT))


async def test_a_step_back_holds_the_screen_and_nothing_later_is_known(session: Session, agent: Any) -> None:
    await go(session, agent, "at", "-60s")
    shown = session.shown
    assert session.state.at == AT - 60 and shown is not session.live
    assert max(entry.at for entry in shown.journal) <= AT - 60
    assert shown.alerts == () and shown.forecasts == () and shown.decisions == ()
    assert shown.findings == () and shown.prefixes == ()  # they are of now
    assert all(old.at <= AT - 60 for old in shown.history)
    assert not session.can_change


async def test_the_forecast_of_then_is_shown_with_the_decision_of_then(session: Session, agent: Any) -> None:
    await go(session, agent, "at", "-20s")
    assert [forecast.made_at for forecast in session.shown.forecasts] == [AT - 31]


async def test_jumps_go_from_decision_to_decision_and_end_live(session: Session, agent: Any) -> None:
    seen = []
    for _ in range(3):
        await go(session, agent, "earlier")
        seen.append(session.state.at)
    assert seen == [AT - 11, AT - 206, AT - 379]
    await go(session, agent, "later")
    moments = [session.state.at]
    for _ in range(2):
        await go(session, agent, "later")
        moments.append(session.state.at)
    assert moments == [AT - 206, AT - 11, None]
    assert session.shown is session.live


async def test_what_is_said_on_the_way_goes_on_arrival_and_nothing_else_does(session: Session, agent: Any) -> None:
    for said, left in ((GOING, ""), ("drained", "drained")):
        session.say(said)
        await go(session, agent, "back")
        assert session.state.message == left
    await go(session, agent, "at", "noon")
    assert "12:01" in session.state.message


async def test_steps_forward_arrive_at_live(session: Session, agent: Any) -> None:
    await go(session, agent, "back")
    assert session.state.at == AT - 10
    await go(session, agent, "forward")
    assert session.state.at is None


async def test_what_history_does_not_hold_is_said(session: Session, agent: Any) -> None:
    await go(session, agent, "at", "-1h")
    assert session.state.message == "history does not reach back so far"
    assert session.shown is session.live


async def test_without_an_agent_there_is_no_past(session: Session) -> None:
    await go(session, None, "back")
    assert "no agent answers" in session.state.message
