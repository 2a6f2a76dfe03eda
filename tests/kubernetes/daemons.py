"""`opsconsole autoscale` as a process of its own, on the plane: configuration, start, end, and what it says."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.kubernetes.plane import ADMIN_TOKEN, niced
from tests.kubernetes.worlds import Maker
from tests.ports import free_port

CONFIG = """
[agent]
fleet = "{fleet}"
interval = "1s"
data_dir = "{data}"
listen = "127.0.0.1:{port}"
[[agent.tokens]]
name = "tests"
role = "operate"
secret = "{secret}"
[slo.chat]
ttft = "2s"
[kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
lease = "6s"
advertise = "http://127.0.0.1:{port}"
[act]
mode = "act"
allow_intents = true
[pool.chat]
target = "deployment/vllm"
minimum = 1
maximum = {maximum}
policy = "reactive"
cold_start = "5s"
stabilise_down = "6s"
drain_deadline = "30s"
"""
SECRET = "token-of-the-tests"


@dataclass
class DaemonProcess:
    """One daemon."""

    here: Maker
    folder: Path
    maximum: int = 3
    fleet: str = "story"
    environment: Mapping[str, str] = field(default_factory=dict)  # wins over the file
    url: str = ""  # where it answers; its port on loopback
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        token = ADMIN_TOKEN if self.here.user == "admin" else f"token-of-{self.here.user}"
        text = CONFIG.format(
            fleet=self.fleet,
            data=self.folder / "data",
            port=self.port,
            secret=SECRET,
            kubeconfig=self.here.plane.kubeconfig(self.here.user, token),
            namespace=self.here.namespace,
            maximum=self.maximum,
        )
        (self.folder / "opsconsole.toml").write_text(text)
        command = [sys.executable, "-m", "opsconsole", "autoscale", "--config", str(self.folder / "opsconsole.toml")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**niced(), **self.environment})

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        return self.process.wait(30)

    def get(self, path: str) -> httpx.Response:
        return self._ask("GET", path, timeout=5.0)

    def post(self, path: str, body: Mapping[str, object]) -> httpx.Response:
        return self._ask("POST", path, json=body, timeout=15.0)

    def _ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        url = f"{self.url or f'http://127.0.0.1:{self.port}'}{path}"
        return httpx.request(method, url, headers={"Authorization": f"Bearer {SECRET}"}, verify=False, **how)

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def journal(self) -> list[str]:
        """The lines written so far."""
        with sqlite3.connect(f"file:{self.folder / 'data' / 'opsconsole.db'}?mode=ro", uri=True) as db:
            rows = db.execute("select kind, text from journal order by seq").fetchall()
        return [f"{kind}: {text}" for kind, text in rows]

    def log(self) -> list[dict[str, object]]:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]
