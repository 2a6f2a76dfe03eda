"""Where the API listens: the Unix socket of the data folder, and a TCP address when asked for.

It knows sockets and uvicorn and no routes. The trap: a socket file outlives a process that was killed, so a leftover
that nobody answers on is removed, and one that somebody answers on is never touched; a lock held by the process
(and let go by the kernel, however it ends) says which it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import uvicorn
from starlette.applications import Starlette

from opsconsole.control.settings import Listen, Token
from opsconsole.errors import ConfigError, UsageError

LONGEST_SOCKET_PATH = 100  # bytes; the kernel allows 107
GRACE_S = 2


class QuietServer(uvicorn.Server):
    """uvicorn without its signal handlers: the agent has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def sole_agent(data_dir: Path) -> Iterator[None]:
    """Hold the data folder for this process, or say who does."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = data_dir / "agent.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{data_dir} is in use by another agent ({_holder(file)}): name another --data-dir."
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"pid {os.getpid()}\n")
        file.flush()
        yield


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read(64).strip() or "pid unknown"


def unix_listener(path: Path) -> socket.socket:
    """A listening Unix socket only its owner may open. Call only while holding the data folder."""
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise UsageError(
            f"The socket's path {path} is longer than {LONGEST_SOCKET_PATH} bytes: name a shorter --data-dir."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def check_listen(listen: Listen, tokens: Sequence[Token]) -> None:
    """Refuse to open the API to others unprotected."""
    if not tokens:
        raise ConfigError(f"Listening on {listen.host}:{listen.port} needs at least one token: see [[agent.tokens]].")
    if listen.certificate is None and not _is_loopback(listen.host):
        raise ConfigError(
            f"Listening on {listen.host} without TLS would show tokens to the network: set tls_cert and tls_key."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tcp_listener(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((listen.host, listen.port))
    except OSError as error:
        listener.close()
        raise UsageError(f"Cannot listen on {listen.host}:{listen.port}: {error.strerror}.") from error
    listener.listen(64)
    return listener


def server(app: Starlette, listen: Listen | None = None) -> QuietServer:
    """A server for one listener; with TLS where the listener has a certificate."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # a forwarded address must not pass for the socket's owner
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    if listen is not None and listen.certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(listen.certificate, listen.key)
        except OSError as error:
            raise ConfigError(f"The certificate {listen.certificate} cannot be used: {error}.") from error
        config.ssl = context
    return QuietServer(config)


async def serve_until(stop: asyncio.Event, servers: Sequence[tuple[QuietServer, socket.socket]]) -> None:
    """Run the servers until `stop`; raise when one of them ends by itself."""
    tasks = [asyncio.create_task(each.serve(sockets=[listener])) for each, listener in servers]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        for each, _ in servers:
            each.should_exit = True
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
