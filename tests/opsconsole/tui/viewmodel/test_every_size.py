"""Every screen has an answer for every size, every kind of fleet and every kind of name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.domain.records import FleetSnapshot, PoolView, ReplicaState, ReplicaView
from opsconsole.tui.actions import PAGES
from opsconsole.tui.cells import line_width, plain
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.theme import ASCII
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.viewmodel.pages import VIEWS
from opsconsole.tui.world import Link, LinkState, Look, World

NASTY = (
    "[/] [bold red]markup[/bold red]", "\x1b[31mescape\x1b[0m", "tab\there", "new\nline", "名前-模型-八",
    "e\u0301\u0301combining",
    "\u202ereversed", "zero\u200bwidth\u200d", "\U0001f9ea\U0001f468\u200d\U0001f469\u200d\U0001f467", "", "x" * 300,
    "\u0301start", "nul\x00",
)  # fmt: skip
SIZES = [(1, 1), (2, 1), (1, 40), (7, 3), (30, 10), (59, 14), (60, 15), (80, 24), (99, 30), (100, 40), (140, 36), (160,
48),
         (300, 100), (500, 200)]  # fmt: skip
LOOK = Look(zone=UTC, now=1_764_504_271.4)


def check(frame: Frame, size: Size) -> None:
    assert len(frame.lines) == size.height
    for line in frame.lines:
        assert line_width(line) == size.width, repr(plain(line))
        assert not any(ord(char) < 32 or ord(char) == 0x7F for char in plain(line)), repr(plain(line))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_a_frame_is_exactly_as_large_as_the_terminal(page: str, size: tuple[int, int], world: World) -> None:
    state = ViewState(page=page, selected="llama-8b-7d9-p4m", marks=frozenset({"llama-8b-7d9-q8t"}))
    check(VIEWS[page](world, state, LOOK, Size(*size)), Size(*size))
    check(VIEWS[page](world, state, replace(LOOK, glyphs=ASCII), Size(*size)), Size(*size))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("link", list(LinkState))
def test_a_screen_without_data_says_so_at_any_size(page: str, link: LinkState) -> None:
    for size in SIZES:
        frame = VIEWS[page](
            World(Link(link, "/run/x.sock", "connection refused", 5.0)), ViewState(page=page), LOOK, Size(*size)
        )
        check(frame, Size(*size))


@pytest.mark.parametrize("page", PAGES)
def test_names_from_outside_never_move_a_column(
    page: str, make_world: Callable[..., World], make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    replicas = tuple(
        ReplicaView(
            name, "[pool]", list(ReplicaState)[i % 7], f"why {name}", model=name, node=name, error=name, url=name
        )
        for i, name in enumerate(NASTY)
    )
    snapshot = make_snapshot(replicas, fleet="[/fleet]\x1b[0m", pools=(PoolView("[pool]", "[/model]"),))
    world = make_world(snapshot=snapshot)
    for size in SIZES:
        for name in NASTY[:4]:
            check(VIEWS[page](world, ViewState(page=page, selected=name), LOOK, Size(*size)), Size(*size))


@settings(max_examples=60, deadline=None)
@given(
    page=st.sampled_from(PAGES),
    width=st.integers(1, 220),
    height=st.integers(1, 70),
    count=st.sampled_from([0, 1, 3, 500]),
    unknown=st.booleans(),
    group=st.sampled_from(["none", "state", "node"]),
)
def test_any_fleet_fits_any_terminal(page: str, width: int, height: int, count: int, unknown: bool, group: str) -> None:
    value = None if unknown else float("nan") if count == 3 else 0.5
    replicas = tuple(
        ReplicaView(f"r{i}", "p", list(ReplicaState)[i % 7], "why", kv_usage=value, waiting=value, running=value)
        for i in range(count)
    )
    snapshot = FleetSnapshot(1, 100.0, "f", "act", replicas, (PoolView("p"),) if count else ())
    world = World(Link(LinkState.LIVE), snapshot, 100.0)
    state = ViewState(page=page, selected="r1", group=group)
    check(VIEWS[page](world, state, LOOK, Size(width, height)), Size(width, height))


def test_a_thousand_rows_cost_only_the_rows_in_view(make_world: Callable[..., World]) -> None:
    replicas = tuple(ReplicaView(f"r{i:04}", "p", ReplicaState.OK, "", waiting=float(i)) for i in range(1000))
    world = make_world(snapshot=FleetSnapshot(1, 100.0, "f", "act", replicas, (PoolView("p"),)))
    frame = VIEWS["fleet"](world, ViewState(selected="r0999", sort="replica"), LOOK, Size(80, 24))
    assert "r0999" in "\n".join(plain(line) for line in frame.lines)
    assert len(frame.order) == 1000
    assert len(frame.targets) < 24
