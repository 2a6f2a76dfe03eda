"""Two daemons as processes: one leads, is killed or put to sleep, and the other goes on; people ask either."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.kubernetes.daemons import DaemonProcess
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]


def holder(here: Maker) -> str:
    lease = here.cluster.find(here.path("leases", "opsconsole-story", group="coordination.k8s.io/v1"))
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


def leads(here: Maker, daemon: DaemonProcess) -> bool:
    return daemon.process is not None and f"_{daemon.process.pid}_" in holder(here)


@asynccontextmanager
async def two_daemons(make: Make, tmp_path: Path) -> AsyncIterator[tuple[Maker, DaemonProcess, DaemonProcess]]:
    """One replica of a deployment; of two daemons the first leads and the second is ready to."""
    here = make()
    here.deploy(replicas=1, ready="500ms")
    one, two = DaemonProcess(here, tmp_path / "one"), DaemonProcess(here, tmp_path / "two")
    one.start()
    try:
        await eventually("the first to lead", lambda: one.is_ready() and leads(here, one), 60.0)
        two.start()
        await eventually("the second", two.is_ready, 60.0)
        yield here, one, two
    finally:
        for daemon in (two, one):
            if daemon.process is not None:
                daemon.end()


def answered(daemon: DaemonProcess, plan_id: str) -> httpx.Response | None:
    """What comes of an intent; None while nobody can be asked."""
    found = daemon.post("/v1/intents", {"plan_id": plan_id})
    return None if found.status_code == 503 else found


async def test_a_leader_killed_or_put_to_sleep_is_followed_and_never_writes_again(make: Make, tmp_path: Path) -> None:
    async with two_daemons(make, tmp_path) as (here, one, two):
        plan = one.post("/v1/plans", {"kind": "scale", "pool": "chat", "to": 2}).json()
        assert (plan["from_count"], plan["to_count"]) == (1, 2)
        assert one.process is not None
        os.kill(one.process.pid, signal.SIGSTOP)  # with a plan in hand, as a machine that hangs
        await eventually("the second to lead", lambda: leads(here, two), 30.0)
        os.kill(one.process.pid, signal.SIGCONT)
        await eventually("the first to answer", one.is_ready, 30.0)
        # Its plan is unknown to the leader, to whom it passes the intent on once it has read who that is.
        refused = await eventually("the leader's word", lambda: answered(one, plan["plan_id"]), 15.0)
        assert (refused.status_code, "There is no plan" in refused.json()["error"]) == (400, True)
        assert here.replicas() == 1
        two.end(signal.SIGKILL)
        await eventually("the first to lead again", lambda: leads(here, one), 30.0)
        plan = one.post("/v1/plans", {"kind": "scale", "pool": "chat", "to": 2, "reason": "by hand"}).json()
        assert one.post("/v1/intents", {"plan_id": plan["plan_id"]}).json()["status"] == "running"
        assert here.replicas() == 2
        await eventually("the growth told as done", lambda: any("2 of 2 ready" in w for w in one.journal()), 30.0)


async def test_a_follower_passes_on_what_people_ask_of_it(make: Make, tmp_path: Path) -> None:
    async with two_daemons(make, tmp_path) as (here, one, two):
        plan = two.post("/v1/plans", {"kind": "scale", "pool": "chat", "to": 2}).json()
        assert (plan["from_count"], plan["to_count"]) == (1, 2)
        assert two.post("/v1/intents", {"plan_id": plan["plan_id"]}).json()["status"] == "running"
        assert here.replicas() == 2
        assert any(line.startswith("outcome:") for line in one.journal())  # the leader's, and not the follower's
        assert not any(line.startswith("outcome:") for line in two.journal())
