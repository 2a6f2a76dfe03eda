"""Every action of the table, typed at the real application: its key does what the table says, and none is left out.

It must not know how an action is carried out, only what a user sees of it. The trap: an action without a key is typed
after `:`, with an argument where it takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

from opsconsole.tui import actions
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.screens.console import ConsoleScreen
from opsconsole.tui.screens.dialog import ChangeScreen
from opsconsole.tui.screens.panel import PanelScreen
from opsconsole.tui.widgets.grid import Grid
from opsconsole.tui.widgets.prompt import Prompt
from opsconsole.tui.world import Look

X2K, DZ9, BC7 = ("llama-8b-7d9-" + tail for tail in ("x2k", "dz9", "bc7"))
MakeApp = Callable[..., ConsoleApp]
Check = Callable[[ConsoleApp, Any], object]


@dataclass(frozen=True)
class Effect:
    """What is typed before the key, on which screen, and what must hold afterwards."""

    check: Check
    page: str = "fleet"
    before: tuple[str, ...] = ()
    line: str = ""  # typed after `:` instead of the key


def text(app: ConsoleApp) -> str:
    return app.screen.query_one(Grid).text()


def state(name: str, value: object) -> Check:
    return lambda app, agent: getattr(app.session.state, name) == value


def dialog(kind: str) -> Check:
    def check(app: ConsoleApp, agent: Any) -> bool:
        return isinstance(app.screen, ChangeScreen) and app.screen.change.kind == kind and not agent.intents

    return check


def panel(words: str) -> Check:
    return lambda app, agent: isinstance(app.screen, PanelScreen) and words in text(app)


def says(words: str) -> Check:
    return lambda app, agent: words in app.session.state.message


EFFECTS: dict[str, Effect] = {
    "open": Effect(state("page", "replica")),
    "filter": Effect(lambda app, _: app.screen.query_one(Prompt).kind == "filter"),
    "sort": Effect(state("sort", "replica")),
    "reverse": Effect(state("reverse", True)),
    "wide": Effect(state("wide", True)),
    "columns": Effect(lambda app, _: app.screen.query_one(Prompt).kind == "columns"),
    "group": Effect(state("group", "pool")),
    "mark": Effect(state("marks", frozenset({X2K}))),
    "unmark": Effect(state("marks", frozenset()), before=("space", "space")),
    "bare": Effect(lambda app, _: app.session.state.bare and "Demand" not in text(app)),
    "window": Effect(lambda app, _: app.session.state.window == "short" and "MET 5m" in text(app), "slo"),
    "series": Effect(says("demand in requests/s"), "decisions"),
    "horizon": Effect(state("horizon", 900.0), "decisions"),
    "metrics": Effect(panel("kv_capacity_tokens"), "replica"),
    "logs": Effect(panel(f"{X2K} started"), "replica"),
    "next": Effect(state("selected", DZ9), "replica"),
    "previous": Effect(state("selected", BC7), "replica"),
    "silence": Effect(dialog("silence"), "events"),
    "mute": Effect(dialog("mute"), "events"),
    "maintenance": Effect(dialog("maintenance")),
    "apply": Effect(dialog("scale")),
    "scale": Effect(dialog("scale")),
    "drain": Effect(dialog("drain")),
    "undrain": Effect(dialog("undrain")),
    "pause_scaling": Effect(dialog("pause")),
    "pin": Effect(dialog("pin")),
    "up": Effect(state("selected", X2K), before=("down",)),
    "down": Effect(state("selected", DZ9)),
    "page_up": Effect(state("selected", X2K), before=("pagedown",)),
    "page_down": Effect(state("selected", BC7)),
    "first": Effect(state("selected", X2K), before=("end",)),
    "last": Effect(state("selected", BC7)),
    **{f"page_{name}": Effect(state("page", name), "slo" if name != "slo" else "fleet") for name in actions.PAGES},
    "events": Effect(state("page", "events")),
    "command": Effect(lambda app, _: app.screen.query_one(Prompt).kind == "command"),
    "palette": Effect(lambda app, _: isinstance(app.screen, CommandPalette)),
    "why": Effect(panel("because waiting 16 > 0")),
    "pause": Effect(lambda app, _: app.session.state.paused and "PAUSED" in text(app)),
    "step_back": Effect(lambda app, _: "PAST 12:04:21" in text(app)),
    "step_forward": Effect(lambda app, _: "PAST 12:04:21" in text(app), before=("comma", "comma")),
    "earlier_decision": Effect(lambda app, _: "PAST 12:04:20" in text(app)),
    "later_decision": Effect(says("this is the newest decision")),
    "live": Effect(lambda app, _: "LIVE" in text(app), before=("comma",)),
    "at": Effect(lambda app, _: "PAST 12:01:00" in text(app), line="at 12:01"),
    "maximise": Effect(lambda app, _: app.session.state.maximised == "demand" and "1 of" in text(app)),
    "record": Effect(says("started without a recorder")),
    "copy": Effect(says("copied through the terminal")),
    "export": Effect(says("wrote ")),
    "theme": Effect(lambda app, _: app.look_name == "light"),
    "glyphs": Effect(lambda app, _: app.session.look.glyphs.name == "ascii", line="glyphs ascii"),
    "help": Effect(panel("THIS SCREEN")),
    "back": Effect(state("page", "fleet"), "slo"),
    "last_page": Effect(state("page", "slo"), before=("4", "5")),
    "quit": Effect(lambda app, agent: app.return_value == 0),
}


def test_every_action_is_tried_here() -> None:
    assert set(EFFECTS) == set(actions.BY_ID)


async def type_it(pilot: Pilot[int], app: ConsoleApp, action: actions.Action, effect: Effect) -> None:
    for _ in range(200):
        await pilot.pause()
        if app.session.live.journal and app.session.live.decisions:
            break
    app.perform(f"page_{effect.page}")
    for key in (*effect.before, *([":"] if effect.line else ())):
        await pilot.press("colon" if key == ":" else key)
        await pilot.pause(0.05)
    for key in (*effect.line.replace(" ", "~"), "enter") if effect.line else (action.keys[0],):
        await pilot.press({"~": "space", ":": "colon"}.get(key, key))
    await pilot.pause(0.1)
    await pilot.pause()


@pytest.mark.parametrize("name", sorted(EFFECTS))
async def test_its_key_does_what_it_says(
    name: str, make_app: MakeApp, agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    action, effect = actions.BY_ID[name], EFFECTS[name]
    app = make_app(look=Look(zone=UTC))
    size = (160, 48) if name in ("bare", "maximise") else (80, 24)
    async with app.run_test(size=size) as pilot:
        await type_it(pilot, app, action, effect)
        assert effect.check(app, agent), (app.session.state, text(app) if app.screen.query(Grid) else "")


@pytest.mark.parametrize("name", sorted(a.id for a in actions.ACTIONS if a.mutates))
async def test_what_changes_the_fleet_opens_nothing_when_read_only(name: str, make_app: MakeApp, agent: Any) -> None:
    app = make_app(look=Look(zone=UTC, read_only=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await type_it(pilot, app, actions.BY_ID[name], EFFECTS[name])
        assert isinstance(app.screen, ConsoleScreen) and "read-only" in app.session.state.message
        assert not agent.plans and not agent.silences and not agent.held
