"""A stream read from a socket: whole chunks, refusals left to others, and ends that are told apart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opsconsole.client.socket_stream import opened

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def answering(path: Path, *pieces: bytes) -> AsyncIterator[list[bytes]]:
    """A server that sends these pieces one by one and hangs up; what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield asked


async def test_chunks_come_whole_however_they_were_sent(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sent = (HEAD[:30], HEAD[30:] + b"5\r\nhe", b"llo\r\n3;x=y\r\n", b"abc\r\n0\r\n\r\n")
    async with answering(path, *sent) as asked, opened(str(path), "/v1/stream", {"who": "ann"}, 3.0) as pieces:
        assert pieces is not None and [piece async for piece in pieces] == [b"hello", b"abc"]
    assert asked == [b"GET /v1/stream HTTP/1.1\r\nhost: agent\r\nwho: ann\r\n\r\n"]


@pytest.mark.parametrize("head", [b"HTTP/1.1 503 No\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"])
async def test_what_is_no_stream_is_left_to_others(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "s"
    async with answering(path, head), opened(str(path), "/", {}, 3.0) as pieces:
        assert pieces is None


@pytest.mark.parametrize("rest", [b"", b"5\r\nhe", b"junk\r\n", b"FFFFFFFF\r\n"])
async def test_an_end_within_a_piece_is_an_error(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "s"
    async with answering(path, HEAD, b"1\r\nx\r\n" + rest), opened(str(path), "/", {}, 3.0) as pieces:
        assert pieces is not None and await anext(pieces) == b"x"
        with pytest.raises(ConnectionError):
            await anext(pieces)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200"])
async def test_who_says_nothing_in_http_is_an_error(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "s"
    async with answering(path, head):
        with pytest.raises(ConnectionError, match="HTTP"):
            async with opened(str(path), "/", {}, 3.0):
                pass


async def test_where_nobody_listens_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        async with opened(str(tmp_path / "nobody"), "/", {}, 3.0):
            pass
