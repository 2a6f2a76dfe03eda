"""The fleet screen says what it must, word for word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from opsconsole.domain.records import FleetSnapshot, HoldView, Interval, PoolView, ReplicaState, ReplicaView, SourceView
from opsconsole.tui.cells import plain
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import fleet
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.viewmodel.pages import VIEWS
from opsconsole.tui.world import Link, LinkState, Look, World

SMALL = Size(80, 24)


def text(frame: Frame) -> list[str]:
    return [plain(line).rstrip() for line in frame.lines]


def row_of(frame: Frame, name: str) -> str:
    return next(line for line in text(frame) if f"-{name} " in line)


def test_the_first_line_says_who_how_fresh_and_what_may_be_done(world: World, look: Look) -> None:
    first = text(fleet.view(world, ViewState(), look, SMALL))[0]
    for words in ("prod-eu", "LIVE 12:04:31", "src 7/8 1 stale", "ADVISE", "RW"):
        assert words in first


@pytest.mark.parametrize(("pool", "says"), [("", "PAUSED"), ("chat", "PAUSED"), ("other", "ADVISE")])
def test_the_first_line_says_when_somebody_has_paused_every_pool(
    pool: str, says: str, world: World, look: Look
) -> None:
    paused = replace(world, holds=(HoldView("pause", pool, "ann", 1.0),))
    first = text(fleet.view(paused, ViewState(), look, SMALL))[0]
    assert says in first and ("ADVISE" in first) == (says == "ADVISE")


def test_counts_wants_and_price_are_on_the_second_line(world: World, look: Look) -> None:
    second = text(fleet.view(world, ViewState(), look, SMALL))[1]
    for words in ("READY 6", "WARM 1", "DRAIN 1", "STALE 1", "DOWN 0", "want 9 (+1 in 00:42)", "22.4 $/h"):
        assert words in second


def test_the_objective_is_a_bound_where_only_a_bound_is_known(world: World, look: Look) -> None:
    third = text(fleet.view(world, ViewState(), look, Size(100, 24)))[2]
    assert "ttft<1s 97.2%" in third and "tpot<50ms 99.6%" in third
    assert "both >=96.8% of 98.0" in third
    assert "budget 41%" in third


def test_a_stale_row_keeps_its_last_values_with_a_question_mark(world: World, look: Look) -> None:
    row = row_of(fleet.view(world, ViewState(), look, SMALL), "dz9")
    assert "STALE" in row
    assert "0?" in row and "5?" in row and "31?" in row
    assert row.count("--") >= 4


def test_a_warming_row_shows_dashes_and_never_zeros(world: World, look: Look) -> None:
    row = row_of(fleet.view(world, ViewState(), look, SMALL), "8f1")
    assert "WARM" in row and "00:51" in row
    assert " 0 " not in row.replace("00:51", "")


def test_a_measured_zero_is_a_zero(world: World, look: Look) -> None:
    assert " 0.0 " in row_of(fleet.view(world, ViewState(), look, SMALL), "aa1")


def test_columns_do_not_jump_when_values_change(make_world: Callable[..., World], look: Look) -> None:
    calm, busy = make_world(), make_world()
    assert busy.snapshot is not None
    grown = tuple(replace(r, waiting=9999.0, preempt_rate=5.0) for r in busy.snapshot.replicas)
    busy = replace(busy, snapshot=replace(busy.snapshot, replicas=grown))
    places = [row_of(fleet.view(w, ViewState(sort="replica"), look, SMALL), "aa1").index("0.46s") for w in (calm, busy)]
    assert places[0] == places[1]


def test_a_line_that_was_lost_never_says_live(make_world: Callable[..., World], look: Look) -> None:
    lost = make_world(link=Link(LinkState.LOST, "/run/x", "the agent ended the stream", 0.0))
    first = text(fleet.view(lost, ViewState(), replace(look, now=look.now + 60), SMALL))[0]
    assert "LOST 12:04:31 (1m00s old)" in first
    assert "LIVE" not in first
    assert "RO" in first.split()


def test_a_stream_that_stands_still_is_called_late(world: World, look: Look) -> None:
    assert "LATE" in text(fleet.view(world, ViewState(), replace(look, now=look.now + 9), SMALL))[0]


def test_a_past_screen_says_past_and_offers_no_change(world: World, look: Look) -> None:
    lines = text(fleet.view(world, ViewState(at=look.now - 90), replace(look, now=look.now + 90), SMALL))
    assert "PAST 12:04:31 (-1m30s)" in lines[0]
    assert "RO" in lines[0].split()
    assert "scale" not in lines[-1]


def test_demo_and_production_are_shouted(make_world: Callable[..., World], look: Look) -> None:
    world = make_world()
    assert world.snapshot is not None
    demo = replace(world, snapshot=replace(world.snapshot, notes=("DEMO: synthetic",)))
    first = text(fleet.view(demo, ViewState(), replace(look, production=("prod-*",)), SMALL))[0]
    assert "DEMO" in first and "PROD" in first


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_trust_is_never_pushed_off_the_first_line(width: int, make_world: Callable[..., World], look: Look) -> None:
    world = make_world()
    assert world.snapshot is not None
    long = replace(world, snapshot=replace(world.snapshot, fleet="a-fleet-with-a-very-long-name-indeed" * 3))
    first = text(fleet.view(long, ViewState(), look, Size(width, 24)))[0]
    assert "LIVE 12:04:31" in first and "RW" in first


def test_decisions_and_what_fires_stand_under_the_table(world: World, look: Look) -> None:
    lines = text(fleet.view(world, ViewState(), look, SMALL))
    assert any("12:04:20 ADVISE  8->9" in line and "queue 27>24" in line for line in lines)
    assert any("12:01:05 HOLD    8" in line for line in lines)
    assert any(line.startswith(" ! ") and "x2k SAT for 3m10s" in line for line in lines)


def test_a_filter_without_a_match_says_how_to_leave_it(world: World, look: Look) -> None:
    lines = text(fleet.view(world, ViewState(filter="zzz"), look, SMALL))
    assert any("none of 8 replicas fits the filter; Esc clears it" in line for line in lines)
    assert "0 of 8, filter: zzz" in lines[4]


def test_an_empty_fleet_says_why_it_is_empty(make_world: Callable[..., World], look: Look) -> None:
    failing = SourceView("kubernetes", "kube", False, None, "forbidden: pods is forbidden", "auth")
    empty = FleetSnapshot(1, look.now, "f", "off", sources=(failing,))
    lines = text(fleet.view(make_world(snapshot=empty), ViewState(), look, SMALL))
    assert any("kubernetes: forbidden: pods is forbidden" in line for line in lines)


def test_nothing_connected_says_what_to_type_next(look: Look) -> None:
    lines = text(fleet.view(World(), ViewState(), look, SMALL))
    assert "NO AGENT" in lines[0]
    assert any("opsconsole up" in line for line in lines)
    assert any("opsconsole watch URL" in line for line in lines)


def test_a_small_terminal_still_shows_totals_and_the_worst(world: World, look: Look) -> None:
    lines = text(fleet.view(world, ViewState(), look, Size(40, 10)))
    assert "LIVE" in lines[0] and "READY 6" in lines[1]
    assert "SAT" in lines[3] and "x2k" in lines[3]
    assert any("5 more; 60x15 shows the list" in line for line in lines)


def test_chosen_columns_are_shown_in_their_order(world: World, look: Look) -> None:
    titles = text(fleet.view(world, ViewState(columns=("node", "replica", "out")), look, SMALL))[5]
    assert titles.split() == ["NODE", "REPLICA", "OUT", "t/s"]


def test_several_pools_are_summed_but_their_latencies_are_not(make_world: Callable[..., World], look: Look) -> None:
    world = make_world()
    assert world.snapshot is not None
    second = PoolView("code", waiting=5.0, ready=2)
    two = replace(world, snapshot=replace(world.snapshot, pools=(*world.snapshot.pools, second)))
    lines = text(fleet.view(two, ViewState(), look, Size(100, 40)))
    assert "QUEUE 27" in lines[3]
    assert "SLO chat" in lines[2]
    total = next(line for line in lines if "ALL 8" in line)
    assert "s" not in total.replace("ALL", "").replace("/s", "")


def test_a_row_is_where_the_mouse_thinks_it_is(world: World, look: Look) -> None:
    for size in (SMALL, Size(160, 48), Size(60, 15)):
        frame = fleet.view(world, ViewState(), look, size)
        for y, name in frame.targets.items():
            assert name.rsplit("-", 1)[-1] in plain(frame.lines[y])


def test_unknown_kv_has_no_bar(
    make_world: Callable[..., World], make_replica: Callable[..., ReplicaView], look: Look
) -> None:
    world = make_world()
    assert world.snapshot is not None
    nan = make_replica("nan", ReplicaState.OK, "", kv_usage=None, waiting=1.0)
    row = row_of(
        fleet.view(replace(world, snapshot=replace(world.snapshot, replicas=(nan,))), ViewState(), look, SMALL), "nan"
    )
    assert "█" not in row and "--" in row


@pytest.mark.parametrize("size", [Size(30, 10), Size(45, 12), Size(64, 20), Size(80, 24), Size(160, 48)])
@pytest.mark.parametrize("page", sorted(VIEWS))
def test_what_is_not_the_present_says_so_on_every_screen_however_narrow(
    page: str, size: Size, make_world: Callable[..., World], make_snapshot: Callable[..., FleetSnapshot], look: Look
) -> None:
    replayed = make_world(snapshot=make_snapshot(notes=("REPLAY of evening.rec, 1x",)))
    first = text(VIEWS[page](replayed, ViewState(page=page, selected="llama-8b-7d9-x2k"), look, size))[0]
    assert "REPLAY" in first, first
    past = ViewState(page=page, selected="llama-8b-7d9-x2k", at=1_764_504_271.0)
    assert "PAST 12:04:31" in text(VIEWS[page](make_world(), past, look, size))[0]


def test_the_screens_one_came_through_stand_before_the_title_where_there_is_room(world: World, look: Look) -> None:
    state = ViewState(page="slo", before=("fleet", "decisions"))
    assert "fleet > decisions > SLO" in text(VIEWS["slo"](world, state, look, Size(160, 48)))[0]
    assert " SLO " in text(VIEWS["slo"](world, state, look, SMALL))[0]


def test_better_and_worse_than_five_minutes_ago_are_marked(
    world: World, look: Look, make_world: Callable[..., World]
) -> None:
    assert world.snapshot is not None
    now = world.snapshot.pools[0]
    then = replace(now, slos=(replace(now.slos[0], ttft_ok=Interval(0.99, 0.99), tpot_ok=Interval(0.95, 0.95)),))
    old = replace(world.snapshot, replicas=(), at=world.snapshot.at - 320, pools=(then,))
    third = text(fleet.view(make_world(history=(old,)), ViewState(), look, Size(110, 24)))[2]
    assert "97.2%\N{BLACK DOWN-POINTING TRIANGLE}" in third and "99.6%\N{BLACK UP-POINTING TRIANGLE}" in third
    gone = replace(old, at=world.snapshot.at - 3600)
    third = text(fleet.view(make_world(history=(gone,)), ViewState(), look, Size(110, 24)))[2]
    assert "\N{BLACK DOWN-POINTING TRIANGLE}" not in third
