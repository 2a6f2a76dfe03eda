"""What is sent to a terminal: after every patch it shows the frame, and little more than what changed was sent."""

from __future__ import annotations

from random import Random

import pytest
from rich.style import Style

from opsconsole.tui.cells import Cell, Line, fit, plain
from opsconsole.tui.widgets.paint import Ink, Painter, spans
from tests.bench.tui_screen import Screen

WORDS = ("", " ", "a", "LIVE", "名前", "e\u0301", "x" * 12, "99%")
INKS = {
    "text": Ink.of(Style.parse("#ffffff on #000000"), "truecolor"),
    "bad": Ink.of(Style.parse("bold #ff0000 on #000000"), "truecolor"),
    "sel": Ink.of(Style.parse("reverse #ffffff on #000000"), "truecolor"),
    "dim": Ink.of(Style.parse("#808080 on #000000"), "truecolor"),
}


def some_line(draw: Random, across: int) -> Line:
    cells = [Cell(draw.choice(WORDS), draw.choice(list(INKS))) for _ in range(draw.randrange(14))]
    return fit(cells, across, "")


def nearly(line: Line, draw: Random) -> Line:
    """The same line with a few cells of the same width that say something else."""
    return tuple(Cell(c.text[::-1], c.style) if c.text.isascii() and draw.random() < 0.3 else c for c in line)


@pytest.mark.parametrize("seed", range(8))
def test_after_every_patch_the_terminal_shows_the_frame(seed: int) -> None:
    draw, across, down = Random(seed), 40, 6
    screen = Screen(across, down, lambda _: None)
    painter = Painter(INKS.__getitem__)
    frame: list[Line] = [()] * down
    for _ in range(30):
        after = [nearly(line, draw) if line and draw.random() < 0.6 else some_line(draw, across) for line in frame]
        changes = [(y, frame[y], line) for y, line in enumerate(after) if line != frame[y]]
        for _ in screen.feed(painter.patch(changes, across).encode()):
            pass
        frame = after
        shown = [line.replace("e\u0301", "e").rstrip() for line in map(plain, frame)]
        assert screen.text() == "\n".join(shown)


def test_only_the_cells_that_differ_are_sent_and_near_ones_in_one_go() -> None:
    before = tuple(Cell(word) for word in ("name   ", "1", " ", "2", " ", "equal and long", "3"))
    after = tuple(Cell(word) for word in ("name   ", "7", " ", "8", " ", "equal and long", "9"))
    found = [(x, plain(cells)) for x, cells in spans(before, after, 26)]
    assert found == [(7, "7 8"), (25, "9")]


def test_cells_of_other_widths_are_sent_from_the_first_that_differs() -> None:
    before, after = (Cell("ab"), Cell("cd"), Cell("e")), (Cell("ab"), Cell("c"), Cell("de"))
    assert [(x, plain(cells)) for x, cells in spans(before, after, 5)] == [(2, "cde")]


def test_a_line_that_went_is_wiped() -> None:
    assert [(x, plain(cells)) for x, cells in spans((Cell("gone"),), (), 8)] == [(0, " " * 8)]


def test_of_a_style_only_what_changes_is_sent() -> None:
    assert INKS["text"].after(None) == "\x1b[0;38;2;255;255;255;48;2;0;0;0m"
    assert INKS["dim"].after(INKS["text"]) == "\x1b[38;2;128;128;128m"
    assert INKS["bad"].after(INKS["dim"]) == "\x1b[0;1;38;2;255;0;0;48;2;0;0;0m"
    assert INKS["dim"].after(INKS["dim"]) == ""


def test_a_blank_keeps_the_colour_it_stands_in_where_nobody_sees_it() -> None:
    line = (Cell("a", "text"), Cell(" ", "dim"), Cell("b", "text"), Cell(" ", "sel"))
    sent = Painter(INKS.__getitem__).patch([(0, (), line)], 4)
    assert "a b" in sent and sent.endswith(" \x1b[0m") and "\x1b[0;7;" in sent


@pytest.mark.parametrize(
    ("system", "front"),
    [("truecolor", "38;2;255;0;0"), ("256", "38;5;196"), ("standard", "31"), (None, "38;2;255;0;0")],
)
def test_colours_are_as_many_as_the_terminal_has(system: str | None, front: str) -> None:
    ink = Ink.of(Style.parse("#ff0000"), system)
    assert (ink.front, ink.back, ink.marks) == (front, "49", "")
