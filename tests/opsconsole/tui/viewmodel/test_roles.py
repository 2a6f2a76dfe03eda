"""Prefill and decode: what part of a request a replica serves, and how long the two halves take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from opsconsole.domain.records import Buckets, FleetSnapshot, Interval, ReplicaState, ReplicaView, Sample
from opsconsole.tui.cells import plain
from opsconsole.tui.filters import compile_filter
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import about, fleet, rows, why
from opsconsole.tui.viewmodel.pages import VIEWS
from opsconsole.tui.world import Look, World

ROLES = {"x2k": "prefill", "p4m": "decode"}


@pytest.fixture
def parted(world: World) -> World:
    """The world with the first two replicas serving a part of every request each."""
    snapshot = world.snapshot
    assert snapshot is not None
    named = tuple(replace(r, role=ROLES.get(r.replica.rsplit("-", 1)[-1])) for r in snapshot.replicas)
    return replace(world, snapshot=replace(snapshot, replicas=named))


@pytest.mark.parametrize("size", [Size(80, 24), Size(120, 30), Size(160, 48)])
def test_roles_have_a_column_where_there_are_any(size: Size, world: World, parted: World, look: Look) -> None:
    def lines(of: World) -> list[str]:
        return [plain(line) for line in fleet.view(of, ViewState(), look, size).lines]

    assert not any("ROLE" in line for line in lines(world))
    assert any("ST    ROLE" in line for line in lines(parted))
    assert any("-x2k " in line and "prefill" in line for line in lines(parted))


def test_rows_are_grouped_and_filtered_by_role(parted: World) -> None:
    assert parted.snapshot is not None
    found = rows.rows(parted.snapshot, ViewState(group="role"), 0.0)
    assert [row.heading for row in found if row.replica is None] == ["role prefill", "role --", "role decode"]
    assert [r.role for r in filter(compile_filter("role:dec"), parted.snapshot.replicas)] == ["decode"]


def test_a_replicas_own_screen_says_its_role(parted: World, look: Look) -> None:
    state = ViewState(page="replica", selected=rows.names(rows.rows(parted.snapshot, ViewState(), 0.0))[0])  # type: ignore[arg-type]
    second = plain(VIEWS["replica"](parted, state, look, Size(160, 48)).lines[1])
    assert "prefill  http://" in second


def test_the_two_halves_of_a_request_are_told_apart_where_the_page_has_them(
    make_replica: Callable[..., ReplicaView], make_snapshot: Callable[..., FleetSnapshot]
) -> None:
    page = Sample("a", 1.0, prefill_time=Buckets((0.1, 0.2, math.inf), (50.0, 100.0, 100.0)))
    replica = make_replica("a", ReplicaState.OK, "fine", sample=page)
    table = [plain(line) for line in about.latency_table(replica, make_snapshot(), phases=True)]
    assert [line for line in table if line.startswith(" prefill")] == [
        " prefill    0.10s    0.19s    0.20s   since its start"
    ]
    assert not any("decode" in line for line in table)
    assert not any("prefill" in plain(line) for line in about.latency_table(replica, make_snapshot()))


@pytest.mark.parametrize(
    ("outcomes", "met", "words"),
    [
        ({"chat/met": 9.0}, Interval(0.9, 0.9), "exact: the engine counts"),
        ({"chat/met": 9.0}, None, "nothing ended in the window"),
        (None, Interval(0.9, 0.9), "exact: TTFT and TPOT leave no doubt"),
        (None, Interval(0.8, 0.9), "a bound: the engine exports TTFT and TPOT apart"),
        (None, None, "no objective, or no requests in the window"),
    ],
)
def test_why_says_how_the_share_is_known(
    outcomes: dict[str, float] | None, met: Interval | None, words: str, world: World, look: Look,
    make_replica: Callable[..., ReplicaView],
) -> None:  # fmt: skip
    page = Sample("a", 1.0, slo_outcomes=outcomes)
    replica = make_replica("a", ReplicaState.OK, "fine", sample=page, attainment=met)
    said = "\n".join(plain(line) for line in why.of_replica(replica, world, look, 100))
    assert words in said
