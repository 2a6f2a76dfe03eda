"""The console in a browser, over a real socket: what it serves, to whom, to how many, and that it changes nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from opsconsole.clock import SystemClock
from opsconsole.commands.web import web
from opsconsole.errors import UsageError
from tests.opsconsole.commands.webs import consoles, run_web, serving

pytest.importorskip("textual_serve", reason="textual-serve is not installed: pip install 'opsconsole[web]'")
CLOCK = SystemClock()
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving("--demo", sessions=1) as chosen:
        yield chosen


@asynccontextmanager
async def page(port: int, path: str = "/", **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    """What a request gets, once the server accepts connections."""
    end = CLOCK.monotonic() + 20
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as answer:
                    yield answer
                    return
            except aiohttp.ClientConnectorError:
                assert CLOCK.monotonic() < end
                await CLOCK.sleep(0.05)


@asynccontextmanager
async def seat(
    session: aiohttp.ClientSession, address: str, **headers: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A reader's place; the one before may take a moment to leave it, as its process has to end first."""
    end = CLOCK.monotonic() + 20
    while True:
        try:
            reader = await session.ws_connect(address, headers=headers)
        except aiohttp.WSServerHandshakeError as busy:
            assert busy.status == 503 and CLOCK.monotonic() < end
            await CLOCK.sleep(0.1)
            continue
        async with reader:
            yield reader
        return


async def until(reader: aiohttp.ClientWebSocketResponse, *words: str) -> None:
    """Read the screen until each word was on it. One limit for all: a server's pings begin a receive's own anew."""
    seen = ""
    async with asyncio.timeout(40):
        while not all(word in seen for word in words):
            message = await reader.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, f"{message} after {seen[-2000:]}"
            seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", message.data.decode("utf-8", "replace"))


async def test_the_page_and_its_script_are_served_and_nothing_is_asked_of_other_hosts(port: int) -> None:
    async with page(port) as answer:
        text = await answer.text()
        assert answer.status == 200 and f"ws://127.0.0.1:{port}/ws" in text
        policy = answer.headers["Content-Security-Policy"]
        assert set(re.findall(r"\w+://[^\s;]+", policy)) == {f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{port}"}
    async with page(port, "/static/js/textual.js") as answer:
        assert answer.status == 200


def test_it_listens_on_loopback_alone(port: int) -> None:
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    assert [place for place in listening if place.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
    wildcard = f"{'0' * 32}:{port:04X}"
    tcp6 = Path("/proc/net/tcp6")
    assert not tcp6.exists() or wildcard not in tcp6.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.7", "::", "console.example"])
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="no log-in"):
        web(attach="", demo=True, host=host, port=8899, sessions=1, theme="")


def test_a_port_in_use_is_said_in_a_sentence(port: int) -> None:
    with run_web("--demo", "--port", str(port)) as second:
        assert second.wait(timeout=20) == 2
        assert second.stdout is not None and "choose another with --port" in second.stdout.read()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8899"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/", "/ws"])
async def test_pages_of_other_sites_get_nothing(port: int, path: str, headers: dict[str, str]) -> None:
    async with page(port, path, **headers) as answer:
        assert answer.status == 403


async def test_a_console_that_dies_closes_its_readers_page_and_gives_the_place_back(port: int) -> None:
    address = f"ws://127.0.0.1:{port}/ws?width=80&height=24"
    async with page(port), aiohttp.ClientSession() as session, asyncio.timeout(60):
        async with seat(session, address) as reader:
            await until(reader, "DEMO")
            (console,) = consoles(port)
            os.kill(console, signal.SIGKILL)
            while (await reader.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
            assert reader.closed
        async with seat(session, address) as reader:
            await until(reader, "DEMO")


async def test_a_reader_sees_the_fleet_changes_nothing_and_is_one_of_few(port: int) -> None:
    async with page(port), aiohttp.ClientSession() as session:
        address = f"ws://127.0.0.1:{port}/ws?width=80&height=24"
        async with seat(session, address, Origin=f"http://127.0.0.1:{port}") as reader:
            await until(reader, "DEMO", "LIVE", "RO")
            await reader.send_json(["stdin", "s"])
            await until(reader, "this console is read-only")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(address)
            assert refused.value.status == 503
        async with seat(session, address) as reader:
            await until(reader, "DEMO")
