"""What `up` says while there is no screen: the phases of the first start, and a line now and then while serving.

Reads the supervisor's state and the database. Trap: on a terminal without the console, or in a log file, a line per
event is enough; nothing here redraws.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from opsconsole.clock import Clock
from opsconsole.errors import OpsConsoleError
from opsconsole.local.calibration import Say
from opsconsole.local.settings import UpSettings
from opsconsole.local.supervisor_client import SupervisorClient

LINE_EVERY = 10.0  # s
SLOW_START = 10.0  # s between signs of life while a model loads
WORDS = {
    "schedule": "starting the first worker",
    "load": "loading weights",
    "warm": "producing the first token",
    "ready": "the first worker is ready",
}


def tail(log: Path, lines: int = 1) -> str:
    """The last lines of a log, for an error sentence."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])


class Progress:
    """Says what is new."""

    def __init__(self, settings: UpSettings, say: Say, clock: Clock) -> None:
        self._settings, self._say, self._clock = settings, say, clock
        self._phase = ""
        self._said_at = clock.monotonic()
        self._seen_event = 0

    def starting(self, state: Mapping[str, Any]) -> None:
        """The first worker's phase, when it changes, and a sign of life while it does not."""
        first = next(iter(state["members"]), None)
        phase = first["phase"] if first else "schedule"
        now = self._clock.monotonic()
        if phase != self._phase:
            fallback = f"the first worker: {phase}"
            self._say(f"{WORDS.get(phase, fallback)}{f' ({self._settings.model_name})' if phase == 'load' else ''}")
            self._phase, self._said_at = phase, now
        elif now - self._said_at > SLOW_START:
            self._say(f"still {WORDS.get(phase, phase)}")
            self._said_at = now

    async def router_answers(self) -> bool:
        """Whether the users' port serves."""
        try:
            async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
                return (await client.get(f"{self._settings.url}/health")).status_code == 200
        except httpx.HTTPError:
            return False

    async def run(self, client: SupervisorClient) -> None:
        """Events from now on as they come, and one line of numbers every ten seconds."""
        with suppress(OpsConsoleError):
            self._seen_event = max((event["seq"] for event in (await client.state())["events"]), default=0)
        while True:
            with suppress(OpsConsoleError):
                state = await client.state(events_after=self._seen_event)
                for event in state["events"]:
                    self._seen_event = event["seq"]
                    if event["kind"] != "phase":
                        self._say(event["text"])
                if self._clock.monotonic() - self._said_at >= LINE_EVERY:
                    self._said_at = self._clock.monotonic()
                    self._say(self._numbers(state))
            await self._clock.sleep(1.0)

    def _numbers(self, state: Mapping[str, Any]) -> str:
        ready = sum(member["ready"] for member in state["members"])
        words = f"{ready} of {state['want']} workers ready"
        with suppress(sqlite3.Error):
            connection = sqlite3.connect(f"file:{self._settings.database}?mode=ro", uri=True, timeout=1)
            try:
                row = connection.execute(
                    "SELECT COUNT(*), SUM(status <> 'ok'), SUM(met) FROM requests WHERE run_id = ?",
                    (self._settings.run_id,),
                ).fetchone()
            finally:
                connection.close()
            if row[0]:
                words += f", {row[0]} requests ended, {row[1]} failed, {row[2] / row[0]:.0%} inside the bounds"
        return words
