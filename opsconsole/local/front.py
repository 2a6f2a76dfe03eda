"""What waits in the router, read from its own page, for the agent: a queue while no worker is ready is demand too.

Knows one number of one page. Trap: a router that does not answer is unknown, not empty.
"""

from __future__ import annotations

import httpx

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
