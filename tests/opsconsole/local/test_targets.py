"""Who is scraped, and what the journal is told, from the supervisor's state."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from opsconsole.bench.bounds import Bounds
from opsconsole.clock import ManualClock
from opsconsole.errors import AgentUnavailable
from opsconsole.history.store import Store
from opsconsole.local.agent import forget_other_runs
from opsconsole.local.chronicle import Chronicle
from opsconsole.local.settings import Measured, UpSettings
from opsconsole.local.targets import LocalTargets
from policies import lead
from policies.memory import Memory

WORKER = {
    "name": "w1", "phase": "ready", "ready": True, "draining": False, "url": "http://127.0.0.1:5", "device": None,
    "started_at": 10.0, "expected_ready_at": None,
}  # fmt: skip


class Client:
    """A supervisor that says what it is told to say."""

    def __init__(self, *members: dict[str, Any]) -> None:
        self.members: tuple[dict[str, Any], ...] | None = members

    async def state(self, **query: Any) -> dict[str, Any]:
        if self.members is None:
            raise AgentUnavailable("no supervisor answers")
        return {"members": list(self.members), "events": []}


async def nothing() -> None:
    return


def targets_of(client: Client) -> LocalTargets:
    return LocalTargets(client, nothing)  # type: ignore[arg-type]


async def test_a_ready_worker_is_asked_for_its_page() -> None:
    (target,) = await targets_of(Client(WORKER)).targets(100.0)
    assert target.url == "http://127.0.0.1:5/metrics"
    assert (target.ready, target.draining, target.phase) == (True, False, None)
    assert (target.replica.name, target.replica.pool, target.replica.started_at) == ("w1", "local", 10.0)


async def test_a_worker_that_does_not_listen_yet_is_warming_and_not_an_error() -> None:
    starting = {**WORKER, "phase": "load", "ready": False, "expected_ready_at": 17.0}
    (target,) = await targets_of(Client(starting)).targets(100.0)
    assert (target.url, target.ready, target.phase, target.expected_ready_at) == (None, False, "load", 17.0)


async def test_a_supervisor_that_does_not_answer_leaves_the_last_known_with_its_age() -> None:
    client = Client(WORKER)
    targets = targets_of(client)
    assert not targets.status().ok
    await targets.targets(100.0)
    assert targets.status().ok
    client.members = None
    assert len(await targets.targets(107.0)) == 1
    view = targets.status()
    assert (view.ok, view.age, view.error) == (False, 7.0, "no supervisor answers")


def event(seq: int, kind: str, text: str, **facts: float) -> dict[str, Any]:
    return {"seq": seq, "at": 100.0 + seq, "worker": "w2", "kind": kind, "text": text, "facts": facts}


async def test_events_are_told_once_also_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    store = Store(tmp_path / "opsconsole.db")
    events = [
        event(1, "scale", "2 workers are wanted"),
        event(2, "ready", "w2 is useful", decided_at=95.0, schedule=0.5, load=4.0),
        event(3, "crash", "w2 was killed by SIGKILL; started again in 0.5 s", wait_s=0.5),
    ]
    first = Chronicle(store, Client(), ManualClock(), "run")  # type: ignore[arg-type]
    first.take(events[:2])
    first.take([])
    again = Chronicle(store, Client(), ManualClock(), "run")  # type: ignore[arg-type]
    assert again._seen == 2
    again.take(events[2:])
    another_run = Chronicle(store, Client(), ManualClock(), "other")  # type: ignore[arg-type]
    assert another_run._seen == 0
    for chronicle in (first, again, another_run):
        chronicle._db.close()
    store.close()
    with sqlite3.connect(tmp_path / "opsconsole.db") as connection:
        told = [text for (text,) in connection.execute("SELECT text FROM journal ORDER BY seq")]
        (start,) = connection.execute("SELECT worker, decided_at, useful_at, phases FROM starts").fetchall()
    connection.close()
    assert told == ["w2 is useful", "w2 was killed by SIGKILL; started again in 0.5 s"]
    assert start[:3] == ("w2", 95.0, 102.0) and json.loads(start[3]) == {"schedule": 0.5, "load": 4.0}


def test_what_was_learned_in_another_run_is_forgotten_and_in_this_one_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "opsconsole.db")
    first, second = (UpSettings(str(tmp_path), run, "model.gguf", "m") for run in ("first", "second"))
    store.put_state("memory/local", "{}", 1.0)
    store.put_state("holds", "[]", 1.0)
    assert forget_other_runs(store, first, 2.0) == 2.0
    assert store.get_state("memory/") == {} and store.get_state("holds") == {"holds": "[]"}
    store.put_state("memory/local", "{}", 3.0)
    assert forget_other_runs(store, first, 4.0) == 2.0, "the run began when its first agent did"
    assert store.get_state("memory/") == {"memory/local": "{}"}
    assert forget_other_runs(store, second, 5.0) == 5.0
    assert store.get_state("memory/") == {}
    store.close()


def test_the_first_workers_start_is_a_measured_lead_for_every_law(tmp_path: Path) -> None:
    store = Store(tmp_path / "opsconsole.db")
    measured = Measured(Bounds(1.0, 0.1), start_s=6.5)
    forget_other_runs(store, UpSettings(str(tmp_path), "run", "model.gguf", "m", measured=measured), 100.0)
    memory = Memory.from_json(store.get_state("memory/")["memory/local/predictive"])
    known = lead.lead(memory, lead.key("local", "m", None), 15.0, 1.0)
    assert (known.seconds, known.assumed) == (7.5, False)
    store.close()
