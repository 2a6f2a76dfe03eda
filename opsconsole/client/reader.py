"""The reading half of the agent's API: what every screen and command knows of the world.

It knows addresses, records and errors, and neither scrapes nor decides. An address is a socket's path
(`/run/x/agent.sock`, `unix:/run/x/agent.sock`), a URL, or a Service of a cluster (`k8s://NAMESPACE/NAME`). The trap:
`stream()` ends when the agent does, so a caller that must outlive it reconnects; nothing here retries behind the
caller's back.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import httpx

from opsconsole.client.socket_stream import opened
from opsconsole.client.through_cluster import SCHEME, ThroughCluster, service_address
from opsconsole.domain.beside import TOLD, TOPICS, EventReader, Turn
from opsconsole.domain.records import (
    AlertView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    HoldView,
    JournalEntry,
)
from opsconsole.domain.wire import WireError, from_json, loads, loads_by_parts
from opsconsole.errors import AgentUnavailable, PlanRefused, UsageError

T = TypeVar("T")
CONNECT_S, READ_S = 3.0, 30.0
AT_ONCE = 8  # records of a tick read in one go, about a millisecond
SHORT = 24_000  # characters of a tick that is read in one go: about so many records


class AgentReader:
    """One connection to one agent, for looking. Use as an async context manager, or call `aclose`."""

    def __init__(self, address: str, *, token: str | None = None, who: str | None = None, verify: bool = True) -> None:
        self.address = address
        path = socket_path(address)
        cluster = address.startswith(SCHEME)
        if not path:
            token = token or os.environ.get("OPSCONSOLE_TOKEN")
        self._headers = {"x-opsconsole-who": who or _login()}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._http = httpx.AsyncClient(
            base_url="http://agent" if path or cluster else address.rstrip("/"),
            transport=_transport(address, path),
            headers=self._headers,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            verify=verify,
            trust_env=path is None,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def snapshot(self) -> FleetSnapshot:
        """The newest tick. Raises `AgentUnavailable` while there is none yet."""
        return self._record(FleetSnapshot, await self._get("/v1/snapshot"))

    async def stream(self) -> AsyncIterator[FleetSnapshot]:
        """Every new tick as it is made; a slow reader is given the newest and skips the rest."""
        async with contextlib.aclosing(self.follow(())) as turns:
            async for turn in turns:
                yield turn.snapshot

    async def follow(self, topics: Sequence[str]) -> AsyncGenerator[Turn]:
        """Every new tick with what else changed of these topics; which of them the agent tells is in each turn."""
        told: frozenset[str] = frozenset()
        beside: dict[str, tuple[Any, ...]] = {}
        async with contextlib.aclosing(self._events(f"/v1/stream?with={','.join(topics)}")) as events:
            async for name, text in events:
                if not name:
                    yield Turn(await self._piecemeal(text), beside, told)
                    beside = {}
                elif name == TOLD:
                    told = frozenset(self._listed(text))
                elif name in told:
                    beside[name] = tuple(self._record(TOPICS[name], item) for item in self._listed(text))

    async def _events(self, target: str) -> AsyncGenerator[tuple[str, str]]:
        """Name and text of each event; over a socket by the lean way, where it answers as it should."""
        reader, path = EventReader(), socket_path(self.address)
        try:
            if path:
                async with opened(path, target, self._headers, CONNECT_S) as pieces:
                    if pieces is not None:
                        async for piece in pieces:
                            for found in reader.feed(piece):
                                yield found
                        return
            async with self._http.stream("GET", target, timeout=httpx.Timeout(None, connect=CONNECT_S)) as reply:
                if reply.status_code != 200:
                    await reply.aread()
                    self._raise(reply)
                async for piece in reply.aiter_bytes():
                    for found in reader.feed(piece):
                        yield found
        except (httpx.HTTPError, OSError) as error:
            raise self._gone(error) from error

    async def history(
        self,
        since: float | None = None,
        until: float | None = None,
        *,
        step: float | None = None,
        pools_only: bool = False,
        limit: int = 600,
    ) -> tuple[FleetSnapshot, ...]:
        """Past ticks, oldest first, at most one per `step` seconds. `pools_only` leaves replicas out."""
        query = {"since": since, "until": until, "step": step, "limit": limit, "pools": int(pools_only)}
        return self._many(FleetSnapshot, await self._get("/v1/history", query))

    async def at(self, at: float) -> FleetSnapshot | None:
        """The tick that was newest at `at` (Unix seconds), or None when history does not reach back so far."""
        found = self._many(FleetSnapshot, await self._get("/v1/history", {"at": at}))
        return found[0] if found else None

    async def decisions(self, at: float | None = None) -> tuple[DecisionView, ...]:
        """The decision of each pool as it stood at `at`, by default now, with its whole trace."""
        return self._many(DecisionView, await self._get("/v1/decisions", {"at": at}))

    async def forecast(self, pool: str | None = None, *, at: float | None = None) -> tuple[ForecastView, ...]:
        """The newest forecasts, or those that the decisions of a past moment were made from."""
        return self._many(ForecastView, await self._get("/v1/forecast", {"pool": pool, "at": at}))

    async def journal(
        self,
        *,
        after: int | None = None,
        since: float | None = None,
        until: float | None = None,
        kind: str | None = None,
        pool: str | None = None,
        limit: int = 200,
    ) -> tuple[JournalEntry, ...]:
        """Newest `limit` entries that fit, oldest of them first; `after` is a `seq` already seen."""
        query = {"after": after, "since": since, "until": until, "kind": kind, "pool": pool, "limit": limit}
        return self._many(JournalEntry, await self._get("/v1/journal", query))

    async def alerts(self) -> tuple[AlertView, ...]:
        return self._many(AlertView, await self._get("/v1/alerts"))

    async def holds(self) -> tuple[HoldView, ...]:
        return self._many(HoldView, await self._get("/v1/holds"))

    async def ready(self) -> bool:
        """Whether the agent has made a tick lately."""
        try:
            return (await self._http.get("/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        given = {key: value for key, value in (query or {}).items() if value is not None}
        return await self._send("GET", path, params=given)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._send("POST", path, json=dict(body))

    async def _send(self, method: str, path: str, **more: Any) -> Any:
        try:
            reply = await self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise self._gone(error) from error
        if reply.status_code >= 400:
            self._raise(reply)
        try:
            return reply.json()
        except ValueError as error:
            raise AgentUnavailable(f"{self.address} answers, but it is not an opsconsole agent.") from error

    async def _piecemeal(self, text: str) -> FleetSnapshot:
        """A tick, read a few replicas at a time: a key pressed meanwhile waits for those, not for a thousand."""
        try:
            if len(text) < SHORT:
                return loads(FleetSnapshot, text)
            steps = loads_by_parts(FleetSnapshot, text)
            while True:
                for _ in range(AT_ONCE):
                    next(steps)
                await asyncio.sleep(0)
        except StopIteration as end:
            return cast("FleetSnapshot", end.value)
        except WireError as error:
            raise AgentUnavailable(f"{self.address} sent a FleetSnapshot that cannot be read: {error}") from error

    def _listed(self, text: str) -> list[Any]:
        """A list of JSON."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise AgentUnavailable(f"{self.address} sent an event that cannot be read: {error}") from error
        if not isinstance(found, list):
            raise AgentUnavailable(f"{self.address} sent an event that is no list.")
        return found

    def _record(self, kind: type[T], data: Any) -> T:
        try:
            return from_json(kind, data)
        except WireError as error:
            raise AgentUnavailable(f"{self.address} sent a {kind.__name__} that cannot be read: {error}") from error

    def _many(self, kind: type[T], data: Any) -> tuple[T, ...]:
        return tuple(self._record(kind, item) for item in data["items"])

    def _gone(self, error: Exception) -> AgentUnavailable:
        detail = str(error) or type(error).__name__
        return AgentUnavailable(f"No agent answers at {self.address} ({detail}). Is it running? See `opsconsole up`.")

    def _raise(self, reply: httpx.Response) -> None:
        try:
            text = str(reply.json()["error"])
        except (ValueError, KeyError, TypeError):
            text = f"{self.address} answered {reply.status_code}."
        if reply.status_code in (409, 403):
            raise PlanRefused(text)
        if reply.status_code in (400, 404, 422):
            raise UsageError(text)
        raise AgentUnavailable(text)


def _transport(address: str, path: str | None) -> httpx.AsyncBaseTransport | None:
    """How an address that is no plain URL is reached; None for a URL."""
    if address.startswith(SCHEME):
        return ThroughCluster(service_address(address))
    return httpx.AsyncHTTPTransport(uds=path) if path else None


def socket_path(address: str) -> str | None:
    """The path when the address names a Unix socket, else None."""
    if address.startswith("unix:"):
        return address.removeprefix("unix:").removeprefix("//")
    return None if "://" in address else address


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
