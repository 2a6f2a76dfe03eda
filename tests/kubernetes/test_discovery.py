"""Replicas found by the workload that is scaled, with what is known of their start and their end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from opsconsole.clock import SystemClock
from opsconsole.cluster.api import Place
from opsconsole.cluster.pods import SERVING_LABEL
from opsconsole.cluster.workload import workload
from opsconsole.errors import SourceErrorKind
from opsconsole.observe.kube import KubeOptions
from opsconsole.observe.kube_pods import PodRules
from opsconsole.observe.kube_workload import RETRY_S, WorkloadTargets
from tests.kubernetes.plane import ADMIN_TOKEN, niced
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]


@asynccontextmanager
async def looking(here: Maker, user: str = "admin") -> AsyncIterator[WorkloadTargets]:
    token = ADMIN_TOKEN if user == "admin" else f"token-of-{user}"
    place = Place(here.plane.kubeconfig(user, token), None, here.namespace)
    options = KubeOptions(rules=PodRules(pool="chat"), first_s=20.0)
    targets = WorkloadTargets(place, workload("deployment/vllm", here.namespace), options, SystemClock())
    try:
        yield targets
    finally:
        await targets.close()


async def test_a_workload_that_is_not_there_yet_is_a_failing_source_and_then_its_pods(make: Make) -> None:
    here = make()
    async with looking(here) as targets:
        assert await targets.targets(0.0) == ()
        status = targets.status()
        assert not status.ok and "not found" in str(status.error)
        here.deploy(replicas=1, ready="100ms")
        await eventually("a pod", lambda: len(here.ready()) == 1)
        assert await targets.targets(RETRY_S / 2) == ()  # not asked again yet
        (found,) = await targets.targets(RETRY_S)
        assert (found.replica.name, found.replica.pool, found.ready) == (here.ready()[0], "chat", True)
        assert targets.status().ok


async def test_who_may_not_ask_for_the_scale_is_told(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with looking(here, "narrow") as targets:
        assert await targets.targets(0.0) == ()
        status = targets.status()
        assert status.error_kind == SourceErrorKind.AUTH.value
        assert 'cannot get resource "deployments/scale"' in str(status.error)


async def test_a_start_is_expected_like_the_last_and_a_drain_is_seen(make: Make) -> None:
    here = make()
    here.deploy(replicas=1, ready="2s")
    await eventually("a pod", lambda: len(here.ready()) == 1)
    (first,) = here.ready()
    async with looking(here) as targets:
        await targets.targets(0.0)
        here.cluster.patch(here.path("deployments", "vllm"), {"spec": {"replicas": 2}})
        here.cluster.patch(here.path("pods", first, group="v1"), {"metadata": {"labels": {SERVING_LABEL: "false"}}})
        await eventually("a pod on its way", lambda: len(here.pods()) == 2)

        async def seen() -> tuple[bool | None, bool]:
            found = {t.replica.name: t for t in await targets.targets(0.0)}
            fresh = next((t for name, t in found.items() if name != first), None)
            expected = fresh is not None and fresh.phase == "load" and fresh.expected_ready_at is not None
            return found[first].draining, expected

        for _ in range(100):
            if (told := await seen()) == (True, True):
                break
            await SystemClock().sleep(0.05)
        assert told == (True, True)


async def test_a_fleet_is_decided_on_once_with_the_flags_of_kubectl(make: Make, tmp_path: Path) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    admin = json.loads(here.plane.kubeconfig("admin", ADMIN_TOKEN).read_text())
    elsewhere = {"name": "elsewhere", "context": {**admin["contexts"][0]["context"], "namespace": "default"}}
    config = tmp_path / "kubeconfig"  # whose current context is not the one meant
    config.write_text(json.dumps({**admin, "contexts": [*admin["contexts"], elsewhere], "current-context": "nothing"}))
    where = ["--kubeconfig", str(config), "--context", "elsewhere", "-n", here.namespace]
    command = [
        sys.executable,
        "-m",
        "opsconsole",
        "autoscale",
        "--kubernetes",
        "app=vllm",
        *where,
        "--once",
        "-o",
        "json",
    ]
    told = {**niced(), "HOME": str(tmp_path)}
    done = await asyncio.to_thread(
        subprocess.run, command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert sorted(r["replica"] for r in document["snapshot"]["replicas"]) == here.ready()
    assert here.replicas() == 2
