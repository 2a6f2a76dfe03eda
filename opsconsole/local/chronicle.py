"""What happened to the workers, told to the journal: starts by phase, crashes with their reason, ends.

Reads the supervisor's events and writes journal lines and rows of `starts`. Trap: events are numbered per supervisor; a
reader that restarts begins at the newest it wrote, or the journal tells everything twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opsconsole.clock import Clock
from opsconsole.domain.records import JournalEntry
from opsconsole.errors import OpsConsoleError
from opsconsole.history.store import Store, connect
from opsconsole.local.settings import POOL
from opsconsole.local.supervisor_client import SupervisorClient

EVERY = 0.5  # s
QUIET = ("decided", "scale")  # the decision itself is in the journal already


class Chronicle:
    """Follows one supervisor."""

    def __init__(self, store: Store, client: SupervisorClient, clock: Clock, run_id: str) -> None:
        self._store, self._client, self._clock = store, client, clock
        self._key = f"local/{run_id}/events"
        self._db = connect(store.path)
        self._seen = int(store.get_state(self._key).get(self._key, "0"))

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    state = await self._client.state(events_after=self._seen)
                except OpsConsoleError:
                    state = {"events": []}
                self.take(state["events"])
                await self._clock.sleep(EVERY)
        finally:
            self._db.close()

    def take(self, events: list[dict[str, Any]]) -> None:
        """Write these down, once."""
        if not events:
            return
        self._store.write_entries([_entry(event) for event in events if event["kind"] not in QUIET])
        for event in events:
            if event["kind"] == "ready":
                self._note_start(event)
        self._seen = max(event["seq"] for event in events)
        self._store.put_state(self._key, str(self._seen), self._clock.now())

    def _note_start(self, event: Mapping[str, Any]) -> None:
        facts = dict(event["facts"])
        decided_at = facts.pop("decided_at")
        self._db.execute(
            "INSERT OR REPLACE INTO starts(worker, decided_at, useful_at, phases) VALUES (?, ?, ?, ?)",
            (event["worker"], decided_at, event["at"], json.dumps(facts)),
        )


def _entry(event: Mapping[str, Any]) -> JournalEntry:
    return JournalEntry(seq=0, at=event["at"], kind="replica", pool=POOL, text=event["text"])
