"""The screen that key presses are timed on shows what a terminal would, whatever the pieces it is fed in."""

from __future__ import annotations

import pytest

from tests.bench.tui_screen import HAS_FRAMES, Screen

FRAME = "\x1b[?2026h\x1b[2;3Hr\N{LATIN SMALL LETTER E WITH ACUTE}q \N{CJK UNIFIED IDEOGRAPH-4E2D}\x1b[0m!\x1b[?2026l"


def fed(*pieces: bytes, width: int = 12, height: int = 4) -> tuple[Screen, int, list[bytes]]:
    """A screen after some bytes, how many frames it saw, and what it said."""
    said: list[bytes] = []
    screen = Screen(width, height, said.append)
    return screen, sum(1 for piece in pieces for _ in screen.feed(piece)), said


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_frame_reads_the_same_in_pieces_of_any_size(size: int) -> None:
    data = FRAME.encode()
    screen, _, _ = fed(*(data[at : at + size] for at in range(0, len(data), size)))
    assert screen.text() == "\n  r\N{LATIN SMALL LETTER E WITH ACUTE}q \N{CJK UNIFIED IDEOGRAPH-4E2D}!\n\n"


def test_a_frame_ends_where_the_program_says_so() -> None:
    screen = Screen(8, 1, lambda answer: None)
    states = [screen.column(0) for _ in screen.feed(b"\x1b[?2026h\x1b[1;1Ha\x1b[?2026l\x1b[?2026h\x1b[1;1Hb")]
    assert states == ["a"] and screen.column(0) == "b"
    assert [screen.column(0) for _ in screen.feed(b"\x1b[?2026l")] == ["b"]


def test_a_program_that_asks_for_frames_is_told_yes() -> None:
    assert fed(b"\x1b[?2026$p")[2] == [HAS_FRAMES]


def test_what_does_not_mark_frames_is_looked_at_after_every_read() -> None:
    assert fed(b"ab", b"c")[1] == 2


def test_moves_erasing_and_strings_for_the_terminal() -> None:
    screen, _, _ = fed(b"\x1b]0;title\x07\x1b(Babcd\r\n12\x1b[Ax\x1b[2D\x1b[Ky\x1b[4;2Hz\x1b[1;31;48;5;7m")
    assert screen.text() == "ay\n12\n\n z"
    assert fed(b"abc\x1b[2J\x1b[Hd")[0].text() == "d\n\n\n"


def test_bytes_that_are_no_sequence_do_not_hold_up_the_rest() -> None:
    screen, _, _ = fed(b"\x1b\xff" + b"x" * 40 + b"\x1b[1;1Hok", width=60)
    assert screen.text().startswith("ok")
