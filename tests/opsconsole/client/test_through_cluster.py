"""An agent reached through an API server, played by a server that keeps the door as the real one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opsconsole.client.agent import AgentClient
from opsconsole.client.through_cluster import ServiceAddress, service_address
from opsconsole.control.access import caller_of
from opsconsole.control.settings import Role, Token
from opsconsole.domain.records import FleetSnapshot
from opsconsole.domain.wire import to_json
from opsconsole.errors import AgentUnavailable, PlanRefused, UsageError

PROXY = "/api/v1/namespaces/serving/services/https:opsconsole:api/proxy"
SNAPSHOT = FleetSnapshot(7, 1.0, "prod", "act")
TOKENS = (Token("laptop", "agents-secret", Role.OPERATE),)


async def api_server(request: Request) -> Response:
    """Lets the kubeconfig's own account in, takes its Authorization away, and leads to the agent."""
    if request.headers.get("authorization") != "Bearer kube-secret":
        return JSONResponse({"kind": "Status", "message": "Unauthorized"}, 401)
    if not request.url.path.startswith(PROXY):
        return JSONResponse({"kind": "Status", "message": f"no endpoints for {request.url.path}"}, 503)
    kept = [(name, value) for name, value in request.scope["headers"] if name != b"authorization"]
    return await agent(Request({**request.scope, "headers": kept}, request.receive), request.url.path[len(PROXY) :])


async def agent(request: Request, path: str) -> Response:
    assert caller_of(request, TOKENS).name == "laptop"
    if path == "/v1/snapshot":
        return JSONResponse(to_json(SNAPSHOT))
    if path == "/v1/stream":
        return Response(f"data: {json.dumps(to_json(SNAPSHOT))}\n\n", media_type="text/event-stream")
    assert json.loads(await request.body()) == {"plan_id": "x", "note": "by hand"}
    return JSONResponse({"error": "The world moved."}, 409)


@pytest.fixture
async def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    app = Starlette(routes=[Route("/{path:path}", api_server, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    path = tmp_path / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "kube-secret"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "prod",
    }
    path.write_text(json.dumps(document))
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    yield path
    server.should_exit = True
    await serving


async def test_an_agent_in_a_cluster_is_read_with_both_keys(kubeconfig: Path) -> None:
    async with AgentClient("k8s://serving/opsconsole", token="agents-secret") as client:
        assert await client.snapshot() == SNAPSHOT
        assert [tick async for tick in client.stream()] == [SNAPSHOT]


async def test_the_token_may_come_from_the_environment(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCONSOLE_TOKEN", "agents-secret")
    async with AgentClient("k8s://prod@serving/opsconsole") as client:
        assert await client.snapshot() == SNAPSHOT


async def test_the_agents_refusals_stay_the_agents(kubeconfig: Path) -> None:
    async with AgentClient("k8s://serving/opsconsole", token="agents-secret") as client:
        with pytest.raises(PlanRefused, match="The world moved"):
            await client.intent("x", "by hand")


async def test_the_clusters_refusals_are_told_as_its_own(kubeconfig: Path) -> None:
    async with AgentClient("k8s://elsewhere/opsconsole", token="agents-secret") as client:
        with pytest.raises(AgentUnavailable, match="does not lead to the agent elsewhere/opsconsole: no endpoints"):
            await client.snapshot()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("k8s://ns/name", ServiceAddress(None, "ns", "name", "api")),
        ("k8s://arn:aws:eks:eu/x@ns/name:9400", ServiceAddress("arn:aws:eks:eu/x", "ns", "name", "9400")),
    ],
)
def test_an_address_names_context_namespace_service_and_port(text: str, address: ServiceAddress) -> None:
    assert service_address(text) == address


@pytest.mark.parametrize("text", ["k8s://", "k8s://ns", "k8s://ns/", "k8s:///name"])
def test_what_names_no_service_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"write k8s://\[CONTEXT@\]NAMESPACE/NAME"):
        service_address(text)
