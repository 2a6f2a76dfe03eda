"""Real servers on loopback in a thread of their own, for commands that bring their own event loop."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.opsconsole.observe.conftest import Misbehaving, serving

Start = Callable[..., Misbehaving]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(certificate)` gives a misbehaving server, with TLS when there is a certificate; they end with the test."""
    ends: list[Callable[[], None]] = []

    def started(certificate: tuple[Path, Path] | None = None) -> Misbehaving:
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
        handler, ready, loop = Misbehaving(), threading.Event(), asyncio.new_event_loop()
        stop = asyncio.Event()

        async def run() -> None:
            async with serving(handler, context) as url:
                handler.url = url
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
        thread.start()
        assert ready.wait(20)

        def end() -> None:
            loop.call_soon_threadsafe(stop.set)
            thread.join(20)
            loop.close()

        ends.append(end)
        return handler

    yield started
    for end in ends:
        end()


@pytest.fixture
def misbehaving(start: Start) -> Misbehaving:
    return start()
