"""The processes beside the workers: the router on the users' port and the agent. Restarted with back-off when they die.

The listening socket is bound here, before anything starts: a port in use is told at once, requests that come early wait
in the socket's own queue, and a restarted router goes on with the same socket. Trap: it must stay inheritable.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from opsconsole.clock import Clock
from opsconsole.errors import UsageError
from opsconsole.local import lifeline
from opsconsole.local.settings import UpSettings

BACKOFF_FIRST, BACKOFF_MOST = 0.5, 10.0  # s
AGENT_GRACE = 5.0  # s to write its last lines


def bind(host: str, port: int) -> socket.socket:
    """The users' port, held from now on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise UsageError(f"{host}:{port} cannot be used ({error.strerror}); choose another port with --port") from None
    listener.set_inheritable(True)
    return listener


class Companion:
    """One process kept alive until told otherwise."""

    def __init__(self, name: str, module: str, args: list[str], log: Path, clock: Clock, fds: tuple[int, ...]) -> None:
        self.name = name
        self.restarts = 0
        self._module, self._args, self._log, self._clock, self._fds = module, args, log, clock, fds
        self._process: asyncio.subprocess.Process | None = None
        self._is_ending = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _run(self) -> None:
        wait = BACKOFF_FIRST
        while not self._is_ending:
            began = self._clock.monotonic()
            self._process = await lifeline.spawn(self._module, self._args, log=self._log, pass_fds=self._fds)
            await self._process.wait()
            if self._was_stopped():
                return
            self.restarts += 1
            wait = BACKOFF_FIRST if self._clock.monotonic() - began > 60 else min(wait * 2, BACKOFF_MOST)
            await self._clock.sleep(wait)

    def _was_stopped(self) -> bool:
        return self._is_ending

    async def stop(self, grace: float) -> None:
        """End it, by force after `grace` seconds."""
        self._is_ending = True
        if self._process is not None:
            await lifeline.stop(self._process, grace)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Companions:
    """Router and agent."""

    def __init__(self, settings: UpSettings, settings_file: Path, listener: socket.socket, clock: Clock) -> None:
        self._settings, self._file, self._listener, self._clock = settings, settings_file, listener, clock
        self.router: Companion | None = None
        self.agent: Companion | None = None

    async def start(self) -> None:
        """Start what does not run yet."""
        logs, fd = self._settings.logs, self._listener.fileno()
        if self.router is None:
            args = [str(self._file), str(fd)]
            log = logs / "router.log"
            self.router = Companion("router", "opsconsole.local.router", args, log, self._clock, (fd,))
        if self.agent is None and self._settings.has_agent:
            log = logs / "agent.log"
            self.agent = Companion("agent", "opsconsole.local.agent", [str(self._file)], log, self._clock, ())

    async def stop(self, grace: float) -> None:
        """The agent first: it must not act on a world that is being taken down."""
        if self.agent is not None:
            await self.agent.stop(AGENT_GRACE)
        if self.router is not None:
            await self.router.stop(grace)
        self._listener.close()
