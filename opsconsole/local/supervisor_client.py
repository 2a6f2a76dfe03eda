"""Asking the supervisor, from the router, the agent and the console.

Trap: it lives on a Unix socket that disappears with it; "cannot be asked" is an error sentence, never an empty state.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from opsconsole.errors import AgentUnavailable, PlanRefused
from opsconsole.local.changes import Change
from opsconsole.local.settings import Measured

TIMEOUT = 5.0  # s, above what a request waits for news


class SupervisorClient:
    """One connection to one supervisor."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://supervisor", timeout=TIMEOUT)

    async def __aenter__(self) -> SupervisorClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def state(self, *, after: int | None = None, wait: float = 0.0, events_after: int = 0) -> dict[str, Any]:
        """The state now, or as soon as its version differs from `after`, at most `wait` seconds later."""
        query: dict[str, str] = {"events_after": str(events_after)}
        if after is not None:
            query |= {"after": str(after), "wait": str(wait)}
        return await self._ask("GET", "/state", params=query, timeout=TIMEOUT + wait)

    async def begin(self, measured: Measured) -> dict[str, Any]:
        """Calibration is over."""
        return await self._ask("POST", "/begin", json=asdict(measured))

    async def act(self, change: Change) -> dict[str, Any]:
        """Change the pool. Raises `PlanRefused` when the world is not the one of the change's version any more."""
        return await self._ask("POST", f"/{change.kind}", json=asdict(change))

    async def followed(self, act_id: str) -> dict[str, Any]:
        """What became of a change. Raises `PlanRefused` for one never seen."""
        return await self._ask("GET", f"/acts/{act_id}")

    async def stop(self, grace_s: float = 10.0) -> None:
        await self._ask("POST", "/stop", json={"grace_s": grace_s})

    async def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise AgentUnavailable(f"no supervisor answers at {self._socket} ({error}); is `up` running?") from error
        body: dict[str, Any] = response.json()
        if response.status_code in (404, 409):
            raise PlanRefused(str(body["error"]))
        response.raise_for_status()
        return body
