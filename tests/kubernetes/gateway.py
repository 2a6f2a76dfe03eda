"""The gateway's part, played: streams sent to pods that are Ready and whose label does not take them out of routing.

It counts how each stream ended. The trap: a list of pods that is a moment old sends a request to one that has begun to
drain, and is refused; a gateway tries the next one then, and so does this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import httpx

from tests.kubernetes.worlds import Maker

PATIENCE_S = 300.0  # for the next byte: on a machine with much else to do a queue of these takes minutes


class Gateway:
    """Sends streams round robin."""

    def __init__(self, here: Maker, name: str = "vllm", tokens: int = 60) -> None:
        self._here, self._name, self._tokens = here, name, tokens
        self.ended: Counter[str] = Counter()
        self._turn: Iterator[int] = cycle(range(10_000))
        self._known: list[str] = []

    def routable(self) -> list[str]:
        """Base URLs of pods that may get a request."""
        ready = set(self._here.ready(self._name))
        return [
            f"http://{p['status']['podIP']}:8000"
            for p in self._here.pods(self._name)
            if p["metadata"]["name"] in ready and p["metadata"]["labels"].get("opsconsole.dev/serving") != "false"
        ]

    def _last_known(self) -> list[str]:
        """While the API server is away a gateway goes by what it knew."""
        with contextlib.suppress(httpx.HTTPError, RuntimeError):
            self._known = self.routable()
        return self._known

    async def press(self, streams: int, until: asyncio.Event) -> None:
        """Keep so many streams open until told to stop; each ends by itself."""
        async with httpx.AsyncClient(timeout=httpx.Timeout(60.0, read=PATIENCE_S)) as client:
            await asyncio.gather(*(self._one_after_another(client, until) for _ in range(streams)))

    async def _one_after_another(self, client: httpx.AsyncClient, until: asyncio.Event) -> None:
        while not until.is_set():
            urls = await asyncio.to_thread(self._last_known)
            if not urls:
                await asyncio.sleep(0.2)
                continue
            await self._stream(client, urls[next(self._turn) % len(urls)])

    async def _stream(self, client: httpx.AsyncClient, url: str) -> None:
        body: dict[str, Any] = {"model": "stand-in", "prompt": "count", "max_tokens": self._tokens, "stream": True}
        try:
            async with client.stream("POST", f"{url}/v1/completions", json={**body, "ignore_eos": True}) as answer:
                if answer.status_code != 200:
                    self.ended[f"refused {answer.status_code}"] += 1
                    await asyncio.sleep(0.2)
                    return
                text = "".join([part async for part in answer.aiter_text()])
                self.ended["whole" if text.rstrip().endswith("[DONE]") else "cut"] += 1
        except httpx.ConnectError:
            self.ended["not there yet"] += 1  # Ready by the pod's word alone: no stream began
            await asyncio.sleep(0.2)
        except httpx.HTTPError as error:
            self.ended[f"cut by {type(error).__name__}"] += 1
