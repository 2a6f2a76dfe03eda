"""What each screen looks like at each size, as pictures that a person has looked at.

`pytest --snapshot-update tests/opsconsole/tui/test_snapshots.py` writes them anew; look at the differences before
committing. The clock stands still and the zone is UTC. The trap: a picture holds colours too, so a change of a theme
changes every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from opsconsole.tui.actions import PAGES
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.theme import ASCII
from opsconsole.tui.world import Look

AT = 1_764_504_271.0
SIZES = ((80, 24), (160, 48), (60, 15))
Compare = Callable[..., bool]


def on(page: str, *keys: str) -> Callable[[Pilot[int]], Any]:
    """Wait until everything has arrived, then go to the page."""

    async def prepare(pilot: Pilot[int]) -> None:
        app: App[int] = pilot.app
        assert isinstance(app, ConsoleApp)
        for _ in range(400):
            await pilot.pause()
            if app.session.live.journal and app.session.live.decisions:
                break
        app.perform(f"page_{page}")
        for key in keys:
            await pilot.press(key)
        await pilot.pause(0.4 if keys else None)
        app.repaint()
        await pilot.pause()

    return prepare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("page", PAGES)
def test_each_screen_at_each_size(
    page: str, size: tuple[int, int], make_app: Callable[..., ConsoleApp], snap_compare: Compare
) -> None:
    assert snap_compare(make_app(), terminal_size=size, run_before=on(page))


@pytest.mark.parametrize("theme", ["mono", "light", "contrast", "cvd"])
def test_the_fleet_in_each_theme(theme: str, make_app: Callable[..., ConsoleApp], snap_compare: Compare) -> None:
    assert snap_compare(make_app(theme=theme), terminal_size=(80, 24), run_before=on("fleet"))


@pytest.mark.parametrize("page", PAGES)
def test_each_screen_in_ascii_without_colour(
    page: str, make_app: Callable[..., ConsoleApp], snap_compare: Compare
) -> None:
    app = make_app(theme="mono", look=Look(glyphs=ASCII, zone=UTC, now=AT))
    assert snap_compare(app, terminal_size=(80, 24), run_before=on(page))


@pytest.mark.parametrize("panel", ["heat", "demand"])
def test_one_panel_on_the_whole_screen(panel: str, make_app: Callable[..., ConsoleApp], snap_compare: Compare) -> None:
    page = {"heat": "slo", "demand": "decisions"}[panel]
    command = ("colon", *"maximise", "space", *panel, "enter")
    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=on(page, *command))


@pytest.mark.parametrize("keys", [("question_mark",), ("y",), ("s",), ("d",)], ids=["help", "why", "scale", "drain"])
def test_what_lies_over_the_fleet(
    keys: tuple[str, ...], make_app: Callable[..., ConsoleApp], snap_compare: Compare
) -> None:
    app = make_app(look=Look(zone=UTC, now=AT, production=("prod-*",)))
    assert snap_compare(app, terminal_size=(80, 24), run_before=on("fleet", *keys))
