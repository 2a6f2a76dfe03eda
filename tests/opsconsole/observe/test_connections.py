"""Connections that are kept: asked again, given up where they are no good, and never more at a time than allowed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from opsconsole.observe.connections import KEPT_S, UNREAD_MOST, Connections, Place
from opsconsole.observe.resolving import Resolver

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CUT = OK[:-1]  # after which the server hangs up
Serve = Callable[[int, int], bytes | None]  # number of the connection, of its request -> answer; None hangs up


class Server:
    """Answers by a rule, and counts connections and how many are open at a time."""

    def __init__(self, rule: Serve) -> None:
        self.rule, self.connections, self.asked, self.open, self.most = rule, 0, 0, 0, 0
        self.writers: list[asyncio.StreamWriter] = []
        self.release = asyncio.Event()
        self.release.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.connections += 1
        number, turn = self.connections, 0
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                turn, self.asked, self.open = turn + 1, self.asked + 1, self.open + 1
                self.most = max(self.most, self.open)
                await self.release.wait()
                self.open -= 1
                answer = self.rule(number, turn)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if answer is CUT:
                    break
        writer.close()


@asynccontextmanager
async def serving(rule: Serve, most: int = 100) -> AsyncIterator[tuple[Server, Connections, Place]]:
    def no_tls() -> None:
        raise AssertionError("no TLS here")

    made = Server(rule)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    connections = Connections(no_tls, most)  # type: ignore[arg-type]
    try:
        yield made, connections, Place("127.0.0.1", server.sockets[0].getsockname()[1], False)
    finally:
        await connections.close()
        server.close()
        await server.wait_closed()
        for writer in made.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def asked(connections: Connections, place: Place) -> bytes:
    connection = await connections.ask(place, REQUEST)
    try:
        data = b""
        while piece := await connection.read():
            data += piece
        return data
    finally:
        connections.release(connection)


async def test_one_connection_serves_one_request_after_another() -> None:
    async with serving(lambda *_: OK) as (server, connections, place):
        assert [await asked(connections, place) for _ in range(3)] == [b"ok"] * 3
        assert (server.connections, server.asked) == (1, 3)


async def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async with serving(lambda *_: OK) as (server, connections, place):
        await asyncio.gather(*(asked(connections, place) for _ in range(5)))
        await asyncio.gather(*(asked(connections, place) for _ in range(5)))
        assert server.connections == 5


async def test_not_more_are_asked_at_a_time_than_allowed() -> None:
    async with serving(lambda *_: OK, most=3) as (server, connections, place):
        await asyncio.gather(*(asked(connections, place) for _ in range(12)))
        assert server.most <= 3 and server.asked == 12


async def test_a_server_that_hangs_up_on_a_kept_connection_is_asked_over_a_new_one() -> None:
    async with serving(lambda number, turn: None if (number, turn) == (1, 2) else OK) as (server, connections, place):
        assert await asked(connections, place) == b"ok"
        assert await asked(connections, place) == b"ok"
        assert server.connections == 2


async def test_a_server_that_gave_up_waiting_just_while_it_is_asked_is_asked_over_a_new_connection() -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with serving(lambda number, turn: late if (number, turn) == (1, 2) else OK) as (server, connections, place):
        assert [await asked(connections, place) for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 2
    async with serving(lambda *_: late) as (server, connections, place):
        assert (await asked(connections, place), server.connections) == (b"", 1), "of a new one it is the answer"


async def test_a_server_that_hangs_up_on_every_new_connection_has_failed() -> None:
    async with serving(lambda *_: None) as (server, connections, place):
        with pytest.raises(ConnectionError):
            await asked(connections, place)
        assert server.connections == 1


async def test_a_kept_connection_that_breaks_off_within_its_answer_has_failed() -> None:
    async with serving(lambda _, turn: OK if turn == 1 else CUT) as (server, connections, place):
        assert await asked(connections, place) == b"ok"
        with pytest.raises(ConnectionError):
            await asked(connections, place)
        assert server.asked == 2, "half an answer is the server's failure and not asked for again"
        assert await asked(connections, place) == b"ok"
        assert server.connections == 2, "what broke is not kept"


async def test_an_answer_that_is_given_up_takes_its_connection_along() -> None:
    async with serving(lambda *_: OK) as (server, connections, place):
        await asked(connections, place)
        server.release.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asked(connections, place)
        server.release.set()
        assert await asked(connections, place) == b"ok"
        assert server.connections == 2, "the late answer must not be taken for the next one's"


async def test_what_a_server_says_unasked_ends_the_connection() -> None:
    async with serving(lambda number, _: OK + (b"and more" if number == 1 else b"")) as (server, connections, place):
        assert [await asked(connections, place) for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 2


async def test_a_body_that_is_not_read_stops_coming() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 2**25 + b"a" * 2**25
    async with serving(lambda *_: page) as (_, connections, place):
        connection = await connections.ask(place, REQUEST)
        for _ in range(200):
            await asyncio.sleep(0)
        held = sum(map(len, connection.answer.pieces))
        assert held <= UNREAD_MOST + 2**18
        size = 0
        while piece := await connection.read():
            size += len(piece)
        connections.release(connection)
        assert size == 2**25


async def test_a_replica_that_is_asked_no_more_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(lambda *_: OK) as (first, connections, place), serving(lambda *_: OK) as (_, _, other):
        await asked(connections, place)
        loop = asyncio.get_running_loop()
        later = loop.time() + KEPT_S + 1
        monkeypatch.setattr(loop, "time", lambda: later)
        await asked(connections, other)
        monkeypatch.undo()
        await asked(connections, place)
        assert first.connections == 2


async def test_of_several_addresses_of_a_name_the_one_that_answers_is_asked() -> None:
    async with serving(lambda *_: OK) as (server, _, place):
        resolver = Resolver(lambda host, port: ("127.0.0.2", "127.0.0.1"))
        connections = Connections(lambda: ssl.create_default_context(), 10, resolver)
        try:
            assert await asked(connections, place._replace(host="engine")) == b"ok"
        finally:
            await connections.close()
        assert server.connections == 1
