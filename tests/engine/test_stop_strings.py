"""Stop strings over text in pieces: the same answer as over the whole."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.stop_strings import StopScanner


def scan(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    scanner = StopScanner(stops)
    text = ""
    for piece in pieces:
        found = scanner.push(piece)
        text += found.text
        if found.stop is not None:
            return text, found.stop
    return text + scanner.finish(), None


def test_a_stop_in_pieces_is_found_and_left_out() -> None:
    assert scan(["Hel", "lo\n", "\nUs", "er:"], ["\n\nUser:"]) == ("Hello", "\n\nUser:")


def test_what_only_looked_like_a_stop_is_sent() -> None:
    scanner = StopScanner(["END"])
    assert scanner.push("the E").text == "the "
    assert scanner.push("N").text == ""
    assert scanner.push("A").text == "ENA"


def test_the_match_that_is_complete_first_wins() -> None:
    assert scan(["abcdef"], ["ef", "cd"]) == ("ab", "cd")
    assert scan(["aa"], ["aa", "a"]) == scan(["a", "a"], ["aa", "a"]) == ("", "a")


def test_without_stops_text_passes_at_once() -> None:
    assert StopScanner([]).push("anything").text == "anything"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab", max_size=4), max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
@example(["a", "a", "b"], ["aab"])
def test_pieces_do_not_matter(pieces: list[str], stops: list[str]) -> None:
    whole, stop = "".join(pieces), None
    text, stop = scan(pieces, stops)
    if stop is None:
        assert text == whole and not any(s in whole for s in stops)
    else:
        assert whole.startswith(text + stop)
        assert not any(s in (text + stop)[:-1] for s in stops), "nothing had matched before"
