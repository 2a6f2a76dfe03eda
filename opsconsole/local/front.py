"""What waits in the router, read from its own page, for the agent: a queue while no worker is ready is demand too.

Knows one number of one page. Trap: a router that does not answer is unknown, not empty.
"""

from __future__ import annotations

import httpx

from opsconsole.clock import Clock
from opsconsole.domain.records import PrefixView

NAME = "opsconsole:router_queue"
ASK_TIMEOUT = 0.5  # s


class RouterQueue:
    """Await it for the requests that wait in the router at `url`."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=ASK_TIMEOUT, trust_env=False)

    async def __call__(self) -> float | None:
        try:
            response = await self._client.get("/metrics")
        except httpx.HTTPError:
            return None
        return queue_length(response.text) if response.status_code == 200 else None

    async def close(self) -> None:
        await self._client.aclose()


class RouterPrefixes:
    """Await it for the prompt prefixes that many requests share; empty while the router does not answer."""

    def __init__(self, url: str, token: str, clock: Clock) -> None:
        self._client = httpx.AsyncClient(
            base_url=url, timeout=ASK_TIMEOUT, trust_env=False, headers={"x-opsconsole-router": token}
        )
        self._clock = clock

    async def __call__(self) -> tuple[PrefixView, ...]:
        try:
            response = await self._client.get("/prefixes")
            items = response.json()["items"] if response.status_code == 200 else ()
        except (httpx.HTTPError, ValueError, KeyError):
            return ()
        now = self._clock.now()
        return tuple(
            PrefixView(
                str(item["prefix"])[:8], float(item["tokens"]), int(item["requests"]), int(item["forks"]),
                tuple(item["holders"]), now - float(item["age"]),
            )
            for item in items
        )  # fmt: skip

    async def close(self) -> None:
        await self._client.aclose()


def queue_length(page: str) -> float | None:
    """The queue in a router's page; None where it does not stand there."""
    for line in page.splitlines():
        name, _, value = line.partition(" ")
        if name == NAME:
            try:
                return float(value)
            except ValueError:
                return None
    return None
