"""No number, name or lack of one keeps a screen from being drawn: everything a foreign agent could send, on every page.

It must not know what is drawn. The trap: records hold None for unknown, but an agent of another version may send NaN
or an infinity, and a screen is the last place where that may matter.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView
from opsconsole.tui.cells import line_width, plain
from opsconsole.tui.layout import Size
from opsconsole.tui.session import Session
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import advice, why
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.viewmodel.maximised import PANELS
from opsconsole.tui.viewmodel.page_text import lines as page_lines
from opsconsole.tui.viewmodel.pages import VIEWS, view
from opsconsole.tui.viewmodel.sheets import sheet
from opsconsole.tui.world import Look, World

SIZES = (Size(1, 1), Size(60, 15), Size(80, 24), Size(160, 48))
TIMES = {
    "at",
    "made_at",
    "since",
    "started_at",
    "start_since",
    "decided_at",
    "due_at",
    "last_at",
    "seen_at",
    "received_at",
}
CLOCK = {*TIMES, "now", "interval", "until", "expected_ready_at", "silenced_until"}


def poisoned(value: Any, with_what: float | None, name: str = "") -> Any:
    """The same record with every optional number replaced; times of day stay, for they place everything."""
    if isinstance(value, float) and name not in CLOCK:
        return with_what
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {}
        for field in dataclasses.fields(value):
            held = getattr(value, field.name)
            may_be_none = "None" in str(field.type) or with_what is not None
            if may_be_none and field.init:
                changes[field.name] = poisoned(held, with_what, field.name)
        return dataclasses.replace(value, **changes)
    if isinstance(value, tuple):
        return tuple(poisoned(item, with_what, name) for item in value)
    if isinstance(value, Mapping):
        return {key: poisoned(item, with_what, name) for key, item in value.items()}
    return value


def check(frame: Frame, size: Size) -> None:
    assert len(frame.lines) == size.height
    for line in frame.lines:
        assert line_width(line) == size.width, repr(plain(line))
        assert not re.search(r"\b(nan|inf)\b|pnan|pinf", plain(line)), plain(line)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300])
def test_no_number_keeps_a_screen_from_being_drawn(poison: float, world: World, look: Look) -> None:
    sick = dataclasses.replace(
        world,
        snapshot=poisoned(world.snapshot, poison),
        history=tuple(poisoned(old, poison) for old in world.history),
        forecasts=poisoned(world.forecasts, poison),
        decisions=poisoned(world.decisions, poison),
        alerts=poisoned(world.alerts, poison),
        prefixes=poisoned(world.prefixes, poison),
    )
    assert sick.snapshot is not None
    sick.trends.add(dataclasses.replace(sick.snapshot, at=look.now + 1))
    for page in VIEWS:
        for panel in ("", *PANELS.get(page, ())):
            state = ViewState(page=page, selected="llama-8b-7d9-x2k", maximised=panel)
            for size in SIZES:
                check(view(sick, state, look, size), size)
    replica = sick.snapshot.replicas[0]
    why.of_replica(replica, sick, look, 80)
    page_lines(replica, "now")
    advice.sentences(replica, sick.snapshot, sick)


def test_everything_unknown_is_dashes_on_every_screen(world: World, look: Look) -> None:
    empty = dataclasses.replace(
        world, snapshot=poisoned(world.snapshot, None), history=(), forecasts=(), decisions=(), journal=(), alerts=(),
        prefixes=(), findings=(),
    )  # fmt: skip
    for page in VIEWS:
        for panel in ("", *PANELS.get(page, ())):
            state = ViewState(page=page, selected="llama-8b-7d9-x2k", maximised=panel)
            for size in SIZES:
                check(view(empty, state, look, size), size)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_any_number_of_replicas(count: int, make_snapshot: Callable[..., FleetSnapshot], look: Look) -> None:
    replicas = tuple(
        ReplicaView(f"名前-{i}[/]", "chat", list(ReplicaState)[i % 7], "", waiting=float(i)) for i in range(count)
    )
    world = World(snapshot=make_snapshot(replicas))
    for page in VIEWS:
        for panel in ("", *PANELS.get(page, ())):
            state = ViewState(page=page, selected=replicas[-1].replica if replicas else None, maximised=panel)
            for size in SIZES:
                check(view(world, state, look, size), size)


def test_a_sheet_holds_raw_numbers_and_no_formula(
    make_snapshot: Callable[..., FleetSnapshot], make_world: Callable[..., World], look: Look
) -> None:
    from opsconsole.clock import ManualClock

    replica = ReplicaView("=cmd()", "chat", ReplicaState.OK, "", waiting=math.nan, kv_usage=0.5, node="-1", gpu="@x")
    session = Session(ManualClock(look.now), look)
    session.live = make_world(snapshot=make_snapshot((replica,)))
    titles, row = sheet(session)
    told = dict(zip(titles, row, strict=True))
    assert (told["replica"], told["que"], told["kv"], told["gpu"]) == ("'=cmd()", "", "0.5", "'@x")
    assert told["node"] == "-1" and told["state"] == "OK"
    session.change(page="events")
    rows = sheet(session)
    assert rows[0][0] == "at" and len(rows) == 1 + len(session.live.alerts) + len(session.live.journal)
