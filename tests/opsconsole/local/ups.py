"""One `up` as a real tree of processes, and what is known of it: its processes, its supervisor's word, its database.

It must not know which workers serve. The trap: a worker's command line does not say whose it is, so processes are
found by a mark in their environment, which every child inherits.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from opsconsole.local.supervisor_client import SupervisorClient

ROOT = Path(__file__).parents[3]
SERVING = "all(m['ready'] for m in members) and len(members) == {n} and 'agent' in state['companions']"


class Up:
    """One `up`, started; `folder` is its data folder, `url` where users ask."""

    def __init__(self, folder: Path, url: str, command: Sequence[str], **environment: str) -> None:
        self.folder, self.url = folder, url
        self._mark = f"UP_UNDER_TEST={folder}"
        given = {**os.environ, "PYTHONPATH": str(ROOT), "UP_UNDER_TEST": str(folder), **environment}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def alive(self) -> list[int]:
        """Processes of this `up`, the foreground one included; zombies do not count."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and self._mark in (entry / "environ").read_bytes().decode(errors="replace"):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(entry.name)] if state != "Z" else []
        return found

    def pid_of(self, module: str) -> int:
        for pid in self.alive():
            if module in Path(f"/proc/{pid}/cmdline").read_text() and pid != self.process.pid:
                return pid
        raise AssertionError(f"no process of {module}")

    async def until(self, what: str, limit: float = 30.0) -> dict[str, Any]:
        """The supervisor's state once `what` holds for it."""
        end = time.monotonic() + limit
        async with SupervisorClient(self.folder / "supervisor.sock") as client:
            while time.monotonic() < end:
                with suppress(Exception):
                    state = await client.state()
                    if eval(what, {}, {"state": state, "members": state["members"]}):
                        return state
                assert self.process.poll() is None, self.process.communicate()
                await asyncio.sleep(0.1)
        raise AssertionError(f"never: {what}")

    async def none_left(self, limit: float = 5.0) -> float:
        """Wait until no process is left; the seconds that took."""
        began = time.monotonic()
        while self.alive() and time.monotonic() < began + limit:
            await asyncio.sleep(0.05)
        assert self.alive() == []
        return time.monotonic() - began

    def finish(self, limit: float = 60.0) -> tuple[int, dict[str, Any], str]:
        out, err = self.process.communicate(timeout=limit)
        return self.process.returncode, json.loads(out) if out else {}, err

    def sql(self, query: str) -> list[Any]:
        with sqlite3.connect(self.folder / "opsconsole.db") as connection:
            rows = connection.execute(query).fetchall()
        connection.close()
        return rows
