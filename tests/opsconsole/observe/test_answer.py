"""An HTTP answer read in pieces: the same whatever the pieces, what h11 reads of it, and never a guess."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.observe.answer import HEAD_MOST, Answer, BadAnswer

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;ext=1\r\nhel\r\n2 \r\nlo\r\n0\r\nX-After: 1\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN
CLOSING = b"HTTP/1.1 200 OK\r\n\r\nhello"
WHOLE = (PLAIN, CHUNKED, CONTINUED, CLOSING)


def fed(*pieces: bytes, ended: bool = False) -> Answer:
    answer = Answer()
    for piece in pieces:
        answer.feed(piece)
    if ended:
        answer.ended()
    return answer


def body(answer: Answer) -> bytes:
    return b"".join(answer.pieces)


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 200), max_size=8))
@settings(max_examples=60, deadline=None)
def test_the_pieces_in_which_it_comes_do_not_matter(text: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    answer = fed(*(text[a:b] for a, b in pairwise(places)), ended=True)
    assert (answer.status, answer.reason, body(answer), answer.is_done) == (200, "OK", b"hello", True)
    assert all(answer.pieces), "an empty piece is the end to who reads it"


def test_a_head_that_comes_alone_brings_no_piece() -> None:
    assert [fed(text[: text.index(b"\r\n\r\n") + 4]).pieces for text in (PLAIN, CHUNKED, CLOSING)] == [[], [], []]


@pytest.mark.parametrize("text", WHOLE)
def test_h11_reads_the_same(text: bytes) -> None:
    oracle = h11.Connection(h11.CLIENT)
    oracle.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    oracle.send(h11.EndOfMessage())
    oracle.receive_data(text)
    oracle.receive_data(b"")
    events = iter(oracle.next_event, h11.NEED_DATA)
    status, data = 0, b""
    for event in events:
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            data += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
    answer = fed(text, ended=True)
    assert (answer.status, body(answer)) == (status, data)


@given(st.binary(max_size=200), st.sampled_from((b"", b"HTTP/1.1 200 OK\r\n", CHUNKED[:50])))
@settings(max_examples=60, deadline=None)
def test_no_bytes_do_anything_but_be_read_or_be_refused(data: bytes, begin: bytes) -> None:
    answer = Answer()
    try:
        answer.feed(begin + data)
    except BadAnswer:
        return
    assert answer.status == 0 or 200 <= answer.status <= 999


def test_a_connection_can_be_asked_again_only_where_the_end_was_told_and_nobody_closes() -> None:
    assert fed(PLAIN).is_reusable and fed(CHUNKED).is_reusable
    assert not fed(CLOSING, ended=True).is_reusable
    assert not fed(PLAIN.replace(b"Content-Type: text/plain", b"Connection: close")).is_reusable
    assert not fed(PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0")).is_reusable
    kept = PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Content-Type: text/plain", b"Connection: Keep-Alive")
    assert fed(kept).is_reusable
    assert not fed(PLAIN + b"more").is_reusable
    assert not fed(PLAIN, b"HTTP/1.1 408 Request Timeout\r\n\r\n").is_reusable


def test_an_end_before_its_time_is_no_end() -> None:
    assert not fed(PLAIN[:-1]).ended()
    assert not fed(CHUNKED[:-2]).ended()
    assert not fed(PLAIN[:20]).ended()
    assert fed(CLOSING).ended()


def test_a_body_whose_end_only_the_connection_tells_is_not_framed() -> None:
    assert fed(PLAIN).is_framed and fed(CHUNKED).is_framed
    assert not fed(CLOSING, ended=True).is_framed


def test_headers_are_found_by_any_case_and_told_twice_are_joined() -> None:
    answer = fed(b"HTTP/1.1 200 OK\r\nX-One:  a \r\nx-ONE: b\r\nEmpty:\r\nContent-Length: 0\r\n\r\n")
    assert answer.headers["x-one"] == "a, b"
    assert answer.headers["empty"] == ""
    assert answer.is_done and answer.length == 0


def test_bare_line_ends_are_line_ends() -> None:
    assert body(fed(PLAIN.replace(b"\r\n", b"\n"))) == b"hello"
    assert body(fed(CHUNKED.replace(b"\r\n", b"\n"))) == b"hello"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body_whatever_they_say(status: bytes) -> None:
    answer = fed(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
    assert answer.is_done and not answer.pieces


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", id="another protocol"),
        pytest.param(b"\x15\x03\x01\x00\x02", id="TLS"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 2xx OK\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n", id="no header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", id="a folded header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", id="a blank before the colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", id="no such length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", id="a coding not asked for"),
        pytest.param(CHUNKED.replace(b"3;ext=1", b"0x3"), id="no size of a chunk"),
        pytest.param(CHUNKED.replace(b"3;ext=1", b"2"), id="a chunk longer than it says"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"a" * HEAD_MOST, id="an endless head"),
        pytest.param(CHUNKED.replace(b";ext=1", b";" + b"e" * HEAD_MOST), id="an endless line between chunks"),
    ],
)
def test_what_cannot_be_read_without_guessing_is_refused(text: bytes) -> None:
    with pytest.raises(BadAnswer):
        fed(text)
    with pytest.raises(BadAnswer):
        fed(*(text[i : i + 50] for i in range(0, len(text), 50)))


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD + b"1\r\na\r\n" * 40_000, id="a chunk for every byte"),
        pytest.param(HEAD + b"0\r\n" + b"x: y\r\n" * 40_000, id="trailers without end"),
        pytest.param(HEAD + b"5" + b" " * (HEAD_MOST + 1), id="a size without end"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000, id="hints without end"),
    ],
)
def test_what_surrounds_a_body_has_bounds_too(text: bytes) -> None:
    """Read in pieces of a quarter of a megabyte, as they come; work in the square of that would stop everybody."""
    with pytest.raises(BadAnswer):
        fed(*(text[i : i + 2**18] for i in range(0, len(text), 2**18)))


def test_a_page_sent_line_by_line_in_chunks_is_read() -> None:
    lines = [b'vllm:generation_tokens_total{engine="%d"} 1\n' % n for n in range(20_000)]
    text = HEAD + b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"
    answer = fed(*(text[i : i + 2**18] for i in range(0, len(text), 2**18)))
    assert answer.is_done and answer.is_reusable and body(answer) == b"".join(lines)
