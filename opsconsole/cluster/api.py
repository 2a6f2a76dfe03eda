"""One API server: found as kubectl finds it, asked with bounded patience, its failures told apart.

It knows HTTP and the kinds of failure and nothing of scaling. Built on the asyncio half of the `kubernetes` client for
what a kubeconfig may hold (tokens, exec plugins, certificates) and for tokens that rotate; objects stay plain JSON, so
that every custom resource is as good as a Deployment. The trap: a write that timed out may have arrived. It is asked
again only where the caller says that twice is as good as once (a resourceVersion in the body makes it so).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.failure import KubeError, Patience, failure_of, retry_after, unreachable
from opsconsole.cluster.kubeconfig import login
from opsconsole.errors import ConfigError

Json = Mapping[str, Any]
MERGE = "application/merge-patch+json"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Place:
    """Which cluster, as kubectl is told: all None is the current context, or the pod this runs in."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def text(self) -> str:
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return " ".join(f"{flag} {value}" for flag, value in named if value) or "the current context"


async def connect(place: Place) -> Any:
    """An `ApiClient` of the asyncio client, with a configuration of its own. Nothing is sent yet."""
    _installed()
    from kubernetes.aio import client, config

    settings = type.__call__(client.Configuration)
    try:
        if _is_inside(place):
            config.load_incluster_config(client_configuration=settings)
        else:
            await _load(place, settings)
        made = client.ApiClient(configuration=settings)  # reads the certificates
    except _broken() as error:
        raise ConfigError(
            f"No cluster is reached by {place.text}: {_words(error)}. Give --kubeconfig and --context as kubectl takes "
            "them."
        ) from error
    made.user_agent = "opsconsole"  # what a cluster's audit log calls it
    return made


async def _load(place: Place, settings: Any) -> None:
    """The kubeconfig into `settings`. Raises ValueError, a sentence, where nobody could log in with it."""
    from kubernetes.aio import config

    found = login(_paths(place), place.context)
    where = None if place.kubeconfig is None else str(place.kubeconfig)
    await config.load_kube_config(where, place.context, client_configuration=settings, persist_config=False)
    if found.plugin is not None and "BearerToken" not in settings.api_key and not settings.cert_file:
        raise ValueError(f"the plugin {found.plugin} gave no credentials for user {found.user}; run it to see why")


def _paths(place: Place) -> tuple[Path, ...]:
    """Where the kubeconfig lies: what was named, else where kubectl looks."""
    if place.kubeconfig is not None:
        return (place.kubeconfig.expanduser(),)
    from kubernetes.aio.config import kube_config

    usual = str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).split(os.pathsep)
    return tuple(Path(path).expanduser() for path in usual if path)


def _broken() -> tuple[type[Exception], ...]:
    """What the client raises over a configuration that is not one: it looks before it checks."""
    from kubernetes.aio.config import ConfigException
    from yaml import YAMLError

    return (ConfigException, YAMLError, OSError, ValueError, TypeError, AttributeError, LookupError)


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"a certificate or key of it (certificate-authority, client-certificate, client-key) is none: {error}"
    return str(error)


def namespace_of(place: Place) -> str:
    """The namespace meant where none is said: the context's, else the pod's own, else `default`."""
    if place.namespace:
        return place.namespace
    _installed()
    if _is_inside(place):
        return own_namespace() or "default"
    from kubernetes.aio.config.kube_config import list_kube_config_contexts

    try:
        contexts, current = list_kube_config_contexts(None if place.kubeconfig is None else str(place.kubeconfig))
        chosen = next((c for c in contexts if c["name"] == place.context), None) if place.context else current
        return str(((chosen or {}).get("context") or {}).get("namespace") or "default")
    except _broken():
        return "default"  # the connection itself will say what is wrong


def own_namespace() -> str | None:
    """The namespace of the pod this runs in; None outside of one."""
    return _NAMESPACE_FILE.read_text("utf-8").strip() if _NAMESPACE_FILE.is_file() else None


def _installed() -> None:
    if importlib.util.find_spec("kubernetes") is None:
        raise ConfigError("Talking to a cluster needs the kubernetes extra: pip install 'opsconsole[kubernetes]'.")


def _is_inside(place: Place) -> bool:
    """Whether the pod's own account is meant: nothing is said, no kubeconfig lies where one would, and it is a pod."""
    if place.kubeconfig is not None or place.context is not None:
        return False
    return "KUBERNETES_SERVICE_HOST" in os.environ and not any(path.is_file() for path in _paths(place))


class KubeApi:
    """Requests to one API server. Connects at the first one, and anew when it is no longer believed (401)."""

    def __init__(self, place: Place, clock: Clock, draw: random.Random | None = None) -> None:
        self.place = place
        self._clock, self._draw = clock, draw or random.Random()
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def open(self) -> None:
        """Read the configuration now; a ConfigError says what is wrong with it."""
        await self._connected()

    async def get(self, path: str, query: Json | None = None, patience: Patience | None = None) -> Any:
        return await self.ask("GET", path, query=query, patience=patience or Patience())

    async def put(self, path: str, body: Json, query: Json | None = None, patience: Patience | None = None) -> Any:
        return await self.ask("PUT", path, query=query, body=body, patience=patience or Patience())

    async def post(self, path: str, body: Json, patience: Patience | None = None) -> Any:
        return await self.ask("POST", path, body=body, patience=patience or Patience(tries=1))

    async def patch(self, path: str, body: Json, query: Json | None = None) -> Any:
        return await self.ask("PATCH", path, query=query, body=body, patience=Patience(), kind=MERGE)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | Sequence[Json] | None = None,
        patience: Patience,
        kind: str = "application/json",
    ) -> Any:
        """The answer's JSON. Raises `KubeError`: a sentence with the server's own words and its status."""
        began = self._clock.monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._once(method, path, query, body, patience.timeout_s, kind)
            except KubeError as error:
                if error.status == 401 and attempt == 1:
                    await self.close()  # a token that was rotated, or ran out
                    continue
                wait = patience.wait(attempt, error, self._draw.uniform(0.5, 1.5))
                if wait is None or self._clock.monotonic() - began + wait > patience.budget_s:
                    raise
            await self._clock.sleep(wait)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                self._client = await connect(self.place)
            return self._client

    async def _once(self, method: str, path: str, query: Json | None, body: Any, timeout_s: float, kind: str) -> Any:
        client = await self._connected()
        what = f"{method} {path}"
        try:
            async with asyncio.timeout(timeout_s):
                asked = await client.param_serialize(
                    method,
                    path,
                    query_params=list((query or {}).items()),
                    header_params={"Accept": "application/json", "Content-Type": kind},
                    body=body,
                    auth_settings=["BearerToken"],
                )
                answer = await client.call_api(*asked, _request_timeout=timeout_s)
                text = await answer.read()
        except (OSError, TimeoutError, _client_error()) as error:
            raise unreachable(what, error, timeout_s) from error
        if answer.status >= 400:
            raise failure_of(what, answer.status, text, retry_after(answer.headers))
        try:
            return json.loads(text)
        except ValueError as error:
            raise KubeError(f"{what}: the answer is not JSON, so this is no API server", answer.status) from error


def _client_error() -> type[Exception]:
    """What the transport raises; imported late because it costs more than a command without a cluster may take."""
    import aiohttp

    return aiohttp.ClientError
