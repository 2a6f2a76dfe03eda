"""Which rows are shown, in what order, and when they stand still."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import rows
from opsconsole.tui.world import World

NOW = 1_764_504_271.4


def order(world: World, **choices: object) -> list[str]:
    assert world.snapshot is not None
    found = rows.rows(world.snapshot, ViewState().having(**choices), NOW)
    return [row.replica.replica.rsplit("-", 1)[-1] if row.replica else f"#{row.heading}" for row in found]


def test_the_most_urgent_row_is_first_and_ties_go_to_who_misses_most(world: World) -> None:
    assert order(world) == ["x2k", "dz9", "p4m", "q8t", "8f1", "ee4", "aa1", "bc7"]


@pytest.mark.parametrize(
    ("choices", "first"),
    [
        ({"sort": "kv"}, "x2k"),
        ({"sort": "kv", "reverse": True}, "ee4"),
        ({"sort": "slo"}, "x2k"),
        ({"sort": "out"}, "bc7"),
        ({"sort": "replica"}, "8f1"),
        ({"sort": "que", "reverse": True}, "aa1"),
    ],
)
def test_a_column_sorts_in_its_useful_direction(choices: dict[str, object], first: str, world: World) -> None:
    assert order(world, **choices)[0] == first


@pytest.mark.parametrize("reverse", [False, True])
def test_the_unknown_comes_last_in_both_directions(reverse: bool, world: World) -> None:
    assert set(order(world, sort="ttft", reverse=reverse)[-2:]) == {"dz9", "8f1"}


def test_rows_stand_still_while_the_cursor_moves(world: World) -> None:
    assert world.snapshot is not None
    kept = tuple(reversed([r.replica for r in world.snapshot.replicas]))
    assert order(world, order=kept, frozen_until=NOW + 1)[0] == "8f1"
    assert order(world, order=kept, frozen_until=NOW - 1)[0] == "x2k"


def test_a_new_row_joins_a_frozen_list_at_its_end(world: World) -> None:
    kept = ("llama-8b-7d9-bc7", "llama-8b-7d9-x2k")
    assert order(world, order=kept, frozen_until=NOW + 1)[:2] == ["bc7", "x2k"]


def test_groups_stand_where_their_worst_row_would(world: World) -> None:
    assert order(world, group="state")[:3] == ["#state SAT", "x2k", "#state STALE"]


def test_the_cursor_stops_at_the_ends() -> None:
    assert rows.moved(("a", "b", "c"), "c", 5) == "c"
    assert rows.moved(("a", "b", "c"), "b", -9) == "a"
    assert rows.moved(("a", "b"), "gone", 1) == "a"
    assert rows.moved((), "a", 1) is None


def test_the_median_leaves_the_unknown_out(
    make_snapshot: Callable[..., FleetSnapshot], make_replica: Callable[..., ReplicaView]
) -> None:
    fleet = [make_replica(str(i), ReplicaState.OK, "", waiting=value) for i, value in enumerate((1.0, None, 3.0))]
    assert rows.middle(fleet, "que") == 2.0
    assert rows.middle([], "que") is None
