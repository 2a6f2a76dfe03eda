"""A follower passes people's requests on to the leader; nobody asks in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opsconsole.control.passing import PASSED, Passing
from opsconsole.control.settings import Role, Token
from opsconsole.domain.leading import Leading
from opsconsole.errors import OpsConsoleError

OPERATOR = Token("ops", "operators-secret", Role.OPERATE)


async def echo(request: Request) -> Response:
    seen = {"path": request.url.path, "token": request.headers["authorization"], "passed": request.headers[PASSED]}
    return JSONResponse({**seen, "body": (await request.body()).decode()}, 202)


@pytest.fixture
async def leader() -> AsyncIterator[str]:
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


async def ask(passing: Passing, path: str = "/v1/intents", method: str = "POST", **headers: str) -> httpx.Response:
    """Through an application that answers 418 itself where nothing is passed on."""

    async def endpoint(request: Request) -> Response:
        try:
            return await passing.on(request) or Response(status_code=418)
        except OpsConsoleError as error:
            return Response(str(error), 503)

    app = Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])])
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://follower") as client:
        return await client.request(method, path, headers=sent, content=b'{"plan_id": "x"}')


async def test_a_follower_gives_the_leaders_answer_to_the_callers_own_token(leader: str) -> None:
    passing = Passing(lambda: Leading(False, "two", leader), (OPERATOR,))
    answer = await ask(passing, authorization="Bearer callers-own")
    assert answer.status_code == 202
    told = {"path": "/v1/intents", "token": "Bearer callers-own", "passed": "1", "body": '{"plan_id": "x"}'}
    assert answer.json() == told


async def test_a_caller_without_a_token_is_passed_on_with_the_daemons_own(leader: str) -> None:
    answer = await ask(Passing(lambda: Leading(False, "two", leader), (OPERATOR,)))
    assert answer.json()["token"] == "Bearer operators-secret"
    reader = Token("r", "readers-secret", Role.READ)
    refused = await ask(Passing(lambda: Leading(False, "two", leader), (reader,)))
    assert (refused.status_code, "no token is configured" in refused.text) == (503, True)


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/snapshot", "GET"), ("/v1/holds", "GET"), ("/v1/silences", "POST")], ids=str
)
async def test_what_any_daemon_can_answer_is_not_passed_on(path: str, method: str) -> None:
    passing = Passing(lambda: Leading(False, "two", "http://127.0.0.1:1"), (OPERATOR,))
    assert (await ask(passing, path, method)).status_code == 418


async def test_the_leader_answers_for_itself() -> None:
    assert (await ask(Passing(Leading, (OPERATOR,)))).status_code == 418


async def test_what_was_passed_on_is_never_passed_on_again() -> None:
    passing = Passing(lambda: Leading(False, "two", "http://127.0.0.1:1"), (OPERATOR,))
    answer = await ask(passing, **{PASSED: "1"})
    assert (answer.status_code, answer.text) == (503, "No daemon leads now: ask again in some seconds.")


async def test_a_leader_that_does_not_say_where_it_is_and_one_that_is_gone_are_told() -> None:
    unnamed = await ask(Passing(lambda: Leading(False, "two"), (OPERATOR,)))
    assert unnamed.status_code == 503 and "two leads and does not say where it is reached" in unnamed.text
    gone = await ask(Passing(lambda: Leading(False, "two", "http://127.0.0.1:1"), (OPERATOR,)))
    assert (gone.status_code, gone.text) == (503, "The leader at http://127.0.0.1:1 does not answer (ConnectError).")
