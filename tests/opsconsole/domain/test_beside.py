"""Events of a stream: written and read back, however the bytes are cut."""

from __future__ import annotations

import pytest

from opsconsole.domain.beside import TOPICS, EventReader, event

STREAM = (event("alerts", '[{"rule":"ä"}]') + event("", '{"tick":1}') + event("", '{"tick":2}')).encode()
WHOLE = [("alerts", '[{"rule":"ä"}]'), ("", '{"tick":1}'), ("", '{"tick":2}')]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_wherever_the_bytes_are_cut(size: int) -> None:
    reader = EventReader()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [found for piece in pieces for found in reader.feed(piece)] == WHOLE


def test_an_event_is_told_when_it_is_whole_and_not_before() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data: 1\n")) == []
    assert list(reader.feed(b"\ndata: 2")) == [("", "1")]


def test_what_carries_no_data_is_passed_over() -> None:
    assert list(EventReader().feed(b": a comment\n\nevent: alerts\n\ndata:x\n\n")) == [("", "x")]


def test_a_tick_has_no_name_and_every_topic_has_one() -> None:
    assert event("", "1") == "data: 1\n\n" and event("holds", "[]") == "event: holds\ndata: []\n\n"
    assert all(TOPICS) and "journal" in TOPICS
