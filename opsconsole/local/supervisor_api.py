"""The supervisor's voice: HTTP on a Unix socket in the data directory, and the process that carries it.

`python -m opsconsole.local.supervisor_api SETTINGS`. Trap: POST /scale carries the version its plan was made for; a
world that has moved since answers 409 and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from opsconsole.clock import SystemClock
from opsconsole.errors import OpsConsoleError
from opsconsole.local.changes import Change
from opsconsole.local.companions import Companions, bind
from opsconsole.local.settings import load_settings, read_measured
from opsconsole.local.supervisor import Supervisor

WAIT_MOST = 30.0  # s a state request may wait for news
ORPHAN_GRACE = 1.0  # s for the end when the console that started us has died
EXIT_PORT = 3  # the port could not be bound; the reason is on stderr


class Api:
    """Requests to the supervisor, checked."""

    def __init__(self, supervisor: Supervisor, ended: asyncio.Event, now: Callable[[], float]) -> None:
        self._now = now
        self._supervisor = supervisor
        self._ended = ended
        self._stop: asyncio.Task[None] | None = None

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/state", self._state, methods=["GET"]),
                Route("/begin", self._begin, methods=["POST"]),
                *(Route(path, self._change, methods=["POST"]) for path in ("/scale", "/drain", "/undrain")),
                Route("/acts/{act_id}", self._followed, methods=["GET"]),
                Route("/stop", self._stop_all, methods=["POST"]),
            ]
        )

    def begin_stop(self, grace: float) -> None:
        """Start to end everything; asking twice ends it no sooner."""
        if self._stop is None:
            self._stop = asyncio.get_running_loop().create_task(self._end(grace))

    async def _end(self, grace: float) -> None:
        try:
            await self._supervisor.stop(grace)
        finally:
            self._ended.set()

    async def _state(self, request: Request) -> JSONResponse:
        query = request.query_params
        with suppress(ValueError):
            if "after" in query:
                await self._supervisor.wait_moved(int(query["after"]), min(WAIT_MOST, float(query.get("wait", 5))))
        return JSONResponse(self._supervisor.state(int(query.get("events_after", 0))))

    async def _begin(self, request: Request) -> JSONResponse:
        await self._supervisor.begin(read_measured(await request.json()))
        return JSONResponse(self._supervisor.state())

    async def _change(self, request: Request) -> JSONResponse:
        try:
            body = await request.json()
            body["names"] = tuple(body.get("names") or ())
            change = Change(**{**body, "kind": request.url.path.strip("/")})
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": f"this is not a change: {error}"}, 400)
        supervisor = self._supervisor
        if supervisor.is_stopping:
            return JSONResponse({"error": "the supervisor is stopping"}, 409)
        version = supervisor.workers.version
        if change.act_id not in supervisor.acts and change.version not in (None, str(version)):
            text = f"the world has moved: it is at version {version}, the plan was made for {change.version}"
            return JSONResponse({"error": text, "version": version}, 409)
        await supervisor.change(change)
        return JSONResponse(supervisor.state(), 202)

    async def _followed(self, request: Request) -> JSONResponse:
        act_id, supervisor = request.path_params["act_id"], self._supervisor
        found = supervisor.acts.follow(act_id, supervisor.workers, self._now())
        if found is None:
            return JSONResponse({"error": f"no change {act_id} has been taken here"}, 404)
        return JSONResponse(found)

    async def _stop_all(self, request: Request) -> JSONResponse:
        raw = await request.body()
        grace = float((await request.json()).get("grace_s", 10.0)) if raw else 10.0
        self.begin_stop(grace)
        return JSONResponse({"stopping": True}, 202)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers; ours know a dead parent from a wish to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings_file: Path) -> None:
    """Run until told to stop, by request, by signal, or by the death of the process that started us."""
    settings = load_settings(settings_file)
    clock = SystemClock()
    listener = bind(settings.host, settings.port)
    supervisor = Supervisor(settings, settings_file, clock, Companions(settings, settings_file, listener, clock))
    ended = asyncio.Event()
    api = Api(supervisor, ended, clock.now)
    with suppress(FileNotFoundError):
        settings.supervisor_socket.unlink()
    config = uvicorn.Config(
        api.app(), uds=str(settings.supervisor_socket), log_level="warning", timeout_graceful_shutdown=1, lifespan="off"
    )
    server = _Server(config)
    parent = os.getppid()

    def asked_to_stop() -> None:
        api.begin_stop(10.0 if os.getppid() == parent else ORPHAN_GRACE)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop)
    supervisor.start()
    serving = loop.create_task(server.serve())
    await ended.wait()
    await clock.sleep(0.05)
    server.should_exit = True
    await serving
    with suppress(FileNotFoundError):
        settings.supervisor_socket.unlink()


def main() -> None:
    """The process."""
    try:
        asyncio.run(serve(Path(sys.argv[1])))
    except OpsConsoleError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_PORT)


if __name__ == "__main__":
    main()
