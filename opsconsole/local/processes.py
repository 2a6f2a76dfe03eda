"""The life of one worker's process: start it, see it become ready, drain it, see it go.

Talks HTTP to the worker and signals to its process; what should live is decided elsewhere. Trap: readiness is the
engine's word that it has produced a token, not that a port answers.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, NamedTuple

import httpx

from opsconsole.local import lifeline
from opsconsole.local.settings import UpSettings
from opsconsole.local.workers import Worker

ASK_TIMEOUT = 2.0  # s


class Health(NamedTuple):
    """What a worker says of itself; `answers` is False where nothing listens yet."""

    answers: bool
    ready: bool = False
    status: str | None = None
    streams: int | None = None


def reserve_port() -> socket.socket:
    """A loopback port that is taken from now on: bound for a worker that will listen once it has loaded.

    Without SO_REUSEADDR on purpose: with it another socket could be bound to the same port until one of them listens.
    """
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


class WorkerProcess:
    """One process and the way to talk to it."""

    def __init__(self, worker: Worker, settings: UpSettings) -> None:
        self.worker = worker
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._client = httpx.AsyncClient(timeout=ASK_TIMEOUT, trust_env=False)

    async def start(self, bounds: str | None) -> None:
        """Start it on a port of its own; `bounds` is the SLO it counts by."""
        log = self._settings.logs / f"{self.worker.name}.log"
        environment = worker_environment(self._settings, self.worker.device)
        with reserve_port() as bound:  # the child holds it on
            self.worker.url = "http://{}:{}".format(*bound.getsockname())
            fd = bound.fileno()
            args = worker_args(self._settings, fd, bounds)
            self._process = await lifeline.spawn(
                self._settings.worker_module, args, log=log, env=environment, pass_fds=(fd,)
            )
        self.worker.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def wait(self) -> str:
        """Until it ends; how, in words."""
        if self._process is None:
            return "was never started"
        return lifeline.exit_words(await self._process.wait())

    async def health(self) -> Health:
        """Its own word. Never raises."""
        try:
            response = await self._client.get(f"{self.worker.url}/health")
        except httpx.HTTPError:
            return Health(answers=False)
        body: dict[str, Any] = {}
        with suppress(ValueError):
            parsed = response.json()
            body = parsed if isinstance(parsed, dict) else {}
        return Health(True, response.status_code == 200, body.get("status"), _streams(body))

    async def post(self, path: str, body: Any = None) -> int | None:
        """Status of a POST; None where nothing answered."""
        token = self._settings.router_token
        headers = {"x-opsconsole-router": token, "authorization": f"Bearer {token}"} if token else {}
        try:
            return (await self._client.post(f"{self.worker.url}{path}", json=body, headers=headers)).status_code
        except httpx.HTTPError:
            return None

    async def streams(self) -> int | None:
        """Requests it is working on; None where it does not tell."""
        try:
            response = await self._client.get(f"{self.worker.url}/metrics")
        except httpx.HTTPError:
            return None
        return running_streams(response.text) if response.status_code == 200 else None

    async def stop(self, grace: float) -> None:
        """End it, by force after `grace` seconds."""
        if self._process is not None:
            await lifeline.stop(self._process, grace)
        await self._client.aclose()

    def kill(self) -> None:
        """End it now."""
        if self._process is not None:
            lifeline.kill_group(self._process.pid)

    async def close(self) -> None:
        """The process has ended by itself."""
        if self._process is not None:
            lifeline.kill_group(self._process.pid)
        await self._client.aclose()


def _streams(body: dict[str, Any]) -> int | None:
    value = body.get("streams")
    return value if isinstance(value, int) else None


def running_streams(page: str) -> int | None:
    """Requests running or waiting in a metrics page; None where neither is told."""
    names = ("opsconsole:streams_running", "vllm:num_requests_running", "vllm:num_requests_waiting")
    found: dict[str, float] = {}
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in names:
            with suppress(ValueError):
                found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[-1])
    if not found:
        return None
    return int(max(found.get(names[0], 0.0), found.get(names[1], 0.0) + found.get(names[2], 0.0)))


def worker_args(settings: UpSettings, fd: int, bounds: str | None) -> list[str]:
    """The engine's command line; `fd` is the bound socket it inherits."""
    args = [*settings.worker_args, "--fd", str(fd), "--model", settings.model]
    args += ["--served-model-name", settings.model_name, "--threads", str(settings.threads)]
    if bounds:
        args += ["--slo", f"default:{bounds}"]
    return [*args, *settings.engine_args]


def worker_environment(settings: UpSettings, device: str | None) -> dict[str, str]:
    """Threads are fixed at start, and each worker sees one device only. The token stays out of the command line."""
    environment = {
        "OMP_NUM_THREADS": str(settings.threads),
        "OPSCONSOLE_TRUSTED_ROUTER_TOKEN": settings.router_token,
        "OPSCONSOLE_API_KEY": settings.router_token,  # users come through the router, or not at all
        "PYTHONUNBUFFERED": "1",
    }
    if device is not None or settings.is_cpu_only:
        environment["CUDA_VISIBLE_DEVICES"] = device or ""
    return environment
