"""Servers that speak HTTP badly or not at all: each is a named failure, or read where it can be believed."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os

import pytest

from opsconsole.clock import SystemClock
from opsconsole.domain.replica import Observation
from opsconsole.errors import SourceErrorKind as Kind
from opsconsole.observe.fetch import FetchOptions, _Inflater
from opsconsole.observe.scrape import ScrapeOptions, ScrapeSource
from opsconsole.observe.targets import StaticTargets, target_at

PAGE = b"vllm:num_requests_running 3\n"
PATIENT = ScrapeOptions(FetchOptions(timeout_s=20.0), budget_s=30.0, spread_s=0.0)  # nothing here hangs


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"\r\n".join((b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)))
    return head + b"\r\n\r\n" + body


def redirect(place: bytes) -> bytes:
    return answer(b"", b"Location: " + place, status=b"302 Found")


async def asked(*payloads: bytes) -> Observation:
    """What is observed of a server that answers any request with these bytes, one packet each, and closes."""

    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for number, payload in enumerate(payloads):
                await asyncio.sleep(0.02 if number else 0)
                writer.write(payload)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    source = ScrapeSource(StaticTargets([target_at(f"http://127.0.0.1:{port}/m")]), SystemClock(), PATIENT)
    try:
        (found,) = await source.observe(0.0)
        return found
    finally:
        await source.close()
        await over.wait()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", Kind.REFUSED, id="no HTTP"),
        pytest.param(b"", Kind.REFUSED, id="closes at once"),
        pytest.param(b"HTTP/1.1 2xx OK\r\n\r\n", Kind.REFUSED, id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", Kind.REFUSED, id="endless header"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", Kind.REFUSED, id="bad chunk"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", Kind.REFUSED, id="negative length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(PAGE) - 1) + PAGE[:-2] + b"12\n",
            Kind.TRUNCATED,
            id="longer than it says, cut within a number",
        ),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", Kind.HTTP_STATUS, id="another protocol"),
        pytest.param(answer(PAGE, b"Content-Length: 5"), Kind.REFUSED, id="two lengths"),
        pytest.param(answer(PAGE, b"Transfer-Encoding: gzip, chunked"), Kind.REFUSED, id="a coding of the transfer"),
        pytest.param(answer(PAGE, b"Transfer-Encoding: chunked"), Kind.REFUSED, id="says chunks and sends none"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, Kind.REFUSED, id="hints and no answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n", Kind.REFUSED, id="a head without an end"),
        pytest.param(
            answer(gzip.compress(b"") * 2000, b"Content-Encoding: gzip"), Kind.NOT_METRICS, id="members without end"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", Kind.HTTP_STATUS, id="no content"),
        pytest.param(answer(b"abc", b"Content-Encoding: br"), Kind.NOT_METRICS, id="not asked for brotli"),
        pytest.param(answer(b"abc", b"Content-Encoding: gzip, gzip"), Kind.NOT_METRICS, id="gzip twice"),
        pytest.param(answer(b"", b"Content-Encoding: gzip"), Kind.EMPTY, id="empty gzip"),
        pytest.param(answer(PAGE.decode().encode("utf-16le")), Kind.NOT_METRICS, id="utf-16"),
        pytest.param(answer(b"\0" * 4096), Kind.NOT_METRICS, id="zeros"),
        pytest.param(answer(bytes(range(256)) * 16), Kind.NOT_METRICS, id="binary"),
        pytest.param(answer(b"\xb0\x01\n\x1dvllm:num_requests_running" * 8), Kind.NOT_METRICS, id="protobuf"),
        pytest.param(redirect(b"//"), Kind.REDIRECT, id="redirect to nowhere"),
        pytest.param(redirect(b"javascript:alert(1)"), Kind.REDIRECT, id="redirect to a script"),
        pytest.param(redirect(b"http://[::1"), Kind.REDIRECT, id="redirect to half an address"),
        pytest.param(redirect(b"http://127.0.0.1:99999/"), Kind.REDIRECT, id="redirect to no port"),
    ],
)
async def test_what_is_no_page_is_a_named_failure_without_numbers(payload: bytes, kind: Kind) -> None:
    found = await asked(payload)
    assert found.sample is None
    assert found.error is not None and found.error.kind is kind, found.error


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(PAGE), id="continued"),
        pytest.param(answer(PAGE, b"Date: yesterday"), id="a date that is none"),
        pytest.param(answer(PAGE, b"Date: Thu, 01 Jan 99999 00:00:00 GMT"), id="a year that is none"),
        pytest.param(answer(gzip.compress(PAGE) + b"garbage", b"Content-Encoding: gzip"), id="dirt after the gzip"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n" + PAGE, id="HTTP/1.0 without a length"),
        pytest.param(answer(PAGE) + b"\r\n\r\n", id="blank lines after the page"),
    ],
)
async def test_what_is_a_page_all_the_same_is_read(payload: bytes) -> None:
    found = await asked(payload)
    assert found.error is None, found.error
    assert found.sample is not None and found.sample.running == 3.0


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"])
async def test_a_page_whose_head_comes_before_it_is_not_empty(head: bytes) -> None:
    found = await asked(head, PAGE[:7], PAGE[7:])
    assert found.error is None and found.sample is not None and found.sample.running == 3.0


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_page_in_several_gzip_members_is_read_whole_however_it_comes(size: int) -> None:
    body = gzip.compress(PAGE) + gzip.compress(b"vllm:num_requests_waiting 4\n") + gzip.compress(b"") + b"dirt"
    inflater, data = _Inflater(), b""
    for begin in range(0, len(body), size):
        data += inflater.feed(body[begin : begin + size], 10_000)
    assert data == PAGE + b"vllm:num_requests_waiting 4\n" and inflater.done


async def test_several_gzip_members_are_one_page() -> None:
    body = gzip.compress(PAGE) + gzip.compress(b"vllm:num_requests_waiting 4\n")
    found = await asked(answer(body, b"Content-Encoding: gzip"))
    assert found.sample is not None and (found.sample.running, found.sample.waiting) == (3.0, 4.0)


async def test_a_second_member_that_is_cut_is_a_cut_page() -> None:
    body = gzip.compress(PAGE) + gzip.compress(PAGE)[:-6]
    found = await asked(answer(body, b"Content-Encoding: gzip"))
    assert found.sample is None and found.error is not None and found.error.kind is Kind.TRUNCATED


@pytest.mark.parametrize("address", ["http://.:80/", "http://xn--:1", f"http://{'a' * 300}.com"])
async def test_a_name_that_can_be_none_is_a_named_failure(address: str) -> None:
    source = ScrapeSource(StaticTargets([target_at(address)]), SystemClock(), PATIENT)
    (found,) = await source.observe(0.0)
    await source.close()
    assert found.sample is None and found.error is not None
    assert found.error.kind in (Kind.DNS, Kind.INTERNAL), found.error


HANGS = b"hangs"
RUDE = (
    answer(PAGE),
    answer(b"<html>"),
    redirect(b"/0"),
    answer(b"", status=b"503 Busy"),
    b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + PAGE,
    b"HTTP/1.1 200 OK\r\n\r\n" + PAGE,
    answer(gzip.compress(PAGE)[:-9], b"Content-Encoding: gzip"),
    answer(PAGE) + b"more than that",
    b"SSH-2.0-OpenSSH_9\r\n",
    b"",
    HANGS,
)


async def rudely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers by the number in the path; hangs up only where that is the end of the answer."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            line = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            payload = RUDE[int(line.strip(b"/"))]
            if payload is not HANGS:
                writer.write(payload)
                await writer.drain()
                if b"Length" not in payload:
                    break
    writer.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
async def test_a_hundred_ticks_of_servers_that_misbehave_leave_nothing_behind() -> None:
    server = await asyncio.start_server(rudely, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wanted = [target_at(f"http://127.0.0.1:{port}/{number}") for number in range(len(RUDE))]
    options = ScrapeOptions(FetchOptions(timeout_s=0.1), budget_s=0.03, spread_s=0.0, backoff_s=0.0)
    source = ScrapeSource(StaticTargets(wanted), SystemClock(), options)
    held: list[tuple[int, int]] = []
    good = 0
    for _ in range(100):
        found = await source.observe(SystemClock().now())
        good += found[0].sample is not None
        held.append((len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())))
    await source.close()
    server.close()
    await server.wait_closed()
    files, tasks = (max(counts[60:]) for counts in zip(*held, strict=True))
    begun = tuple(max(counts[:40]) for counts in zip(*held, strict=True))
    assert files <= begun[0] + len(RUDE) and tasks <= begun[1] + len(RUDE), (begun, files, tasks)
    assert good > 50
    async with asyncio.timeout(10.0):
        while len(asyncio.all_tasks()) > 1:  # the server's own
            await asyncio.sleep(0.01)
