"""A Kubernetes API server for pods alone: lists, watches, forgets, refuses and hangs up, as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


def pod(name: str, *, ready: bool = True, running: bool = True, **more: Any) -> dict[str, Any]:
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True" if ready else "False"}]
    state = {"running": {}} if running else {"waiting": {"reason": "ContainerCreating"}}
    made: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "creationTimestamp": "2026-11-30T06:00:00Z",
            "labels": {"app": "vllm", "llm-d.ai/role": "decode"},
        },
        "spec": {
            "nodeName": "node-1",
            "nodeSelector": {"nvidia.com/gpu.product": "H200"},
            "containers": [
                {"ports": [{"containerPort": 8000, "name": "http"}], "resources": {"limits": {"nvidia.com/gpu": "2"}}}
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": conditions,
            "containerStatuses": [{"state": state}],
        },
    }
    for path, value in more.items():
        holder, _, key = path.partition("__")
        made[holder][key] = value
    return made


class FakeApi:
    """Pods with versions; watches get what happens after their version; can forget, refuse and hang up."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, str]] = {}  # labels, by name
        self.nodes_asked = 0
        self.log: list[tuple[int, dict[str, Any]]] = []
        self.version = 100
        self.oldest = 0
        self.status = 200
        self.asked: list[dict[str, str]] = []
        self.changed = asyncio.Event()
        self.hang_up = False
        self.page = 500
        self.url = ""

    def set(self, kind: str, thing: dict[str, Any]) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        name = thing["metadata"]["name"]
        if kind == "DELETED":
            self.pods.pop(name, None)
        else:
            self.pods[name] = thing
        self.log.append((self.version, {"type": kind, "object": thing}))
        self.changed.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.asked.append(query)
        if self.status != 200:
            return web.json_response({"message": "no"}, status=self.status)
        if query.get("watch") not in ("true", "True", "1"):
            return self._listing(query)
        return await self._watching(request, int(query.get("resourceVersion", "0")))

    async def node(self, request: web.Request) -> web.Response:
        self.nodes_asked += 1
        name = request.match_info["name"]
        labels = self.nodes.get(name)
        if labels is None:
            return web.json_response({"message": "nodes are not yours to see"}, status=403)
        return web.json_response({"kind": "Node", "metadata": {"name": name, "labels": labels}})

    def _listing(self, query: dict[str, str]) -> web.Response:
        names = sorted(self.pods)
        start = int(query.get("continue", "0"))
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if start + self.page < len(names):
            meta["continue"] = str(start + self.page)
        items = [self.pods[name] for name in names[start : start + self.page]]
        return web.json_response({"kind": "PodList", "metadata": meta, "items": items})

    async def _watching(self, request: web.Request, since: int) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if since < self.oldest:
            gone = {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
            }
            await response.write(json.dumps(gone).encode() + b"\n")
            return response
        while True:
            self.changed.clear()
            for version, event in [entry for entry in self.log if entry[0] > since]:
                line = json.dumps(event).encode() + b"\n"
                await response.write(line[: len(line) // 2])  # an event may come in two parts
                await response.write(line[len(line) // 2 :])
                since = version
            if self.hang_up:
                self.hang_up = False
                return response
            await self.changed.wait()


@asynccontextmanager
async def serving_pods() -> AsyncIterator[FakeApi]:
    """The server on a free port; its address is `.url`."""
    fake = FakeApi()
    app = web.Application()
    app.router.add_get("/api/v1/pods", fake.answer)
    app.router.add_get("/api/v1/namespaces/{ns}/pods", fake.answer)
    app.router.add_get("/api/v1/nodes/{name}", fake.node)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        fake.hang_up = True
        fake.changed.set()
        await runner.cleanup()
