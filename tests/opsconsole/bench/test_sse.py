"""Events from bytes, however the network cuts them."""

from __future__ import annotations

import pytest

from opsconsole.bench.sse import SseParser

STREAM = 'data: {"a": "é"}\r\n\r\n: comment\n\nevent: x\ndata: one\ndata: two\n\ndata:[DONE]\n\n'.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_whole_whatever_the_pieces(size: int) -> None:
    parser = SseParser()
    found = [payload for start in range(0, len(STREAM), size) for payload in parser.feed(STREAM[start : start + size])]
    assert found == ['{"a": "é"}', "one\ntwo", "[DONE]"]


def test_an_event_without_its_blank_line_has_not_come() -> None:
    parser = SseParser()
    assert parser.feed(b"data: half") == []
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\n") == ["half"]
