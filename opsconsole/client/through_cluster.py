"""An agent in a cluster, reached through the API server: `k8s://[CONTEXT@]NAMESPACE/NAME[:PORT]` as an HTTP transport.

It knows the API server's way to a Service and nothing of what is asked. What a kubeconfig holds opens the API server;
the agent's own token goes in a header of its own. The traps: the API server keeps `Authorization` for itself and passes
it on to nobody; and its own refusals look like the agent's, so they are told apart by their kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx

from opsconsole.errors import AgentUnavailable, UsageError

SCHEME = "k8s://"
TOKEN_HEADER = "x-opsconsole-token"
_FORM = re.compile(
    r"k8s://(?:(?P<context>.+)@)?(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+)(?::(?P<port>[a-z0-9-]+))?/?"
)


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A Service, and by which context of the kubeconfig; the port by its name or number."""

    context: str | None
    namespace: str
    name: str
    port: str = "api"

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/services/https:{self.name}:{self.port}/proxy"


def service_address(text: str) -> ServiceAddress:
    """The Service that `k8s://...` names; what names none is a UsageError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} names no agent in a cluster: write k8s://[CONTEXT@]NAMESPACE/NAME.")
    return ServiceAddress(match["context"], match["namespace"], match["name"], match["port"] or "api")


class ThroughCluster(httpx.AsyncBaseTransport):
    """Sends an agent's requests by way of the API server."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._client: Any = None
        self._inner: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        inner = await self._reached()
        headers = httpx.Headers(request.headers)
        own = headers.pop("authorization", "")
        if own:
            headers[TOKEN_HEADER] = own.partition(" ")[2]
        headers.update(await self._authorization())
        server = self._client.configuration.host.rstrip("/")
        url = httpx.URL(server + self._address.path + request.url.raw_path.decode())
        headers["host"] = url.netloc.decode()
        stream, extensions = request.stream, request.extensions
        answer = await inner.handle_async_request(
            httpx.Request(request.method, url, headers=headers, stream=stream, extensions=extensions)
        )
        if answer.status_code >= 400:
            await self._own_refusal(answer)
        return answer

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()
        if self._client is not None:
            await self._client.close()

    async def _reached(self) -> httpx.AsyncHTTPTransport:
        if self._inner is None:
            from opsconsole.cluster.api import Place, connect

            self._client = await connect(Place(context=self._address.context))
            self._inner = httpx.AsyncHTTPTransport(verify=self._client.rest_client.ssl_context)
        return self._inner

    async def _authorization(self) -> dict[str, str]:
        """The kubeconfig's token, refreshed where it can be; none where a certificate stands for the person."""
        told = await self._client.configuration.auth_settings()
        return {str(each["key"]): str(each["value"]) for each in told.values()}

    async def _own_refusal(self, answer: httpx.Response) -> None:
        """Raise where it is the API server that refuses."""
        await answer.aread()
        try:
            told = answer.json()
        except ValueError:
            return
        if isinstance(told, dict) and told.get("kind") == "Status":
            where = f"{self._address.namespace}/{self._address.name}"
            raise AgentUnavailable(f"The cluster does not lead to the agent {where}: {told.get('message')}")
