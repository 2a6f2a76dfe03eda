"""A change of the fleet, from the key to its end: what must be seen, what must be typed, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.domain.records import HoldView, JournalEntry, Outcome
from opsconsole.errors import PlanRefused, UsageError
from opsconsole.tui import acting
from opsconsole.tui.acting import Change
from opsconsole.tui.cells import line_width, plain
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import dialog
from opsconsole.tui.world import Look, World

AT = 1_764_504_271.4
X2K = "llama-8b-7d9-x2k"


@pytest.fixture
def session(world: World) -> Session:
    made = Session(ManualClock(AT), Look(zone=UTC, now=AT))
    made.live = world
    made.change(selected=X2K, order=(X2K,))
    return made


def begun(session: Session, kind: str, argument: str = "") -> Change:
    change = acting.begin(session, kind, argument)
    assert isinstance(change, Change), change
    return change


def words(change: Change, session: Session, typed: str = "") -> str:
    lines = dialog.lines(change, session.live, typed, "", 66, session.look)
    assert {line_width(line) <= 66 for line in lines} == {True}
    return "\n".join(plain(line) for line in lines)


async def test_a_scale_shows_its_dry_run_before_it_can_be_applied(session: Session, agent: Any) -> None:
    change = begun(session, "scale", "+1")
    assert change.number == 10
    assert change.missing("") == "no plan yet"
    await change.ask(agent)
    assert change.missing("") == ""
    assert "9 -> 10 replicas of chat" in words(change, session)
    assert agent.intents == []
    assert await change.apply(agent, "because")
    assert agent.intents == [("plan-0", "because")]
    assert change.missing("") == "already sent"


async def test_the_size_it_has_is_not_a_change(session: Session, agent: Any) -> None:
    change = begun(session, "scale")
    await change.ask(agent)
    assert change.missing("") == "that is the size it has"


async def test_a_plan_for_another_number_is_never_applied(session: Session, agent: Any) -> None:
    change = begun(session, "scale", "chat 11")
    await change.ask(agent)
    change.number = 12
    assert "wait for the dry run" in change.missing("")


async def test_production_asks_again_in_words(session: Session, agent: Any) -> None:
    session.look = replace(session.look, production=("prod-*",))
    change = begun(session, "scale", "10")
    await change.ask(agent)
    assert change.missing("") == "type 10 to confirm"
    assert change.missing("9") == "type 10 to confirm"
    assert change.missing(" 10 ") == ""
    assert "PRODUCTION" in words(change, session)


async def test_a_drain_names_its_target_and_a_warning_has_to_be_typed_away(session: Session, agent: Any) -> None:
    agent.warnings = ("the other 5 would carry 211 of 196 capacity: overload",)
    change = begun(session, "drain")
    assert change.replicas == (X2K,)
    await change.ask(agent)
    assert change.missing("") == "type x2k to confirm"
    said = words(change, session)
    assert "overload" in said and "3 run where work would stop" in said
    assert change.missing("x2k") == ""


async def test_a_world_that_moved_gets_a_new_plan_and_says_so(session: Session, agent: Any) -> None:
    change = begun(session, "scale", "10")
    await change.ask(agent)
    agent.refuse_intent = PlanRefused("The fleet changed since this plan was made.")
    assert not await change.apply(agent, "")
    assert change.plan is not None and change.plan.plan_id == "plan-1"
    assert "fleet changed" in words(change, session)
    assert change.missing("") == ""


async def test_a_dry_run_that_is_refused_is_told_and_blocks(session: Session, agent: Any) -> None:
    agent.refuse_plan = UsageError("40 is outside 2..16 of pool chat.")
    change = begun(session, "scale", "40")
    await change.ask(agent)
    assert change.missing("") == "40 is outside 2..16 of pool chat."
    assert "outside 2..16" in words(change, session)


@pytest.mark.parametrize(
    ("kind", "argument", "said"),
    [
        ("scale", "nowhere 3", "there is no pool nowhere: chat"),
        ("drain", "nobody", "nobody names no replicas"),
        ("drain", "7d9", "7d9 names 8 replicas"),
        ("silence", "", "the cursor is not on an alert"),
        ("mute", "", "the cursor is not on an alert"),
    ],
)
def test_what_cannot_be_meant_is_said(kind: str, argument: str, said: str, session: Session) -> None:
    assert acting.begin(session, kind, argument) == said


def test_marked_rows_of_two_pools_are_not_drained_together(session: Session) -> None:
    snapshot = session.live.snapshot
    assert snapshot is not None
    first, *rest = snapshot.replicas
    session.live = replace(session.live, snapshot=replace(snapshot, replicas=(replace(first, pool="code"), *rest)))
    names = tuple(r.replica for r in snapshot.replicas[:2])
    session.change(marks=frozenset(names), order=names)
    assert "of several pools (chat, code)" in str(acting.begin(session, "drain", ""))


async def test_apply_takes_what_was_advised_and_its_reason(session: Session, agent: Any) -> None:
    change = begun(session, "apply")
    assert (change.kind, change.number) == ("scale", 9)
    assert "advised 8 -> 9" in words(change, session)
    session.live = replace(session.live, decisions=())
    assert acting.begin(session, "apply", "") == "nothing is advised for pool chat now"


async def test_pause_turns_into_resume_while_it_holds(session: Session, agent: Any) -> None:
    change = begun(session, "pause_scaling")
    assert change.kind == "pause"
    assert await change.apply(agent, "")
    session.live = replace(session.live, holds=(HoldView("pause", "chat", "ana", AT),))
    assert await begun(session, "pause_scaling").apply(agent, "")
    assert agent.held == [("pause", "chat", None), ("resume", "chat", None)]


async def test_a_pin_needs_a_number(session: Session, agent: Any) -> None:
    change = begun(session, "pin", "chat 4")
    assert await change.apply(agent, "")
    assert agent.held == [("pin", "chat", 4)]
    change = begun(session, "pin")
    change.number = None
    assert change.missing("") == "type a number"


async def test_an_alert_is_silenced_by_rule_and_subject(session: Session, agent: Any) -> None:
    session.change(page="events")
    change = begun(session, "silence")
    assert await change.apply(agent, "")
    assert agent.silences == [("replica-saturated", X2K)]


async def test_a_rule_is_muted_for_a_day_whatever_it_finds(session: Session, agent: Any) -> None:
    session.change(page="events")
    change = begun(session, "mute")
    assert "every alert of replica-saturated" in change.title and "1 alert of this rule now" in words(change, session)
    assert await change.apply(agent, "")
    assert agent.silences == [("replica-saturated", "")] and agent.silenced_for == 86_400.0


async def test_an_applied_plan_is_followed_to_its_end(session: Session, agent: Any) -> None:
    change = begun(session, "scale", "10")
    await change.ask(agent)
    await change.apply(agent, "")
    assert acting.progress(change, session.live) == ("running: ready 6, warming 1, draining 1", False)
    outcome = Outcome("plan-0", "done", AT + 90, "10 serve", streams_cut=1)
    entry = JournalEntry(9, AT + 90, "outcome", "chat", "done", outcome=outcome)
    session.live = replace(session.live, journal=(*session.live.journal, entry))
    assert acting.progress(change, session.live) == ("done: 10 serve; 1 streams cut", True)
    assert "done: 10 serve" in words(change, session)


@pytest.mark.parametrize("name", ["a-b-c", "plain", "名前-模型"])
def test_the_word_to_type_is_the_end_of_the_name(name: str, make_world: Callable[..., World]) -> None:
    assert Change("drain", "chat", (name,)).word == name.rsplit("-", 1)[-1]
