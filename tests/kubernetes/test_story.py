"""The whole story on one fleet: load comes, replicas are started, load ends, one is drained and goes; nobody is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

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
