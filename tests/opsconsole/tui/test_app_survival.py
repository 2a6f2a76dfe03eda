"""The whole application through what breaks others: any size at any moment, no replica and a thousand, agents that come
back as somebody else, names that are code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.command import CommandList
from textual.events import Key
from textual.pilot import Pilot

from opsconsole.domain.records import FleetSnapshot, PrefixView, ReplicaState, ReplicaView
from opsconsole.errors import AgentUnavailable, UsageError
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.viewmodel.maximised import PANELS
from opsconsole.tui.widgets.grid import Grid

AT = 1_764_504_271.0
MakeApp = Callable[..., ConsoleApp]
MakeSnapshot = Callable[..., FleetSnapshot]
BAD = "[/bold][red]\x1b[31m名前e\u0301\u202e[/"


@asynccontextmanager
async def running(app: ConsoleApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        for _ in range(200):
            await pilot.pause()
            if app.session.live.journal and app.session.live.decisions:
                break
        app.repaint()
        yield pilot


def seen(app: ConsoleApp) -> str:
    return app.screen.query_one(Grid).text()


async def keys(pilot: Pilot[int], *pressed: str) -> None:
    for key in pressed:
        await pilot.press(key)
    await pilot.pause(0.05)


@pytest.mark.parametrize(
    "opening", [("slash", "s"), ("colon", "s"), ("ctrl+p",), ("question_mark",), ("y",), ("s",), ("d",), ("Z",),
                ("2", "l"), ("2", "m"), ("M",), ("4", "M"), ("comma",), ("p",)],
    ids="-".join,
)  # fmt: skip
async def test_any_size_while_anything_is_open(opening: tuple[str, ...], make_app: MakeApp) -> None:
    app = make_app()
    async with running(app, (160, 48)) as pilot:
        await keys(pilot, *opening)
        for size in ((1, 1), (2, 30), (60, 15), (7, 3), (300, 100), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await keys(pilot, "escape", "escape", "escape", "1")
        assert "REPLICA" in seen(app)


@pytest.mark.parametrize("size", [(1, 1), (2, 30), (7, 3), (200, 2), (60, 4), (80, 24)], ids=str)
async def test_the_palette_is_paged_where_its_list_has_no_room(size: tuple[int, int], make_app: MakeApp) -> None:
    app = make_app()
    async with running(app, (80, 24)) as pilot:
        for before in (True, False):  # resized with the palette open, and opened on that size
            await pilot.resize_terminal(*((80, 24) if before else size))
            await keys(pilot, "ctrl+p", "e")
            await pilot.pause(0.4)  # what matches comes in batches
            await pilot.resize_terminal(*size)
            await keys(pilot, "down", "pagedown", "pagedown", "pageup", "up", "ctrl+end", "pageup", "ctrl+home")
            choices = app.screen.query_one(CommandList)
            assert choices.option_count > 3 and choices.highlighted == 0
            await keys(pilot, "pagedown")
            assert choices.highlighted not in (None, 0)
            await keys(pilot, "escape")
        await pilot.resize_terminal(80, 24)
        await keys(pilot, "1")
        assert "REPLICA" in seen(app)


@pytest.mark.parametrize("opening", [("y",), ("question_mark",), ("s",), ("Z",), ("2", "m")], ids="-".join)
async def test_escape_twice_at_once_closes_what_is_open_and_not_the_console(
    opening: tuple[str, ...], make_app: MakeApp
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await keys(pilot, *opening)
        top = app.screen
        assert top is not app.console_screen
        for _ in range(3):  # they wait in the screen's queue before the first is worked off
            top.post_message(Key("escape", "\x1b"))
        await pilot.pause(0.05)
        assert app.screen is app.console_screen and app.is_running
        await keys(pilot, "1")
        assert "REPLICA" in seen(app)


@pytest.mark.parametrize("count", [0, 1000])
async def test_every_key_works_with_no_replica_and_with_a_thousand(
    count: int, make_app: MakeApp, agent: Any, make_snapshot: MakeSnapshot
) -> None:
    replicas = tuple(
        ReplicaView(f"r{i:04d}", "chat", list(ReplicaState)[i % 7], f"why {i}", waiting=float(i % 9), kv_usage=0.5)
        for i in range(count)
    )
    agent.world = replace(agent.world, snapshot=make_snapshot(replicas))
    app = make_app()
    async with running(app, (160, 48)) as pilot:
        for page in "123456":
            await keys(pilot, page, "down", "pagedown", "end", "up", "enter", "escape")
        await keys(pilot, "1", "o", "g", "space", "w", "h", "h", "slash", "r", "9", "enter", "escape")
        assert f"of {count}" in seen(app) or "no replicas yet" in seen(app)
        for kind in ("s", "d", "l", "y"):
            await keys(pilot, kind, "escape")
        screen = app.console_screen
        assert screen is not None and screen.draw() == 0  # nothing left that would be painted again


async def test_an_agent_that_comes_back_as_another_brings_no_old_trends(
    make_app: MakeApp, agent: Any, make_snapshot: MakeSnapshot
) -> None:
    app = make_app()
    async with running(app) as pilot:
        agent.pushed.put_nowait(AgentUnavailable("gone"))
        await pilot.pause(0.1)
        assert "LOST" in seen(app)
        young = make_snapshot((ReplicaView("new-1", "chat", ReplicaState.OK, ""),), at=AT - 5000, tick=1)
        agent.world = replace(agent.world, snapshot=young)
        for _ in range(100):
            await app.clock.advance(1.0)  # type: ignore[attr-defined]
            await pilot.pause()
            if "new-1" in seen(app):
                break
        assert "new-1" in seen(app) and "x2k" not in seen(app).split("--[decisions")[0]
        assert app.session.live.trends.replica("llama-8b-7d9-x2k", "running") == []


async def test_names_that_are_code_stay_text_in_every_panel(
    make_app: MakeApp, agent: Any, make_snapshot: MakeSnapshot
) -> None:
    snapshot = agent.world.snapshot
    replicas = tuple(replace(r, replica=f"{BAD}{i}", why=BAD, error=BAD) for i, r in enumerate(snapshot.replicas))
    agent.world = replace(
        agent.world,
        snapshot=replace(snapshot, replicas=replicas, fleet=BAD, notes=(BAD,)),
        forecasts=tuple(replace(f, model=BAD, warnings=(BAD,), weights={BAD: 1.0}) for f in agent.world.forecasts),
        findings=({"rule": BAD, "message": BAD},),
        prefixes=(PrefixView(BAD, 10.0, 2, 2, (BAD,), AT),),
        alerts=tuple(replace(a, rule=BAD, subject=BAD, text=BAD) for a in agent.world.alerts),
    )
    agent.refuse_log = UsageError(BAD)
    app = make_app()
    async with running(app, (160, 48)) as pilot:
        for number, page in enumerate(("fleet", "replica", "decisions", "slo", "caches", "events"), start=1):
            await keys(pilot, str(number), "y", "escape")
            for _ in PANELS.get(page, ()):
                await keys(pilot, "M")
                assert "\x1b" not in seen(app)
        await keys(pilot, "2", "l")
        assert "[/bold]" in seen(app) and "\x1b" not in seen(app)
        await keys(pilot, "escape", "m", "escape", "Z")
        await keys(pilot, "escape", "1")
        assert "[/bold]" in seen(app)


async def test_a_log_that_cannot_be_reached_is_a_sentence_and_one_that_can_is_text(
    make_app: MakeApp, agent: Any
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await keys(pilot, "l")
        assert "llama-8b-7d9-x2k started" in seen(app) and "[/red]" in seen(app) and "\x1b" not in seen(app)
        await keys(pilot, "l")
        agent.refuse_log = UsageError("This agent cannot reach the logs of its replicas: look where they run.")
        await keys(pilot, "l")
        assert "cannot reach the logs" in seen(app)


async def test_maintenance_silences_what_is_marked_after_asking(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await keys(pilot, "space", "space", "Z")
        assert "Maintenance for an hour on" in seen(app) and agent.silences == []
        await keys(pilot, "enter")
        await pilot.pause(0.1)
        assert set(agent.silences) == {("*", "chat/llama-8b-7d9-x2k"), ("*", "chat/llama-8b-7d9-dz9")}
