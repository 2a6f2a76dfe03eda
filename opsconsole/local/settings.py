"""What `up` was asked for, as one frozen value that every process of single-node mode reads from a file.

Knows paths and numbers. Trap: a Unix socket's path has at most about 100 bytes; a data directory that is too deep is
refused here with a sentence instead of failing in five places.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.errors import UsageError

POOL = "local"
INTERVAL_S = 1.0  # between ticks of the agent
SOCKET_PATH_LIMIT = 100  # bytes; the kernel allows 107


@dataclass(frozen=True, slots=True)
class Measured:
    """What calibration found, for the other processes: rates per second, times in seconds."""

    bounds: Bounds
    sustained: float | None = None  # requests/s of one worker
    idle_ttft: float | None = None
    idle_tpot: float | None = None
    start_s: float | None = None  # from the decision to the first token of the first worker


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Everything decided before the first process starts. Times are seconds."""

    data_dir: str
    run_id: str
    model: str
    model_name: str
    minimum: int = 1
    maximum: int = 2
    host: str = "127.0.0.1"
    port: int = 8000
    devices: tuple[str, ...] = ()  # accelerator per worker; empty: none found
    is_cpu_only: bool = False  # asked not to use any
    threads: int = 1  # per worker
    bounds: Bounds | None = None  # None: calibrated
    measured: Measured | None = None  # None until calibration is over
    policy: str = "reactive"
    stabilise_down: float = 10.0
    drain_deadline: float = 60.0
    start_delay: float = 0.0  # added to every worker's start, to show what slower ones cost
    interval: float = INTERVAL_S  # between the agent's ticks
    time_scale: float = 1.0  # of the forecaster: a day's seconds over those of the load's day
    has_past: bool = True  # forecasts begin from what earlier runs saw; not under a built-in load
    engine_args: tuple[str, ...] = ()  # passed on to `opsconsole serve`
    worker_module: str = "opsconsole"
    worker_args: tuple[str, ...] = ("serve",)
    api_key: str | None = None
    router_token: str = ""  # the router's word to the engines that a cache salt is its own
    has_agent: bool = True
    capture: bool = False  # the router writes redacted requests to `captured`

    @property
    def folder(self) -> Path:
        return Path(self.data_dir)

    @property
    def supervisor_socket(self) -> Path:
        return self.folder / "supervisor.sock"

    @property
    def agent_socket(self) -> Path:
        return self.folder / "agent.sock"

    @property
    def database(self) -> Path:
        return self.folder / "opsconsole.db"

    @property
    def captured(self) -> Path:
        return self.folder / "captured.jsonl"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def url(self) -> str:
        """Where users ask."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def save(self, path: Path) -> None:
        """Write for the other processes; it holds keys, so only the owner may read it."""
        with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file)


def load_settings(path: Path) -> UpSettings:
    """What `save` wrote."""
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    bounds, measured = raw.pop("bounds"), raw.pop("measured")
    for key in ("devices", "engine_args", "worker_args"):
        raw[key] = tuple(raw[key])
    return UpSettings(
        **raw,
        bounds=Bounds(**bounds) if bounds else None,
        measured=read_measured(measured) if measured else None,
    )


def read_measured(raw: Mapping[str, Any]) -> Measured:
    """Of its JSON form."""
    return Measured(**{**raw, "bounds": Bounds(**raw["bounds"])})


def default_data_dir() -> Path:
    """`opsconsole` under the XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "opsconsole"


def check_data_dir(folder: Path) -> Path:
    """The folder, made and private, or a sentence why it cannot serve."""
    folder = folder.expanduser().absolute()
    if len(os.fsencode(folder / "supervisor.sock")) > SOCKET_PATH_LIMIT:
        raise UsageError(f"{folder} is too long a path for a Unix socket; name a shorter one with --data-dir")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "logs").mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"{folder} cannot be used ({error.strerror}); name another with --data-dir") from None
    return folder
