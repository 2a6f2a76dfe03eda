"""Requests to an API server that has too much to do, falls over, forgets tokens or answers nonsense.

A server of the test's own stands in here: a real one cannot be made to answer 429 or 503 at will.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from opsconsole.clock import ManualClock, SystemClock
from opsconsole.cluster.api import KubeApi, Place, namespace_of
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.errors import ConfigError


class Server:
    """Answers what it is told to, one entry a request, then 200."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], Any]] = []
        self.seen: list[tuple[str, str, str, Any]] = []
        self.slow_s = 0.0
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        token = request.headers.get("Authorization", "")
        self.seen.append((request.method, request.path_qs, token, json.loads(body) if body else None))
        if self.slow_s:
            await asyncio.sleep(self.slow_s)
        status, headers, told = self.answers.pop(0) if self.answers else (200, {}, {"kind": "Fine"})
        text = told if isinstance(told, str) else json.dumps(told)
        return web.Response(status=status, headers=headers, text=text)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Place:
    return Place(kubeconfig(tmp_path, server.url))


def kubeconfig(folder: Path, url: str, token: str = "first") -> Path:
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": f"of-{name}"}}
        for name in ("here", "there")
    ]
    path = folder / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": contexts,
        "current-context": "here",
    }
    path.write_text(json.dumps(document))
    return path


class Hurry(ManualClock):
    """A clock whose sleepers do not wait, and which remembers for how long they would have."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._step(seconds)


async def test_too_many_requests_are_asked_again_when_the_server_says(server: Server, place: Place) -> None:
    clock = Hurry()
    api = KubeApi(place, clock)
    told = {"kind": "Status", "message": "slow down", "details": {"retryAfterSeconds": 3}}
    server.answers = [(429, {"Retry-After": "2"}, {}), (429, {}, told)]
    assert (await api.get("/apis/x"))["kind"] == "Fine"
    await api.close()
    assert clock.slept == [2.0, 3.0]


async def test_a_server_in_trouble_is_asked_a_few_times_and_then_told_in_its_own_words(
    server: Server, place: Place
) -> None:
    clock = Hurry()
    api = KubeApi(place, clock)
    server.answers = [(503, {}, {"message": "etcd is away"})] * 9
    with pytest.raises(KubeError, match="GET /x: etcd is away") as raised:
        await api.get("/x", patience=Patience(tries=3))
    await api.close()
    assert raised.value.status == 503
    assert len(server.seen) == 3
    assert [0.1 <= wait <= 0.6 for wait in clock.slept] == [True, True]


async def test_waiting_never_exceeds_what_the_caller_has(server: Server, place: Place) -> None:
    clock = Hurry()
    api = KubeApi(place, clock)
    server.answers = [(429, {"Retry-After": "5"}, {})] * 9
    with pytest.raises(KubeError):
        await api.get("/x", patience=Patience(tries=9, budget_s=8.0))
    await api.close()
    assert clock.slept == [5.0]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
async def test_what_asking_again_cannot_change_is_not_asked_again(server: Server, place: Place, status: int) -> None:
    api = KubeApi(place, Hurry())
    server.answers = [(status, {}, {"message": "no"})]
    with pytest.raises(KubeError) as raised:
        await api.put("/x", {})
    await api.close()
    assert (raised.value.status, len(server.seen)) == (status, 1)


async def test_a_token_that_was_rotated_is_read_again(server: Server, place: Place) -> None:
    api = KubeApi(place, Hurry())
    await api.get("/x")
    assert place.kubeconfig is not None
    kubeconfig(place.kubeconfig.parent, server.url, "second")
    server.answers = [(401, {}, {"message": "Unauthorized"})]
    await api.get("/x")
    await api.close()
    assert [token for _, _, token, _ in server.seen] == ["Bearer first", "Bearer first", "Bearer second"]


async def test_an_account_that_is_not_known_is_told_after_one_more_try(server: Server, place: Place) -> None:
    api = KubeApi(place, Hurry())
    server.answers = [(401, {}, {"message": "Unauthorized"})] * 3
    with pytest.raises(KubeError, match="does not know this account"):
        await api.get("/x")
    await api.close()
    assert len(server.seen) == 2


async def test_silence_is_a_failure_that_may_have_arrived(server: Server, place: Place) -> None:
    api = KubeApi(place, SystemClock())
    server.slow_s = 0.5
    with pytest.raises(KubeError, match=r"did not answer within 0\.05 s") as raised:
        await api.put("/x", {}, patience=Patience(tries=1, timeout_s=0.05))
    await api.close()
    assert raised.value.may_have_arrived and raised.value.status == 0


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    api = KubeApi(Place(kubeconfig(tmp_path, "http://127.0.0.1:1")), Hurry())
    with pytest.raises(KubeError, match="cannot be reached"):
        await api.get("/x")
    await api.close()


async def test_an_answer_that_is_not_json_is_no_api_server(server: Server, place: Place) -> None:
    api = KubeApi(place, Hurry())
    server.answers = [(200, {}, "<html>")]
    with pytest.raises(KubeError, match="this is no API server"):
        await api.get("/x")
    await api.close()


async def test_a_kubeconfig_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    api = KubeApi(Place(tmp_path / "none"), Hurry())
    with pytest.raises(ConfigError, match="Give --kubeconfig and --context"):
        await api.open()


def test_the_namespace_is_the_flags_then_the_contexts(place: Place) -> None:
    assert namespace_of(place) == "of-here"
    assert namespace_of(Place(place.kubeconfig, "there")) == "of-there"
    assert namespace_of(Place(place.kubeconfig, "there", "said")) == "said"


def broken(**parts: object) -> str:
    """A kubeconfig of one cluster over TLS, with some of its parts replaced."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    }
    return json.dumps({**document, **parts})


def by_plugin(**run: object) -> str:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", **run}
    return broken(users=[{"name": "u", "user": {"exec": plugin}}])


JUNK_CA = {"server": "https://127.0.0.1:1", "certificate-authority-data": "anVuaw=="}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{{ :", "line 1 is not YAML"),
        ("", "kubeconfig is empty"),
        ("just words", "holds a str and no clusters"),
        ("\x00\x01", "is not YAML"),
        (broken(users=None), "context here names the user u; users of .* are: none"),
        (broken(contexts=[{"name": "here", "context": {"cluster": "c"}}]), "context here names no user"),
        (broken(contexts=[]), r"has no context here \(it has: none\)"),
        (broken(contexts="here"), "contexts is no list"),
        (broken(clusters=[None]), "clusters is no list"),
        (broken(clusters=[{"name": "c", "cluster": JUNK_CA}]), r"a certificate or key of it \(certificate-authority"),
        (by_plugin(command="no-such-plugin", installHint="ask Jo"), r"plugin no-such-plugin, .* \(ask Jo\)"),
        (by_plugin(command="false"), "the plugin false gave no credentials for user u"),
    ],
)
async def test_a_kubeconfig_that_cannot_work_is_one_sentence_that_says_why(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    api = KubeApi(Place(path), Hurry())
    with pytest.raises(ConfigError, match=rf"^No cluster is reached by --kubeconfig .*{words}"):
        await api.open()
    assert namespace_of(Place(path)) == "default"


async def test_behind_a_proxy_that_logs_in_nobody_needs_to(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(broken(users=None, clusters=[{"name": "c", "cluster": {"server": server.url}}]))
    api = KubeApi(Place(path), Hurry())
    assert (await api.get("/x"))["kind"] == "Fine"
    await api.close()
