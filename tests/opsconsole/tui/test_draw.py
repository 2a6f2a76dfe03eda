"""Sparklines, bars, charts: a gap is a gap and a zero is a zero."""

from __future__ import annotations

from opsconsole.tui import draw
from opsconsole.tui.cells import Cell, line_width, plain
from opsconsole.tui.theme import ASCII, BLOCK


def test_a_sparkline_shows_missing_values_as_gaps() -> None:
    assert draw.spark([0, None, 8], 3, BLOCK) == "▁·█"
    assert draw.spark([0, None, 8], 3, ASCII) == "_ #"


def test_a_sparkline_is_filled_from_the_right() -> None:
    assert draw.spark([8], 4, BLOCK) == "···█"


def test_many_values_are_averaged_into_the_columns() -> None:
    assert draw.resample([0, 2, 4, 6], 2) == [1, 5]
    assert draw.resample([None, None, 4, float("nan")], 2) == [None, 4]


def test_a_bar_is_drawn_in_eighths_and_says_nothing_of_the_unknown() -> None:
    assert draw.bar(0.5, 4, BLOCK) == "██  "
    assert draw.bar(0.53, 4, BLOCK) == "██▏ "
    assert draw.bar(None, 4, BLOCK) == "    "
    assert draw.bar(7.0, 4, BLOCK) == "████"
    assert set(draw.bar(0.5, 8, ASCII)) <= {"#", "-", " "}


def test_a_frame_is_exactly_as_large_as_asked() -> None:
    for cells, rows in ((1, 1), (3, 2), (4, 3), (30, 5)):
        lines = draw.framed("a title that is long", [(Cell("body"),)], cells, rows, BLOCK)
        assert len(lines) == rows
        assert {line_width(line) for line in lines} == {cells}


def test_blocks_of_different_heights_stand_side_by_side() -> None:
    lines = draw.beside([(Cell("ab"),)], [(Cell("c"),), (Cell("d"),)])
    assert [plain(line) for line in lines] == ["abc", "  d"]


def test_a_chart_has_its_scale_and_keeps_gaps() -> None:
    lines = [plain(line) for line in draw.area([None, 5.0, 10.0], 8, 2, BLOCK, 0.0, 10.0)]
    assert lines[0].startswith("  10┤")
    assert lines[1].startswith("   0┤·")
    assert lines[1].rstrip().endswith("██")


def test_a_chart_of_all_there_is_is_filled_by_few_values_too() -> None:
    assert draw.stretched([1.0, None, 3.0], 6) == [1.0, 1.0, None, None, 3.0, 3.0]
    assert draw.stretched([1.0], 3) == [None, None, 1.0]
    assert draw.stretched([0, 2, 4, 6], 2) == [1, 5]
    lines = [plain(line) for line in draw.area([10.0, 5.0], 9, 2, BLOCK, 0.0, 10.0, spans=True)]
    assert [line.rstrip() for line in lines] == ["  10┤██", "   0┤████"]


def test_a_plot_joins_points_and_breaks_at_the_unknown() -> None:
    plot = draw.Plot(10, 4, 0.0, 10.0, 0.0, 4.0)
    plot.points([(0.0, 1.0), (5.0, 1.0), (6.0, None), (9.0, 1.0)], "*", "spark")
    row = next(plain(line) for line in plot.lines() if "*" in plain(line))
    assert row == "******   *"


def test_what_lies_outside_a_plot_is_not_drawn() -> None:
    plot = draw.Plot(5, 2, 0.0, 1.0, 0.0, 1.0)
    plot.points([(5.0, 0.5), (0.5, 9.0)], "*", "spark")
    assert "*" not in "".join(plain(line) for line in plot.lines())
