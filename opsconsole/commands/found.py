"""What there is to show when nobody said what: an agent that runs, sources in the configuration, engines on loopback.

It must not start anything; it says what it found. The trap: everything here happens before the first frame, so a port
that accepts and then says nothing may cost half a second, once, and tables are only imported when something answered.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.config import Config

# Where engines listen unless told otherwise: vLLM and most others, SGLang, llama.cpp, TGI, LMDeploy.
PORTS = (8000, 8001, 8002, 8003, 8080, 3000, 23333, 30000, 30001)
PATIENCE_S = 0.5
MOST_BYTES = 2_000_000


def state_home() -> Path:
    """Where agents of this user keep their sockets."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "opsconsole"


def find_agent() -> str | None:
    """An agent's socket of this user that something listens on; the newest wins."""
    named = os.environ.get("OPSCONSOLE_AGENT")
    if named:
        return named
    places = [*state_home().glob("agent.sock"), *state_home().glob("*/agent.sock")]
    found = [path for path in places if listening(path)]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def listening(path: Path) -> bool:
    """Whether a process accepts connections on the socket; a file left behind by a dead one does not count."""
    import socket

    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(PATIENCE_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def configuration(environ: Mapping[str, str]) -> Config | None:
    """The configuration in force, where a file or a variable gives one; a wrong one is a `ConfigError`."""
    from opsconsole.tui.settings import config_path

    is_given = any(name.startswith("OPSCONSOLE_") and "__" in name for name in environ)
    if not is_given and not config_path(environ).is_file():
        return None
    from opsconsole.config import load

    return load(env=environ).config


def configured_agent(config: Config) -> str | None:
    """The socket of the agent that this configuration is for, when it runs in a data folder of its own."""
    folder = config.agent.data_dir
    if folder is None:
        return None
    path = folder.expanduser() / "agent.sock"
    return str(path) if listening(path) else None


def names_sources(config: Config) -> bool:
    """Whether an agent of our own would have anything to look at."""
    own = config.sources
    if own.targets or own.dns or own.files or own.prometheus is not None or own.kubernetes is not None:
        return True
    return any(pool.targets or pool.selector is not None or pool.target is not None for pool in config.pool.values())


def ports(environ: Mapping[str, str]) -> tuple[int, ...]:
    """The ports to ask: `$OPSCONSOLE_PORTS` (empty: none), else the usual ones."""
    words = environ.get("OPSCONSOLE_PORTS")
    if words is None:
        return PORTS
    try:
        given = tuple(int(word) for word in words.replace(",", " ").split())
        if all(0 < port < 65536 for port in given):
            return given
    except ValueError:
        pass
    raise UsageError(f"OPSCONSOLE_PORTS={words} is no list of ports, such as 8000,8080.")


def engines(ports: Sequence[int]) -> tuple[str, ...]:
    """Addresses on loopback whose /metrics is a known engine's, in the order of the ports."""
    if not ports:
        return ()
    with ThreadPoolExecutor(len(ports)) as pool:
        pages = list(pool.map(_page, ports))
    return tuple(f"127.0.0.1:{port}" for port, page in zip(ports, pages, strict=True) if page and _is_engines(page))


def _page(port: int) -> bytes | None:
    """What a port answers to a scrape; None for silence, refusal and errors."""
    import socket

    try:  # most ports are closed, and then nothing of HTTP is needed
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except OSError:
        return None
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read(MOST_BYTES) if answer.status == 200 else None
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _is_engines(page: bytes) -> bool:
    from opsconsole.observe.diagnosis import read_page
    from opsconsole.observe.dialects.normalise import new_memo

    reading = read_page(page, None, new_memo()).reading
    return reading is not None and reading.engine is not None
