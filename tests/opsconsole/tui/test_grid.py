"""The widget that draws: what it sends again, and what a line is made of."""

from __future__ import annotations

import pytest

from opsconsole.tui.cells import Cell, Line, line_width
from opsconsole.tui.widgets import grid


@pytest.mark.parametrize(
    ("before", "after", "columns"),
    [
        ((Cell("aaa"), Cell("bb"), Cell("cc")), (Cell("aaa"), Cell("xx"), Cell("cc")), (3, 5)),
        ((Cell("aaa"), Cell("bb")), (Cell("xaa"), Cell("bb")), (0, 3)),
        ((Cell("名"), Cell("b")), (Cell("名"), Cell("c")), (2, 3)),
        ((Cell("aa"), Cell("aa"), Cell("b")), (Cell("aa"), Cell("aa"), Cell("aa")), (4, 6)),
        ((), (Cell("new"),), (0, 3)),
        ((Cell("a", "OK"),), (Cell("a", "SAT"),), (0, 1)),
        pytest.param((Cell("a"), Cell("end")), (Cell("a"), Cell("   "), Cell("end")), (1, 7), id="after a resize"),
    ],
)
def test_only_the_columns_that_differ_are_sent_again(before: Line, after: Line, columns: tuple[int, int]) -> None:
    assert grid.changed_columns(before, after, line_width(after)) == columns


def test_neighbours_of_one_look_are_one_segment() -> None:
    line = (Cell("1", "text"), Cell(" ", "dim"), Cell("2", "text"), Cell("x", "SAT"), Cell("  ", "text"))
    assert [segment.text for segment in grid._strip(line, "dark")] == ["1 2", "x  "]


def test_a_blank_under_a_selection_is_not_joined_to_one_outside() -> None:
    line = (Cell("a", "text"), Cell(" ", "text|sel"), Cell("b", "text|sel"))
    assert [segment.text for segment in grid._strip(line, "dark")] == ["a", " b"]
    assert [segment.text for segment in grid._strip(line, "mono")] == ["a", " b"]
