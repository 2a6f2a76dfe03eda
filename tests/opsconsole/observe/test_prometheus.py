"""A real Prometheus server scraping real pages, read back through the same tables; and how the client asks it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from opsconsole.clock import SystemClock
from opsconsole.errors import SourceErrorKind as Kind
from opsconsole.observe.fetch import FetchFailed
from opsconsole.observe.prometheus import PrometheusSource, PrometheusSourceOptions, names_pattern, own_labels
from opsconsole.observe.promql import PrometheusClient, PrometheusOptions, spans
from tests.opsconsole.observe.prometheus_server import scraping

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 900ms}}
scrape_configs:
  - job_name: pool-a
    metrics_path: /ok
    static_configs:
      - {{targets: ["{target}"], labels: {{pod: "vllm-0"}}}}
      - {{targets: ["{target}"], labels: {{pod: "vllm-1", __metrics_path__: /500}}}}
  - job_name: others
    metrics_path: /json
    static_configs: [{{targets: ["{target}"]}}]
"""


async def eventually(ask: Any, seconds: float = 20.0) -> Any:
    """What `ask` gives once it gives something."""
    for _ in range(int(seconds / 0.2)):
        found = await ask()
        if found:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError("it never came")


@pytest.fixture
async def prometheus(server: Any, tmp_path: Path) -> AsyncIterator[str]:
    """A server on a free port that scrapes the misbehaving one."""
    with scraping(CONFIG.format(target=server.url.removeprefix("http://")), tmp_path) as url:
        yield url


def source_at(url: str, **options: Any) -> PrometheusSource:
    return PrometheusSource(PrometheusOptions(url), SystemClock(), PrometheusSourceOptions(every_s=0.0, **options))


async def test_a_page_read_through_prometheus_is_the_page_read_directly(server: Any, prometheus: str) -> None:
    source = source_at(prometheus)
    try:

        async def both() -> Any:
            found = {o.replica.name: o for o in await source.observe(SystemClock().now())}
            return found if {"vllm-0", "vllm-1"} <= found.keys() and found["vllm-0"].sample else None

        found = await eventually(both)
        good, broken = found["vllm-0"], found["vllm-1"]
        assert (good.sample.running, good.sample.waiting, good.sample.engine, good.sample.model) == (
            3.0,
            1.0,
            "vllm",
            "m",
        )
        assert good.replica.pool == "pool-a"
        assert abs(SystemClock().now() - good.sample.at) < 5.0
        assert broken.sample is None and broken.error is not None and broken.error.kind is Kind.REFUSED
        assert source.status().ok and source.status().error is None
        assert found.keys() == {"vllm-0", "vllm-1"}, "a broken target of a job without engines is somebody else's"
    finally:
        await source.close()


async def test_an_engine_whose_every_target_is_silent_is_still_known_to_who_asks_for_the_first_time(
    server: Any, prometheus: str
) -> None:
    seen = source_at(prometheus)
    try:
        await eventually(lambda: seen.observe(0.0))
        server._ok = server._500

        async def silent() -> Any:
            source = source_at(prometheus)
            found = {o.replica.name: o for o in await source.observe(0.0)}
            await source.close()
            return found if found and not any(o.sample for o in found.values()) else None

        found = await eventually(silent)
        assert found.keys() == {"vllm-0", "vllm-1"}, "and what never was an engine is still somebody else's"
        assert all(o.error.kind is Kind.REFUSED for o in found.values())
        assert {o.replica.name for o in await seen.observe(0.0)} == {"vllm-0", "vllm-1"}
    finally:
        await seen.close()


async def test_a_job_where_an_engine_answered_after_the_past_was_asked_for_is_known_when_all_of_it_falls_silent(
    server: Any, prometheus: str
) -> None:
    source = source_at(prometheus)
    source._past_due = float("inf")  # the past was asked for before any engine answered, and is not asked for again
    try:

        async def answers() -> Any:
            return [o for o in await source.observe(0.0) if o.sample]

        await eventually(answers)
        source._continuity.clear()
        server._ok = server._500

        async def silent() -> Any:
            found = {o.replica.name: o for o in await source.observe(0.0)}
            return found if not any(o.sample for o in found.values()) else None

        assert (await eventually(silent)).keys() == {"vllm-0", "vllm-1"}
    finally:
        await source.close()


async def test_replicas_that_a_discovery_does_not_know_are_ghosts(server: Any, prometheus: str) -> None:
    seen, source = source_at(prometheus), source_at(prometheus)
    source._known = lambda: {"vllm-0"}
    try:
        await eventually(lambda: seen.observe(0.0))
        await eventually(lambda: source.observe(0.0))
        assert {o.replica.name for o in await source.observe(0.0)} == {"vllm-0"}
    finally:
        await seen.close()
        await source.close()


async def test_matchers_narrow_what_is_asked(server: Any, prometheus: str) -> None:
    source = source_at(prometheus, matchers='{job="pool-a"}')
    try:
        await eventually(lambda: source.observe(0.0))
        assert {o.replica.pool for o in await source.observe(0.0)} == {"pool-a"}
    finally:
        await source.close()


async def test_a_range_longer_than_the_limit_is_asked_in_parts_and_joined(server: Any, prometheus: str) -> None:
    client = PrometheusClient(PrometheusOptions(prometheus))
    try:
        answer = await client.range("vector(1)", 1_700_000_000, 1_700_000_000 + 25_000, 1)
        assert len(answer.series) == 1
        times = [at for at, _ in answer.series[0][1]]
        assert times == [1_700_000_000 + i for i in range(25_001)]
        with pytest.raises(FetchFailed, match="400"):
            await client.instant("sum(")
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("start", "end", "step", "points", "expected"),
    [
        (0, 10, 1, 100, [(0, 10)]),
        (0, 10, 1, 4, [(0, 3), (4, 7), (8, 10)]),
        (0, 10, 3, 2, [(0, 3), (6, 9)]),
        (5, 5, 1, 10, [(5, 5)]),
        (6, 5, 1, 10, []),
        (0.9, 10.9, 5, 1, [(0, 0), (5, 5), (10, 10)]),
    ],
)
def test_parts_of_a_range_lie_on_its_grid_and_do_not_overlap(
    start: float, end: float, step: int, points: int, expected: list[tuple[int, int]]
) -> None:
    found = list(spans(start, end, step, points))
    assert all((last - first) // step + 1 <= points for first, last in found)
    grid = [at for first, last in found for at in range(first, last + 1, step)]
    assert grid == list(range(int(start), int(end) + 1, step))
    if expected:
        assert found[0][0] == expected[0][0] and len(found) == len(expected)


class Fake:
    """The query API with answers of ours: what a Thanos, a proxy or a stranger says."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = str((await request.post()).get("query", ""))
        if isinstance(self.body, str):
            return web.Response(text=self.body, status=self.status)
        body = self.body["up"] if "up" in self.body and query.startswith(("up", "timestamp(")) else self.body
        return web.json_response(body, status=self.status)


async def serve(fake: Fake) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_route("*", "/api/v1/{what}", fake.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


def vector(*entries: tuple[dict[str, str], str], **beside: Any) -> dict[str, Any]:
    result = [{"metric": metric, "value": [1_700_000_000, value]} for metric, value in entries]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **beside}


async def test_an_answer_with_warnings_is_partial_and_gives_no_numbers() -> None:
    target = {"job": "j", "instance": "i:1"}
    running = {"__name__": "vllm:num_requests_running", **target}
    up = vector((target, "1"))
    fake = Fake(200, vector((running, "3"), warnings=["store 10.0.0.3 did not answer"], up=up))
    runner, url = await serve(fake)
    source = source_at(url)
    try:
        found = await source.observe(5.0)
        assert [o.sample for o in found] == [None]
        assert all(o.error is not None and o.error.kind is Kind.PARTIAL for o in found)
        assert "10.0.0.3" in (source.status().error or "")
        assert not source.status().ok
    finally:
        await source.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, "no", Kind.AUTH), (403, "no", Kind.AUTH), (422, "bad query", Kind.HTTP_STATUS),
        (500, "oh", Kind.HTTP_STATUS),
        (200, "<html>", Kind.NOT_METRICS), (200, {"status": "success"}, Kind.NOT_METRICS),
        (200, {"data": {"resultType": "scalar", "result": [1, "2"]}}, Kind.NOT_METRICS),
    ],
)  # fmt: skip
async def test_a_server_that_answers_wrongly_is_a_status_and_never_an_exception(
    status: int, body: Any, kind: Kind
) -> None:
    runner, url = await serve(Fake(status, body))
    source = source_at(url)
    try:
        assert await source.observe(0.0) == ()
        view = source.status()
        assert not view.ok and view.error_kind == kind.value and view.retry_at is not None
    finally:
        await source.close()
        await runner.cleanup()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n"


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    while True:
        writer.write(b" " * 65_536)
        await writer.drain()


async def _dribbling(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b'{"status": "succ')


async def _looping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 307 Again\r\nLocation: /api/v1/query\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("misbehave", "kind"),
    [(_endless, Kind.TOO_LARGE), (_dribbling, Kind.TOO_SLOW), (_cut, Kind.TRUNCATED), (_looping, Kind.REDIRECT)],
)
async def test_a_server_that_never_ends_its_answer_is_given_up_and_holds_nobody(
    misbehave: Callable[[asyncio.StreamWriter], Awaitable[None]], kind: Kind
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.Event())
        end = ended[-1]
        try:
            await reader.readuntil(b"\r\n\r\n")
            await misbehave(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            end.set()

    ended: list[asyncio.Event] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = PrometheusOptions(f"http://127.0.0.1:{port}", timeout_s=1.0, max_bytes=2_000_000)
    source = PrometheusSource(options, SystemClock(), PrometheusSourceOptions(every_s=0.0))
    try:
        assert await source.observe(0.0) == ()
        view = source.status()
        assert (view.ok, view.error_kind) == (False, kind.value), view
    finally:
        await source.close()
        server.close()
        await asyncio.gather(*(end.wait() for end in ended))


async def test_a_server_that_goes_away_leaves_its_replicas_known_with_the_error() -> None:
    target = {"job": "j", "instance": "i:1"}
    running = {"__name__": "vllm:num_requests_running", **target}
    fake = Fake(200, vector((running, "3"), up=vector((target, "1"))))
    runner, url = await serve(fake)
    source = source_at(url)
    try:
        assert [o.replica.name for o in await source.observe(0.0)] == ["i:1"]
        await runner.cleanup()
        found = await source.observe(1.0)
        assert found and all(o.sample is None and o.error is not None and o.error.kind is Kind.REFUSED for o in found)
    finally:
        await source.close()


def test_labels_of_the_target_come_off_and_exported_ones_come_back() -> None:
    labels = {"__name__": "x", "job": "j", "instance": "i", "pod": "p", "exported_pod": "inner", "engine": "0"}
    assert own_labels(labels) == {"pod": "inner", "engine": "0"}


def test_the_pattern_matches_every_rewriting_and_nothing_of_others() -> None:
    import re

    pattern = re.compile(names_pattern())
    for name in (
        "vllm:num_requests_running",
        "vllm_x",
        "ray_vllm_x",
        "kserve_vllm:x",
        "tgi_queue_size",
        "num_request_max",
    ):
        assert pattern.fullmatch(name), name
    for name in ("node_cpu_seconds_total", "up", "http_requests_total"):
        assert not pattern.fullmatch(name), name
