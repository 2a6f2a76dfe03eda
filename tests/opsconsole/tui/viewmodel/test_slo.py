"""The SLO screen: windows, budgets that run out, where requests miss, and the heat map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from opsconsole.domain.records import Buckets, BudgetView, Interval, LatencyView, ReplicaState, ReplicaView, SloView
from opsconsole.tui.cells import plain
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import heat, misses, objectives, slo
from opsconsole.tui.world import Look, World

NOW = 1_764_504_271.0


def text(lines: object) -> list[str]:
    return [plain(line).rstrip() for line in lines]  # type: ignore[attr-defined]


def missing(name: str, state: ReplicaState = ReplicaState.OK, met: float = 0.9, **facts: object) -> ReplicaView:
    base = ReplicaView(name, "chat", state, "", request_rate=10.0, attainment=Interval(met, met), started_at=NOW - 9e3)
    return replace(base, **facts)  # type: ignore[arg-type]


def test_one_window_at_80_columns_and_all_of_them_where_there_is_room(world: World, look: Look) -> None:
    assert world.snapshot is not None
    for window, title, share in (("now", "MET now", ">=96.8%"), ("short", "MET 5m", "93-95%"), ("long", "MET 1h", "%")):
        head, row = text(objectives.lines(world.snapshot, window, look, 80))[:2]
        assert title in head and share in row
    head = text(objectives.lines(world.snapshot, "now", look, 158))[0]
    assert all(title in head for title in ("MET now", "MET 5m", "MET 1h", "RUNS OUT", "STATE"))


@pytest.mark.parametrize(
    ("left_over", "burn", "said"),
    [(0.5, 2.0, "15m00s"), (0.5, 0.9, "-"), (0.0, 3.0, "spent"), (None, 2.0, "--"), (0.4, None, "--"),
     (0.4, math.nan, "--")],
)  # fmt: skip
def test_a_budget_runs_out_only_when_it_burns(left_over: float | None, burn: float | None, said: str) -> None:
    assert objectives.runs_out(SloView("a", burn_short=burn, budget_left=left_over)) == said


def test_windows_are_named_as_the_agent_has_them() -> None:
    slo_view = SloView("a", short_s=30.0, long_s=360.0)
    assert [objectives.window_word(slo_view, w) for w in ("now", "short", "long")] == ["now", "30s", "6m"]


def test_misses_are_divided_by_replica_state_and_phase() -> None:
    slow = missing(
        "a", ReplicaState.SATURATED, 0.5, ttft_ok=Interval(0.6, 0.6), tpot_ok=Interval(0.9, 0.9),
        ttft=LatencyView(p95=4.0), queue_time=LatencyView(p95=3.0),
    )  # fmt: skip
    young = missing("b", met=0.9, started_at=NOW - 60)
    fine = missing("c", met=1.0)
    assert misses.by_replica([slow, young, fine]) == {"a": 5.0, "b": pytest.approx(1.0)}
    assert misses.by_state([slow, young, fine], NOW) == {"saturated": 5.0, "cold start": pytest.approx(1.0)}
    assert misses.by_phase([slow]) == pytest.approx({"queue": 3.0, "prefill": 1.0, "decode": 1.0})


def test_only_the_sure_part_counts_and_unknown_is_no_miss(look: Look) -> None:
    bound = missing("a", attainment=Interval(0.7, 0.95))
    assert misses.lost(bound) == pytest.approx(0.5)
    assert misses.lost(missing("b", attainment=None)) == 0.0
    assert "nothing surely missed" in text(misses.lines([missing("c", met=1.0)], look.glyphs, NOW))[0]
    assert "no attainment" in text(misses.lines([missing("d", attainment=None)], look.glyphs, NOW))[0]


def test_no_queue_time_is_said_and_not_taken_for_none(look: Look) -> None:
    lines = text(misses.lines([missing("a", ttft_ok=Interval(0.5, 0.5))], look.glyphs, NOW))
    assert "no queue time is exported" in lines[1]


def histogram(*counts: float) -> Buckets:
    return Buckets((0.5, 1.0, 2.0, math.inf), counts)


def test_the_heat_map_has_the_slowest_on_top_and_names_the_objective(look: Look) -> None:
    moments = [(NOW - 60 + i, histogram(80, 90, 100, 100)) for i in range(60)]
    lines = text(heat.heat(moments, 1.0, 60, 6, look))
    labels = [line[:8].strip() for line in lines]
    assert labels.index("2s") < labels.index("slo 1s") < labels.index("500ms")
    assert "█" in lines[labels.index("500ms")] and "█" not in lines[labels.index("slo 1s")]


def test_a_heat_map_says_what_it_lacks_and_leaves_gaps(look: Look) -> None:
    assert "no histogram" in text(heat.heat([(NOW, None)], 1.0, 60, 6, look))[0]
    moments = [(NOW - 100, histogram(1, 2, 3, 4)), (NOW - 50, None), (NOW, histogram(1, 2, 3, 4))]
    assert " " * 10 in text(heat.heat(moments, 1.0, 60, 6, look))[0]
    other = [(NOW - 10, Buckets((9.0, math.inf), (1.0, 2.0))), (NOW, histogram(1, 2, 3, 4))]
    drawn = text(heat.heat(other, None, 60, 6, look))
    assert all(line.split("│")[-1].strip() for line in drawn)


@pytest.mark.parametrize("rows", [3, 4, 5, 20])
def test_few_rows_keep_the_objectives_edge(rows: int, look: Look) -> None:
    bounds = tuple(0.1 * 1.5**i for i in range(14))
    counts = tuple(float(10 * (i + 1)) for i in range(14))
    buckets = Buckets((*bounds, math.inf), (*counts, 150.0))
    lines = text(heat.heat([(NOW - 1, buckets), (NOW, buckets)], bounds[6], 50, rows, look))
    assert len(lines) <= rows and any("slo" in line for line in lines)


def test_the_cursor_walks_in_the_order_of_losses(world: World, look: Look) -> None:
    frame = slo.view(world, ViewState(page="slo", selected="llama-8b-7d9-x2k"), look, Size(160, 48))
    assert frame.order[:2] == ("llama-8b-7d9-x2k", "llama-8b-7d9-p4m")
    for y, name in frame.targets.items():
        assert name in plain(frame.lines[y])


def test_mouse_targets_are_where_the_rows_are_at_80x24(make_world: Callable[..., World], look: Look) -> None:
    frame = slo.view(make_world(), ViewState(page="slo", selected="llama-8b-7d9-x2k"), look, Size(80, 24))
    assert frame.targets
    for y, name in frame.targets.items():
        assert name in plain(frame.lines[y])


def test_the_knee_is_named_once_it_is_known(world: World, look: Look) -> None:
    assert world.snapshot is not None
    drawn = text(slo.goodput(world, world.snapshot, world.snapshot.pools[0], look, 120, 10))
    assert "lost 1.7 req/s: 5.1%" in drawn[-1] and "knee: capacity 6 x 4.0 = 23.8 req/s (learned)" in drawn[-1]
    unknown = replace(world, decisions=())
    drawn = text(slo.goodput(unknown, world.snapshot, world.snapshot.pools[0], look, 120, 10))
    assert "not known yet" in drawn[-1]


DAYS = 86_400.0


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (BudgetView("chat", "default", 0.98, 0.0, 30 * DAYS, 43_200, 4.12e7, Interval(0.9861, 0.9861),
                    Interval(0.305, 0.305)),
         "over 30d: 98.61% of 41M requests met, 30% of that budget left"),
        (BudgetView("chat", "default", 0.98, 0.0, 3.2 * DAYS, 4000, 900.0, Interval(0.97, 0.99), Interval(-0.5, 0.5)),
         "over 3d4h: 97-99% of 900 requests met, <=50% of that budget left"),
        (BudgetView("chat", "default", 1.0, 0.0, 3 * DAYS, 4000, 900.0, Interval(1.0, 1.0)),
         "over 3d0h: 100.00% of 900 requests met"),
        (BudgetView("chat", "default", 0.98, 0.0, 3600.0, 60, 900.0, Interval(1.0, 1.0), Interval(1.0, 1.0)), None),
        (BudgetView("other", "default", 0.98, 0.0, 30 * DAYS, 60, 900.0, Interval(1.0, 1.0), Interval(1.0, 1.0)), None),
    ],
)  # fmt: skip
def test_weeks_stand_under_their_objective_once_there_are_some(
    kept: BudgetView, said: str | None, world: World, look: Look
) -> None:
    assert world.snapshot is not None
    lines = text(objectives.lines(world.snapshot, "now", look, 80, (kept,)))
    assert [line.strip() for line in lines if "over " in line] == ([said] if said else [])
