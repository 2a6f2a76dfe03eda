"""Widths, cutting and cleaning: what keeps a terminal's columns where they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.tui.cells import Cell, clean, cut, fit, left, line_width, plain, right, spread, tail, whole, width, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain-name", "plain-name"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("a\x1b[31mb", "a�[31mb"),
        ("a\tb\nc", "a b c"),
        ("a\u200db\u202ec", "abc"),
        ("\u0301x", " \u0301x"),
        ("\x9bx", "�x"),
    ],
)
def test_data_text_is_made_harmless_and_stays_readable(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_wide_character_is_never_cut_in_half() -> None:
    assert cut("名前", 3) == "名"
    assert left("名前", 3) == "名~"
    assert right("名", 4) == "  名"


def test_a_long_name_keeps_the_end_that_tells_it_apart() -> None:
    assert tail("prod-llama-8b-7d9-x2k", 10) == "..-7d9-x2k"
    assert tail("short", 10) == "short     "


def test_the_right_side_wins_when_there_is_no_room() -> None:
    line = spread((Cell("a long identity"),), (Cell("LOST"),), 8)
    assert plain(line) == "a l~LOST"
    assert plain(spread((Cell("x"),), (Cell("LOST 12:04:31"),), 4)) == "LOST"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.integers(0, 40))
def test_whatever_comes_in_takes_exactly_the_cells_it_was_given(text: str, cells: int) -> None:
    shown = clean(text)
    for padded in (left(shown, cells), right(shown, cells), tail(shown, cells)):
        assert width(padded) == cells
    assert line_width(fit((Cell(shown), Cell(shown)), cells)) == cells


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80), st.integers(1, 20))
def test_wrapped_lines_fit_and_lose_no_word(text: str, cells: int) -> None:
    shown = clean(text)
    lines = wrap(shown, cells)
    assert all(width(line) <= max(cells, 2) for line in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())


@pytest.mark.parametrize(
    ("cells", "shown"), [(9, "a word an"), (8, "a word ~"), (7, "a word "), (5, "a wo~"), (1, "a"), (0, "")]
)
def test_words_that_are_cut_say_so(cells: int, shown: str) -> None:
    assert plain(fit((Cell("a "), Cell("word "), Cell("an  ")), cells)) == shown


@pytest.mark.parametrize(
    ("cells", "shown"), [(20, "one two three"), (8, "one two"), (5, "one"), (9, "one three"), (1, "one")]
)
def test_parts_of_a_line_are_shown_entire_or_not_at_all(cells: int, shown: str) -> None:
    parts = [[Cell("one")], [Cell(" two" if cells != 9 else " twenty")], [Cell(" three")]]
    assert plain(whole(parts, cells)) == shown
