"""The router in front of scripted workers on real loopback sockets: what reaches whom, and what a client sees."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
import uvicorn

from opsconsole.clock import SystemClock
from opsconsole.local.router import Router, RouterServer
from opsconsole.local.router_table import RoutingTable
from tests.opsconsole.bench.scripted_server import DONE, Script, Scripted, Step, event, scripted, text, usage

STREAM = [text("a"), text("b", "length"), usage(2), DONE]
ASK = {"model": "m", "prompt": "hello", "stream": True, "max_tokens": 2}


def member(name: str, url: str, **facts: Any) -> dict[str, Any]:
    return {"name": name, "url": url, "ready": True, "draining": False, "ready_at": 1.0, **facts}


class Front:
    """A router on a port, and a client for it."""

    def __init__(self, router: Router, server: RouterServer, url: str, client: aiohttp.ClientSession) -> None:
        self.router, self.server, self.url, self._client = router, server, url, client

    def know(self, *members: dict[str, Any]) -> None:
        self.router.table.update({"version": 1, "members": list(members)})

    async def ask(self, body: Any = ASK, path: str = "/v1/completions", **headers: str) -> tuple[int, str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._client.post(self.url + path, data=io.BytesIO(data), headers=headers) as reply:
            return reply.status, await reply.text(), reply.headers

    async def page(self) -> str:
        async with self._client.get(self.url + "/metrics") as reply:
            return await reply.text()


@asynccontextmanager
async def front(**options: Any) -> AsyncIterator[Front]:
    clock = SystemClock()
    router = Router(RoutingTable(clock.now, Random(1)), clock, **{"patience": 0.3, "router_token": "rt", **options})
    server = RouterServer(uvicorn.Config(router, port=0, log_level="error", lifespan="off", ws="none"), router)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession() as client:
            yield Front(router, server, f"http://127.0.0.1:{port}", client)
    finally:
        server.should_exit = True
        await serving
        await router.close()


@asynccontextmanager
async def one_worker(script: Script, **options: Any) -> AsyncIterator[tuple[Front, Scripted]]:
    async with scripted(script) as worker, front(**options) as made:
        made.know(member("w1", worker.url))
        yield made, worker


async def test_an_answer_passes_through_with_its_worker_and_request_id() -> None:
    async with one_worker(lambda index: (200, STREAM)) as (made, _):
        status, body, headers = await made.ask(**{"x-request-id": "mine-7"})
        assert status == 200 and body.encode() == b"".join(STREAM)
        assert headers["x-opsconsole-worker"] == "w1"
        assert headers.getall("x-request-id") == ["mine-7"]
        assert 'router_requests_total{outcome="ok",worker="w1"} 1.0' in await made.page()


async def test_chunks_are_not_held_back() -> None:
    async with (
        one_worker(lambda index: (200, [text("a"), 0.4, text("b", "length"), DONE])) as (made, _),
        aiohttp.ClientSession() as client,
        client.post(made.url + "/v1/completions", json=ASK) as reply,
    ):
        began = asyncio.get_running_loop().time()
        await reply.content.readuntil(b"\n\n")
        assert asyncio.get_running_loop().time() - began < 0.3
        await reply.read()


async def test_a_client_cannot_choose_its_salt_and_gets_its_tenants_own() -> None:
    seen: list[dict[str, str]] = []

    async def worker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        seen.append({k.lower(): v for k, _, v in (line.partition(": ") for line in head) if k})
        seen[-1]["body"] = (await reader.readexactly(int(seen[-1]["content-length"]))).decode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(worker, "127.0.0.1", 0)
    async with server, front() as made:
        made.know(member("w1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        forged = {"x-cache-salt": "forged", "x-opsconsole-router": "forged"}
        await made.ask({**ASK, "cache_salt": "forged"}, authorization="Bearer a", **forged)
        await made.ask(ASK, authorization="Bearer a")
        await made.ask(ASK, authorization="Bearer b")
    salts = [headers["x-cache-salt"] for headers in seen]
    assert salts[0] == salts[1] != salts[2]
    assert all(headers["x-opsconsole-router"] == "rt" for headers in seen)
    assert all("forged" not in json.dumps(headers) for headers in seen)
    assert all(headers["authorization"] == "Bearer rt" for headers in seen)  # the router's own key, not the user's


async def test_what_never_reached_a_worker_is_placed_again() -> None:
    async with scripted(lambda index: (200, STREAM)) as alive, front() as made:
        made.know(member("w1", "http://127.0.0.1:9"), member("w2", alive.url))
        answers = [await made.ask() for _ in range(6)]
        assert [status for status, _, _ in answers] == [200] * 6
        assert {headers["x-opsconsole-worker"] for _, _, headers in answers} == {"w2"}


async def test_a_worker_that_says_it_drains_has_not_begun_the_request() -> None:
    refusal = [json.dumps({"error": {"message": "this engine is draining", "code": "draining"}}).encode()]
    async with (
        scripted(lambda index: (503, refusal)) as leaving,
        scripted(lambda index: (200, STREAM)) as staying,
        front() as made,
    ):
        made.know(member("w1", leaving.url), member("w2", staying.url))
        for _ in range(4):
            assert (await made.ask())[0] == 200
        assert "router_retries_total" in await made.page()


async def test_a_full_queue_is_the_workers_own_answer_and_passes_through() -> None:
    full = [json.dumps({"error": {"message": "the queue is full"}}).encode()]
    async with one_worker(lambda index: (429, full)) as (made, worker):
        status, body, _ = await made.ask()
        assert (status, json.loads(body)["error"]["message"]) == (429, "the queue is full")
        assert len(worker.bodies) == 1


async def test_another_503_passes_through_with_its_body() -> None:
    broken = [json.dumps({"error": {"message": "out of memory"}}).encode()]
    async with one_worker(lambda index: (503, broken)) as (made, _):
        status, body, _ = await made.ask()
        assert (status, json.loads(body)["error"]["message"]) == (503, "out of memory")


async def test_a_worker_lost_before_its_answer_is_an_error_at_once_and_not_asked_twice() -> None:
    async def worker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(worker, "127.0.0.1", 0)
    async with server, front() as made:
        made.know(member("w1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        async with asyncio.timeout(5):
            status, body, _ = await made.ask(**{"x-request-id": "r-1"})
    error = json.loads(body)["error"]
    assert (status, error["code"], error["type"]) == (502, "worker_lost", "server_error")
    assert "w1" in error["message"] and "r-1" in error["message"]


async def test_a_worker_lost_in_mid_stream_ends_it_with_an_error_event() -> None:
    async with one_worker(lambda index: (200, [text("a"), 0.05, None])) as (made, _):
        status, body, _ = await made.ask()
        events = [line[6:] for line in body.split("\n\n") if line.startswith("data: ")]
        assert status == 200 and len(events) == 2
        assert json.loads(events[1])["error"]["code"] == "worker_lost"
        assert "[DONE]" not in body
        assert 'router_streams_cut_total{cause="crash"} 1.0' in await made.page()


async def test_a_stream_that_ends_without_its_end_is_told_as_cut() -> None:
    async with one_worker(lambda index: (200, [text("a")])) as (made, _):
        _, body, _ = await made.ask()
        assert "worker_lost" in body


async def test_without_any_worker_a_request_waits_and_is_then_refused_with_a_time_to_come_back() -> None:
    async with front() as made:
        status, body, headers = await made.ask()
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body)["error"]["code"] == "no_worker"


async def test_a_request_waits_for_the_worker_that_comes() -> None:
    async with scripted(lambda index: (200, STREAM)) as worker, front(patience=10.0) as made:
        asked = asyncio.create_task(made.ask())
        while "opsconsole:router_queue 1.0" not in await made.page():
            await asyncio.sleep(0.01)
        made.know(member("w1", worker.url))
        assert (await asked)[0] == 200
        assert "opsconsole:router_queue 0.0" in await made.page()


async def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    async with front(patience=30.0, queue_limit=0) as made, asyncio.timeout(5):
        assert (await made.ask())[0] == 503


async def test_a_client_that_goes_frees_its_worker() -> None:
    async with one_worker(lambda index: (200, [text("a"), 30.0])) as (made, _):
        async with aiohttp.ClientSession() as client, client.post(made.url + "/v1/completions", json=ASK) as reply:
            await reply.content.readuntil(b"\n\n")
            assert made.router.table.routes[0].requests == 1
        async with asyncio.timeout(5):
            while made.router.table.routes[0].requests:
                await asyncio.sleep(0.01)
        assert 'outcome="client_gone"' in await made.page()


async def test_a_router_that_stops_lets_answers_finish_and_tells_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsconsole.local.router.PATIENCE_AT_END", 0.5)
    scripts: list[list[Step]] = [[text("a"), 0.2, *STREAM[1:]], [text("a"), 30.0]]
    async with one_worker(lambda index: (200, scripts[index])) as (made, _), asyncio.timeout(10):
        asks = [asyncio.create_task(made.ask()) for _ in scripts]
        while made.router.table.routes[0].requests < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # both have begun
        made.server.should_exit = True
        ended = sorted([body for _, body, _ in await asyncio.gather(*asks)], key=len)
        assert sum("[DONE]" in body for body in ended) == 1
        (told,) = [body for body in ended if "[DONE]" not in body]
        assert json.loads(told.rstrip().rpartition("data: ")[2])["error"]["code"] == "stopping"
        assert made.router.metrics.cut.labels("stop")._value.get() == 1.0


async def test_a_request_that_waits_for_a_worker_when_the_router_stops_is_refused() -> None:
    async with front(patience=30.0) as made, asyncio.timeout(10):
        ask = asyncio.create_task(made.ask())
        while not made.router.metrics.waiting:
            await asyncio.sleep(0.01)
        made.router.end_all()
        status, body, _ = await ask
        assert (status, json.loads(body)["error"]["code"]) == (503, "stopping")
        assert made.router.metrics.waiting == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/completions", b"{not json", 400, "invalid_json"),
        ("/v1/completions", b"[1]", 400, "invalid_json"),
        ("/v1/completions", b'{"prompt": "\xff"}', 400, "invalid_json"),
        ("/v1/embeddings", b"{}", 404, "not_found"),
        ("/v1/models", b"{}", 405, "method_not_allowed"),
        ("/v1/completions", b"x" * (9 * 2**20), 413, "body_too_large"),
    ],
    ids=["no json", "no object", "no utf-8", "no such path", "wrong method", "too large"],
)
async def test_bad_input_is_answered_in_the_openai_form(path: str, body: bytes, status: int, code: str) -> None:
    async with one_worker(lambda index: (200, STREAM)) as (made, worker):
        found, answer, headers = await made.ask(body, path)
        assert (found, json.loads(answer)["error"]["code"]) == (status, code)
        assert headers["x-request-id"]
        assert worker.bodies == []


async def test_an_api_key_is_asked_for_where_one_is_set() -> None:
    async with one_worker(lambda index: (200, STREAM), api_key="secret") as (made, _):
        assert (await made.ask())[0] == 401
        assert (await made.ask(authorization="Bearer wrong"))[0] == 401
        assert (await made.ask(authorization="Bearer secret"))[0] == 200


async def test_a_request_id_that_is_no_id_is_replaced() -> None:
    async with one_worker(lambda index: (200, STREAM)) as (made, _):
        _, _, headers = await made.ask(**{"x-request-id": "bad id with spaces"})
        assert headers["x-request-id"].startswith("req-")


async def test_an_error_event_of_the_worker_is_passed_on_and_counted_as_cut() -> None:
    lost = event({"error": {"message": "engine stopped"}})
    async with one_worker(lambda index: (200, [text("a"), lost])) as (made, _):
        _, body, _ = await made.ask()
        assert "engine stopped" in body


async def test_nothing_is_in_flight_after_a_mix_of_endings() -> None:
    endings: list[list[Step]] = [[*STREAM], [text("a"), None], [None], [text("a")]]
    async with one_worker(lambda index: (200, endings[index % 4])) as (made, _):
        answers = await asyncio.gather(*(made.ask() for _ in range(20)), return_exceptions=True)
        assert len(answers) == 20
        assert all(route.requests == 0 and route.tokens == 0 for route in made.router.table.routes)


async def test_a_router_that_may_capture_keeps_redacted_bodies_of_requests_and_of_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "captured.jsonl"
    async with one_worker(lambda index: (200, STREAM), capture_to=file) as (made, worker):
        assert (await made.ask({**ASK, "cache_salt": "grain"}))[0] == 200
        assert (await made.ask(b"{not json"))[0] == 400
        async with asyncio.timeout(5):
            while 'router_captured_total{outcome="written"} 1.0' not in await made.page():
                await asyncio.sleep(0.01)
    (line,) = file.read_text().splitlines()
    assert list(json.loads(line)) == ["model", "prompt"] and "hello" not in line and "grain" not in line
    assert worker.bodies[0]["prompt"] == "hello"


async def test_a_router_keeps_nothing_unless_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with one_worker(lambda index: (200, STREAM)) as (made, _):
        assert (await made.ask())[0] == 200
        assert "router_captured_total{" not in await made.page()
    assert list(tmp_path.iterdir()) == []
