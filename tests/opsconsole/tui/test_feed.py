"""The line to the agent: what is kept when it breaks, and how it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from opsconsole.clock import ManualClock
from opsconsole.domain.beside import TOPICS, Turn
from opsconsole.domain.records import BudgetView, FleetSnapshot, Interval
from opsconsole.errors import AgentUnavailable
from opsconsole.tui.feed import SLOW_S, Feed, merged
from opsconsole.tui.world import LinkState, Trends, World

AT = 1_764_504_271.0


async def settle() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


def start(agent: Any, clock: ManualClock) -> tuple[Feed, list[LinkState], asyncio.Task[None]]:
    states: list[LinkState] = []

    async def make(address: str) -> Any:
        return agent

    feed = Feed("/run/x.sock", clock, lambda: states.append(feed.world.link.state), make)
    return feed, states, asyncio.ensure_future(feed.run())


async def test_a_feed_fills_the_world_and_lets_go_at_the_end(agent: Any) -> None:
    feed, states, task = start(agent, ManualClock(AT))
    await settle()
    world = feed.world
    assert world.link.state is LinkState.LIVE and world.snapshot is agent.world.snapshot
    assert world.journal == agent.world.journal and world.alerts == agent.world.alerts
    assert world.forecasts and world.decisions and len(world.history) >= 60
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await feed.close()
    assert agent.closed and LinkState.LIVE in states


async def test_what_changes_beside_a_tick_comes_with_it_and_is_one_change(
    agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    feed, states, task = start(agent, ManualClock(AT))
    await settle()
    before, times = feed.world, len(states)
    news = replace(agent.world.journal[-1], seq=99)
    agent.pushed.put_nowait(
        Turn(make_snapshot(tick=8, at=AT + 1), {"alerts": (), "journal": (news,)}, frozenset(TOPICS))
    )
    await settle()
    assert len(states) == times + 1
    assert feed.world.alerts == () and feed.world.journal == (*before.journal, news)
    assert feed.world.decisions is before.decisions
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_of_an_older_version_is_asked_for_what_it_does_not_tell(agent: Any) -> None:
    agent.tells = False
    clock = ManualClock(AT)
    feed, _, task = start(agent, clock)
    await settle()
    world = feed.world
    assert all(getattr(world, name) == getattr(agent.world, name) for name in TOPICS)
    agent.world = replace(agent.world, alerts=(), journal=(*agent.world.journal, replace(world.journal[0], seq=99)))
    await clock.advance(SLOW_S)
    await settle()
    assert feed.world.alerts == () and feed.world.journal == agent.world.journal
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_budgets_of_weeks_come_with_the_rest(agent: Any) -> None:
    kept = (BudgetView("chat", "default", 0.98, AT - 3e6, AT, 9, 9.0, Interval(0.99, 0.99)),)
    agent.world = replace(agent.world, budgets=kept)
    feed, _, task = start(agent, ManualClock(AT))
    await settle()
    assert feed.world.budgets == kept
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_broken_line_keeps_the_last_snapshot_and_comes_back(
    agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    clock = ManualClock(AT)
    feed, _, task = start(agent, clock)
    await settle()
    agent.pushed.put_nowait(AgentUnavailable("No agent answers at /run/x.sock."))
    await settle()
    lost = feed.world
    assert lost.link.state is LinkState.LOST
    assert lost.snapshot is not None and "No agent answers" in lost.link.detail
    agent.world = World(snapshot=make_snapshot(tick=8, at=AT + 5))
    await clock.advance(1.0)
    await settle()
    again = feed.world
    assert again.link.state is LinkState.LIVE and again.snapshot is not None and again.snapshot.tick == 8
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_that_never_answers_is_tried_for_ever_and_says_why() -> None:
    clock = ManualClock(AT)
    tries = []

    async def make(address: str) -> Any:
        tries.append(address)
        raise AgentUnavailable("No agent answers at /run/x.sock (refused).")

    feed = Feed("/run/x.sock", clock, lambda: None, make)
    task = asyncio.ensure_future(feed.run())
    for _ in range(30):
        await clock.advance(1.0)
        await settle()
    assert len(tries) >= 6
    assert feed.world.link.state is LinkState.CONNECTING and "refused" in feed.world.link.detail
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_that_started_anew_does_not_inherit_the_old_past(
    agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    feed, _, task = start(agent, ManualClock(AT))
    await settle()
    agent.pushed.put_nowait(make_snapshot(tick=1, at=AT - 50_000))
    await settle()
    assert feed.world.snapshot is not None and feed.world.snapshot.tick == 1
    assert len(feed.world.history) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_without_an_address_nothing_is_tried() -> None:
    feed = Feed(None, ManualClock(AT), lambda: None)
    await feed.run()
    assert feed.world.link.state is LinkState.NONE


def test_the_journal_is_merged_without_doubles(world: World) -> None:
    assert merged(world.journal[:4], world.journal[2:]) == world.journal


def test_trends_forget_who_is_gone_and_ignore_old_ticks(make_snapshot: Callable[..., FleetSnapshot]) -> None:
    trends = Trends.of([make_snapshot(at=AT), make_snapshot(at=AT + 1)])
    assert trends.replica("llama-8b-7d9-x2k", "running") == [16, 16]
    trends.add(make_snapshot(at=AT + 1))
    assert len(trends.replica("llama-8b-7d9-x2k", "running")) == 2
    trends.add(make_snapshot((), at=AT + 2))
    assert trends.replica("llama-8b-7d9-x2k", "running") == [] and len(trends) == 0


def test_trends_that_stand_still_learn_nothing_more(make_snapshot: Callable[..., FleetSnapshot]) -> None:
    trends = Trends.of([make_snapshot(at=AT)])
    still = trends.as_now()
    trends.add(make_snapshot(at=AT + 1))
    assert len(still.replica("llama-8b-7d9-x2k", "running")) == 1 == len(still.pool("chat", "waiting"))
    assert len(trends.replica("llama-8b-7d9-x2k", "running")) == 2


def test_a_total_counts_what_is_known(make_snapshot: Callable[..., FleetSnapshot]) -> None:
    trends = Trends.of([make_snapshot(at=AT)])
    assert trends.total("waiting") == [22.0]
    assert Trends().total("waiting") == []
