"""The whole story on one fleet: load comes, replicas are started, load ends, one is drained and goes; nobody is cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from opsconsole.domain.records import FleetSnapshot, PoolView
from opsconsole.history import blob
from opsconsole.history.store import connect
from tests.kubernetes.daemons import DaemonProcess
from tests.kubernetes.engines import Kubelets
from tests.kubernetes.gateway import Gateway
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]


async def test_a_fleet_grows_under_load_and_shrinks_without_cutting_a_stream(make: Make, tmp_path: Path) -> None:
    here = make()
    here.deploy(replicas=1, ready="6s", engine="--max-seqs 2", gpus=1)
    with Kubelets(here.plane, here.namespace, tmp_path):
        daemon = DaemonProcess(here, tmp_path / "daemon")
        daemon.start()
        try:
            await eventually("the first pod", lambda: len(here.ready()) == 1, 40.0)
            await eventually("the daemon", daemon.is_ready, 40.0)
            gateway, stop = Gateway(here), asyncio.Event()
            pressing = asyncio.create_task(gateway.press(24, stop))
            await eventually("a growth", lambda: here.replicas() > 1, 40.0)
            await eventually("two pods or more", lambda: len(here.ready()) >= 2, 40.0)
            stop.set()
            await pressing
            await eventually("one pod again", lambda: here.replicas() == 1 and len(here.ready()) == 1, 90.0)
            await eventually("its end told", lambda: any("went, no stream was cut" in w for w in daemon.journal()))
        finally:
            code = daemon.end()
    assert code == 0
    assert gateway.ended["whole"] > 0
    assert {how: count for how, count in gateway.ended.items() if how.startswith("cut")} == {}
    reasons = {e["reason"] for e in here.events()}
    assert {"SuccessfulRescale", "Draining", "Drained"} <= reasons
    lease = here.cluster.get(here.path("leases", "opsconsole-story", group="coordination.k8s.io/v1"))
    assert lease["spec"]["holderIdentity"] == ""  # let go of at its end


def remember_a_rise(database: Path, until: float) -> None:
    """Forty minutes of a pool's history, as an agent keeps it: every minute 0.4 requests/s more, at last 18."""
    last = int(until // 60)
    views = {
        minute: PoolView("chat", request_rate=18.0 - 0.4 * (last - minute), covered=True)
        for minute in range(last - 39, last + 1)
    }
    ticks = [
        FleetSnapshot(n, minute * 60.0 + 0.5, "story", "act", pools=(view,))
        for n, (minute, view) in enumerate(views.items(), 1)
    ]
    rows = [(int(tick.at // 60), tick.at, tick.tick, blob.pack(blob.pools_only(tick))) for tick in ticks]
    connection = connect(database)
    connection.executemany("INSERT INTO minutes VALUES (?, ?, ?, ?)", rows)
    connection.close()


async def test_a_fleet_grows_ahead_of_the_load_that_its_history_announces(make: Make, tmp_path: Path) -> None:
    here = make()
    here.deploy(replicas=1, ready="6s", engine="--max-seqs 2", gpus=1)
    told = {"POLICY": "predictive", "COLD_START": "7m", "CAPACITY__REQUESTS": "10"}
    environment = {f"OPSCONSOLE_POOL__CHAT__{key}": value for key, value in told.items()}
    daemon = DaemonProcess(here, tmp_path / "daemon", environment=environment)
    with Kubelets(here.plane, here.namespace, tmp_path):
        await eventually("the first pod", lambda: len(here.ready()) == 1, 40.0)
        # A minute without load that ends before the history was read would be its newest, and no rise any more.
        await eventually("the earlier half of a minute", lambda: time.time() % 60 < 30, 40.0)
        remember_a_rise(tmp_path / "daemon" / "data" / "opsconsole.db", time.time())
        daemon.start()
        try:
            await eventually("a growth to what comes, not to what came last", lambda: here.replicas() == 3, 60.0)
            (why,) = await eventually("why", lambda: [w for w in daemon.journal() if w.startswith("plan: ")], 10.0)
        finally:
            daemon.end()
    assert why.startswith("plan: scale chat from 1 to 3: forecast "), why
    assert " in 420 s (assumed) is " in why, why
