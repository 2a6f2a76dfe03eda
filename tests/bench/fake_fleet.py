"""Fake replicas for benchmarks of monitors: a port each, one process for all, a real page of vLLM that keeps moving.

It must not know who reads. The traps: counters only ever rise, or every reader would see restarts; and an answer is
made once a second for all replicas, so that the fleet's own work does not crowd out what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import gzip
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from opsconsole.clock import SystemClock

PAGE = Path(__file__).parents[1] / "data" / "pages" / "vllm-0.32.0-served.txt"
MODEL = "meta-llama/Llama-3.1-70B-Instruct-quantised"  # a name of usual length makes the page the usual 65 KB
GAUGES = MappingProxyType({"num_requests_running": 7, "num_requests_waiting": 3})
LINE = re.compile(r"(vllm:(\w+)\{[^}]*\}) (\S+)")
CLOCK = SystemClock()


def page(second: int) -> bytes:
    """The page of one second: gauges go up and down, counters and buckets up."""

    def moved(line: re.Match[str]) -> str:
        series, name, value = line.groups()
        if name in GAUGES:
            return f"{series} {(second * GAUGES[name]) % 19}"
        rises = name.endswith(("_total", "_count", "_sum", "_bucket")) and float(value)
        return f"{series} {float(value) + 5 * second}" if rises else line.group(0)

    return LINE.sub(moved, PAGE.read_text().replace('model_name="m"', f'model_name="{MODEL}"')).encode()


def answer(body: bytes, *headers: bytes) -> bytes:
    """As uvicorn words it."""
    date = b"date: " + email.utils.formatdate(CLOCK.now(), usegmt=True).encode()
    length = b"content-length: %d" % len(body)
    return b"\r\n".join((b"HTTP/1.1 200 OK", date, b"server: uvicorn", *headers, length, b"", body))


class Replica(asyncio.Protocol):
    """As little HTTP as readers need: /metrics, plain or gzipped as they ask, and 404."""

    _made: tuple[int, bytes, bytes] = (-1, b"", b"")  # the second, and what is answered in it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n") and isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(self._answer(data))
            if b"HTTP/1.0" in data or b"connection: close" in data.lower():
                self._transport.close()

    def _answer(self, data: bytes) -> bytes:
        if not data.startswith(b"GET /metrics"):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        second = int(CLOCK.monotonic())
        if Replica._made[0] != second:
            plain, kind = page(second), b"content-type: text/plain; version=0.0.4; charset=utf-8"
            zipped = answer(gzip.compress(plain), kind, b"content-encoding: gzip")
            Replica._made = (second, answer(plain, kind), zipped)
        _, plain_answer, zipped_answer = Replica._made
        return zipped_answer if b"gzip" in data.lower() else plain_answer


async def serve(count: int) -> None:
    """Listen on so many free ports, print them, and go on until killed."""
    loop = asyncio.get_running_loop()
    ports = []
    for _ in range(count):
        held = socket.create_server(("127.0.0.1", 0), backlog=128)
        ports.append(held.getsockname()[1])
        await loop.create_server(Replica, sock=held)
    sys.stdout.write(" ".join(map(str, ports)) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextlib.contextmanager
def fleet(count: int) -> Iterator[list[str]]:
    """A fleet in a process of its own; its base URLs."""
    command = [sys.executable, "-m", "tests.bench.fake_fleet", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        try:
            assert process.stdout is not None
            yield [f"http://127.0.0.1:{port}" for port in process.stdout.readline().split()]
        finally:
            process.terminate()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1])))
