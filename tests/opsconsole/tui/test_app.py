"""The real application under a pilot: keys arrive, dialogs open, and nothing changes without being asked twice."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from opsconsole.domain.records import FleetSnapshot, JournalEntry, Outcome
from opsconsole.errors import AgentUnavailable
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.screens.console import ConsoleScreen
from opsconsole.tui.screens.dialog import ChangeScreen
from opsconsole.tui.screens.panel import PanelScreen
from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.theme import ASCII
from opsconsole.tui.widgets.grid import Grid
from opsconsole.tui.world import Look

AT = 1_764_504_271.0
X2K = "llama-8b-7d9-x2k"
MakeApp = Callable[..., ConsoleApp]


@asynccontextmanager
async def running(app: ConsoleApp, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        for _ in range(200):
            await pilot.pause()
            if app.session.live.journal and app.session.live.decisions:
                break
        assert app.session.live.snapshot is not None
        app.repaint()
        yield pilot


def seen(app: ConsoleApp) -> str:
    """The characters of the topmost grid."""
    return app.screen.query_one(Grid).text()


async def press(pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await pilot.pause()
    await pilot.pause()


async def test_the_first_screen_is_the_fleet_with_live_data(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app):
        assert "LIVE 12:04:31" in seen(app) and "x2k" in seen(app)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("2", "latency in the window"),
        ("3", "step limit"),
        ("4", "goodput and offered"),
        ("5", "KV occupancy by replica"),
        ("6", "1 firing, 1 silenced"),
        ("e", "1 firing, 1 silenced"),
        ("enter", "why: waiting 16"),
    ],
)
async def test_a_key_opens_its_screen_and_escape_leaves_it(key: str, words: str, make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, key)
        assert words in seen(app)
        await press(pilot, "escape")
        assert "sort: RISK" in seen(app)


async def test_typing_filters_at_once_enter_keeps_and_escape_undoes(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "slash", *"st:hot")
        assert "2 of 8, filter: st:hot" in seen(app)
        await press(pilot, "enter")
        assert "2 of 8" in seen(app) and not app.screen.query(Input)
        await press(pilot, "slash", *"x", "escape")
        assert app.session.state.filter == "st:hot"
        await press(pilot, "escape")
        assert "8 of 8, filter: -" in seen(app)


async def test_letters_typed_into_a_filter_are_not_keys(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "slash", *"qsd4")
        assert app.session.state.filter == "qsd4" and app.session.state.page == "fleet"
        assert isinstance(app.screen, ConsoleScreen)


async def test_a_command_is_completed_by_tab_and_run_by_enter(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "colon", *"sor", "tab")
        assert app.screen.query_one(Input).value == "sort "
        await press(pilot, *"kv", "enter")
        assert "sort: KV" in seen(app)
        await press(pilot, "colon", *"nonsense", "enter")
        assert ":nonsense is no command" in seen(app)


async def test_panels_windows_and_horizons_complete_too(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        for page, typed, whole in (("4", "maximise h", "maximise heat"), ("4", "window l", "window long"),
                                   ("3", "horizon 1", "horizon 15m"), ("3", "series o", "series output")):  # fmt: skip
            await press(pilot, page, "colon", *("space" if char == " " else char for char in typed), "tab")
            assert app.screen.query_one(Input).value == whole
            await press(pilot, "escape")
            await pilot.pause(0.05)


async def test_a_scale_is_seen_dry_applied_and_followed(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "s")
        assert isinstance(app.screen, ChangeScreen)
        await press(pilot, "backspace", "1", "0")
        await pilot.pause(0.4)
        assert "9 -> 10 replicas of chat" in seen(app)
        assert agent.intents == []
        await press(pilot, "enter")
        await pilot.pause(0.1)
        assert [note for _, note in agent.intents] == [""]
        done = Outcome(agent.intents[0][0], "done", AT + 5, "10 replicas serve")
        entry = JournalEntry(99, AT + 5, "outcome", "chat", "done", outcome=done)
        app.session.live = replace(app.session.live, journal=(*app.session.live.journal, entry))
        await pilot.pause(0.6)
        assert "done: 10 replicas serve" in seen(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, ConsoleScreen)


async def test_enter_on_an_unchanged_scale_does_nothing(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "s")
        await pilot.pause(0.4)
        await press(pilot, "enter")
        assert agent.intents == [] and "that is the size it has" in seen(app)


async def test_ctrl_c_leaves(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press("ctrl+c")
        await pilot.pause()
    assert app.return_value == 0


async def test_escape_in_a_dialog_is_always_no(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "d")
        await pilot.pause(0.1)
        await press(pilot, "escape")
        assert isinstance(app.screen, ConsoleScreen) and agent.intents == []


async def test_production_needs_the_word_typed_out(make_app: MakeApp, agent: Any) -> None:
    app = make_app(look=Look(zone=UTC, now=AT, production=("prod-*",)))
    async with running(app) as pilot:
        await press(pilot, "d")
        await pilot.pause(0.1)
        assert "PRODUCTION" in seen(app) and "Type x2k to confirm" in seen(app)
        await press(pilot, "enter")
        assert agent.intents == []
        await press(pilot, *"x2k", "enter")
        await pilot.pause(0.1)
        assert len(agent.intents) == 1
        assert agent.plans[-1].replicas == (X2K,)


async def test_what_is_typed_ahead_goes_where_it_belongs_and_applies_no_older_plan(
    make_app: MakeApp, agent: Any
) -> None:
    app = make_app(look=Look(zone=UTC, now=AT, production=("prod-*",)))
    async with running(app) as pilot:
        await press(pilot, "s")
        await pilot.pause(0.4)
        for key in ("1", "0", "enter", "1", "0", "tab", "w", "h", "y", "enter"):  # in one burst, faster than a dry run
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.05)
        fields = [app.screen.query_one(name, Input).value for name in ("#number", "#confirm", "#note")]
        assert fields == ["10", "10", "why"]
        assert agent.intents == []
        await pilot.pause(0.4)
        await press(pilot, "enter")
        await pilot.pause(0.1)
        assert [note for _, note in agent.intents] == ["why"] and agent.plans[-1].to_count == 10


async def test_a_correction_typed_in_one_burst_corrects(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "s")
        for key in ("7", "backspace", "1", "4", "left", "backspace", "9", "delete", "2"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.05)
        assert app.screen.query_one("#number", Input).value == "92"


@pytest.mark.parametrize("opened", ["d", "s1"])
async def test_an_enter_before_the_word_never_counts_as_the_one_after_it(
    opened: str, make_app: MakeApp, agent: Any
) -> None:
    app = make_app(look=Look(zone=UTC, now=AT, production=("prod-*",)))
    async with running(app) as pilot:
        await press(pilot, *opened)
        await pilot.pause(0.4)
        for key in ("enter", *("x2k" if opened == "d" else "1")):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.4)
        assert app.screen.query_one("#confirm", Input).value in ("x2k", "1")
        assert agent.intents == []
        await press(pilot, "enter")
        await pilot.pause(0.1)
        assert len(agent.intents) == 1


async def test_marked_rows_are_drained_together(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "space", "space", "d")
        await pilot.pause(0.1)
        assert set(agent.plans[-1].replicas) == {X2K, "llama-8b-7d9-dz9"}


@pytest.mark.parametrize(
    ("key", "held"), [("P", ("pause", "chat", None)), ("m", ("pin", "chat", 2))], ids=["pause", "pin"]
)
async def test_standing_orders_are_confirmed_and_sent(
    key: str, held: tuple[str, str, int | None], make_app: MakeApp, agent: Any
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, key)
        assert agent.held == []
        await press(pilot, "enter")
        await pilot.pause(0.1)
        assert agent.held == [held]


async def test_advice_is_applied_by_a_and_undrain_by_u(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "a")
        await pilot.pause(0.1)
        assert "advised 8 -> 9" in seen(app)
        await press(pilot, "escape", "u")
        await pilot.pause(0.1)
        assert agent.plans[-1].kind.value == "undrain"


async def test_an_alert_is_silenced_from_its_line(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "6", "z", "enter")
        await pilot.pause(0.1)
        assert agent.silences == [("replica-saturated", X2K)]


async def test_a_read_only_agent_gets_no_dialog(make_app: MakeApp, agent: Any) -> None:
    agent.world = replace(agent.world, snapshot=replace(agent.world.snapshot, can_act=False))
    app = make_app()
    async with running(app) as pilot:
        for key in ("s", "d", "u", "a", "P", "m"):
            await press(pilot, key)
            assert isinstance(app.screen, ConsoleScreen)
        assert "read-only" in seen(app)
        assert agent.plans == []


async def test_why_explains_and_help_lists_the_keys_in_force(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "y")
        assert isinstance(app.screen, PanelScreen)
        assert "because waiting 16 > 0" in seen(app)
        await press(pilot, "y", "question_mark")
        assert "THIS SCREEN" in seen(app)
        await press(pilot, *"drain")
        assert "search: drain" in seen(app) and "sort by" not in seen(app)
        await press(pilot, "escape", "escape")
        assert isinstance(app.screen, ConsoleScreen)


async def test_the_palette_offers_actions_and_replicas_and_nothing_forbidden(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Scale  (s)" in titles and f"Open {X2K}" in titles
        app.session.look = replace(app.session.look, read_only=True)
        assert "Scale  (s)" not in [command.title for command in app.get_system_commands(app.screen)]
        await press(pilot, "ctrl+p")
        await pilot.pause(0.1)
        assert isinstance(app.screen, CommandPalette)


async def test_time_travel_shows_the_past_and_comes_back(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "comma")
        await pilot.pause(0.1)
        assert "PAST 12:04:21" in seen(app) and " RO" in seen(app).splitlines()[0]
        await press(pilot, "less_than_sign")
        await pilot.pause(0.1)
        assert "PAST 12:04:20" in seen(app)
        await press(pilot, "L")
        await pilot.pause(0.1)
        assert "LIVE 12:04:31" in seen(app)


async def test_pause_holds_the_screen_while_the_world_goes_on(
    make_app: MakeApp, agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "p")
        agent.pushed.put_nowait(make_snapshot((), at=AT + 60, tick=67))
        await pilot.pause(0.1)
        assert "PAUSED 12:04:31" in seen(app) and "x2k" in seen(app)
        await press(pilot, "p")
        assert "x2k" not in seen(app).split("--[decisions")[0]


async def test_a_lost_agent_is_said_and_the_values_stay(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        agent.pushed.put_nowait(AgentUnavailable("No agent answers."))
        await pilot.pause(0.1)
        assert "LOST 12:04:31" in seen(app) and "x2k" in seen(app)


async def test_only_lines_that_changed_are_painted_again(
    make_app: MakeApp, agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    app = make_app()
    async with running(app):
        screen = app.console_screen
        assert screen is not None
        assert screen.draw() == 0
        snapshot = app.session.live.snapshot
        assert snapshot is not None
        grown = tuple(replace(r, running=9.0) if r.replica.endswith("aa1") else r for r in snapshot.replicas)
        app.session.live = replace(app.session.live, snapshot=replace(snapshot, replicas=grown))
        assert 1 <= screen.draw() <= 3  # the row, and the median under the table


async def test_resizing_at_any_moment_never_raises(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app, (160, 48)) as pilot:
        for size in ((1, 1), (80, 24), (60, 15), (200, 60), (3, 40), (140, 36), (2, 2)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await press(pilot, "s")
        for size in ((1, 1), (30, 8), (160, 48)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await press(pilot, "escape", "question_mark")
        for size in ((1, 1), (160, 48), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await press(pilot, "escape")
        assert "LIVE" in seen(app)


async def test_hostile_names_reach_no_markup_parser(
    make_app: MakeApp, agent: Any, make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    snapshot = agent.world.snapshot
    bad = "[/bold][red]\x1b[31m名前[/"
    replicas = tuple(replace(r, replica=bad + str(i), why=bad, error=bad) for i, r in enumerate(snapshot.replicas))
    agent.world = replace(agent.world, snapshot=replace(snapshot, replicas=replicas, fleet=bad))
    app = make_app()
    async with running(app) as pilot:
        for key in ("2", "3", "4", "5", "6", "1"):
            await press(pilot, key)
        await press(pilot, "y", "escape", "s")
        await pilot.pause(0.3)
        await press(pilot, "escape", "d")
        await pilot.pause(0.2)
        await press(pilot, "escape", "ctrl+p", *"open")
        await pilot.pause(0.3)
        await press(pilot, "escape", "question_mark", "escape")
        assert "[/bold]" in seen(app)


async def test_the_mouse_selects_and_opens_but_is_not_needed(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        screen = app.console_screen
        assert screen is not None
        y = next(y for y, name in screen.grid.frame.targets.items() if name.endswith("aa1"))
        await pilot.click(Grid, offset=(10, y))
        await pilot.pause()
        assert app.session.state.selected == "llama-8b-7d9-aa1"
        await pilot.click(Grid, offset=(10, y), times=2)
        await pilot.pause()
        assert app.session.state.page == "replica"


async def test_themes_go_round_and_keep_the_words(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        before = seen(app).splitlines()[5:12]
        for _ in range(5):
            await press(pilot, "T")
            assert seen(app).splitlines()[5:12] == before
        assert app.look_name == "dark"


async def test_ascii_draws_nothing_but_ascii(make_app: MakeApp) -> None:
    app = make_app(theme="mono", look=Look(glyphs=ASCII, zone=UTC, now=AT))
    async with running(app, (160, 48)) as pilot:
        for key in ("1", "2", "3", "4", "5", "6", "y"):
            await press(pilot, key)
            assert seen(app).isascii(), [c for c in seen(app) if not c.isascii()][:5]


async def test_an_export_is_a_picture_and_the_data_behind_it(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "x")
        await press(pilot, "x")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"opsconsole-fleet-120431{n}.{kind}" for n in ("-2", "") for kind in ("csv", "json", "svg")]
    data = json.loads((tmp_path / "opsconsole-fleet-120431.json").read_text())
    assert len(data["snapshot"]["replicas"]) == 8 and data["page"] == "fleet"
    sheet = list(csv.DictReader((tmp_path / "opsconsole-fleet-120431.csv").read_text().splitlines()))
    assert len(sheet) == 8 and {row["replica"]: row["que"] for row in sheet}[X2K] == "16"
    assert {row["replica"]: row["kv"] for row in sheet}["llama-8b-7d9-8f1"] == ""  # unknown is empty, never 0
    drawn = (tmp_path / "opsconsole-fleet-120431.svg").read_text()
    assert "<svg" in drawn and "url(http" not in drawn and 'url("http' not in drawn


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("export /nonexistent/x", "not written: there is no folder /nonexistent"),
        ("export .", "wrote opsconsole-fleet-120431.svg"),
        ("columns ,,,", "no column is named: replica, "),
        ("columns kv", "columns: kv"),
        ("wide", "more columns"),
    ],
)
async def test_a_commands_answer_is_at_the_foot_in_place_of_an_earlier_one(
    command: str, said: str, make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app()
    async with running(app) as pilot:
        for typed, words in (("sort zzz asc", "cannot sort by zzz"), (command, said)):
            await press(pilot, "colon", *({" ": "space"}.get(char, char) for char in typed), "enter")
            assert words in seen(app).splitlines()[-1], seen(app)


async def test_columns_by_their_key_are_answered_too(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "C", "comma", "comma", "enter")
        assert "no column is named" in seen(app).splitlines()[-1]
        await press(pilot, "C", "enter")
        assert "the layout's own columns" in seen(app).splitlines()[-1]


async def test_a_reader_in_a_browser_writes_no_files_on_the_server(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app()
    async with running(app) as pilot:
        monkeypatch.setattr(type(app), "is_web", property(lambda _: True))
        await press(pilot, "x")
        assert "writes no files here" in seen(app)
    assert list(tmp_path.iterdir()) == []


async def test_the_users_keys_replace_the_tables(make_app: MakeApp) -> None:
    app = make_app(look=Look(zone=UTC, now=AT, keys={"page_slo": ("S",)}))
    async with running(app) as pilot:
        await press(pilot, "S")
        assert app.session.state.page == "slo"
        await press(pilot, "1", "4")
        assert app.session.state.page == "fleet"


async def test_q_leaves_and_the_line_is_closed(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "q")
        await asyncio.sleep(0)
    assert agent.closed and app.return_value == 0


async def test_a_new_alert_rings_once_and_a_silenced_one_never(
    make_app: MakeApp, agent: Any, make_snapshot: Callable[..., FleetSnapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    rung: list[int] = []
    async with running(app):
        monkeypatch.setattr(app, "bell", lambda: rung.append(1))
        alert, silenced = agent.world.alerts
        for alerts in (
            (alert, silenced, replace(silenced, subject="other")),
            (alert, silenced, replace(alert, subject="new")),
            (alert, silenced, replace(alert, subject="new")),
        ):
            app.feed.world = replace(app.feed.world, alerts=alerts)
            app._world_changed()
    assert rung == [1]


async def test_a_console_told_to_be_quiet_rings_never(
    make_app: MakeApp, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(settings=TuiSettings(bell=False))
    rung: list[int] = []
    async with running(app):
        monkeypatch.setattr(app, "bell", lambda: rung.append(1))
        app.feed.world = replace(app.feed.world, alerts=(replace(agent.world.alerts[0], subject="new"),))
        app._world_changed()
    assert rung == []


async def test_keys_in_one_burst_reach_what_they_were_typed_for(make_app: MakeApp, agent: Any) -> None:
    app = make_app()
    async with running(app) as pilot:
        for key, char in (("slash", "/"), *((c, c) for c in "hot"), ("enter", None), ("y", "y")):
            app.post_message(events.Key(key, char))
        for _ in range(20):
            await pilot.pause()
        assert app.session.state.filter == "hot"
        assert isinstance(app.screen, PanelScreen)
