"""The local actuator against a supervisor's API without processes: plans change nothing, a moved world refuses."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from opsconsole.clock import SystemClock
from opsconsole.domain.records import PlanKind
from opsconsole.errors import AgentUnavailable, PlanRefused
from opsconsole.local.actuator import LocalActuator
from opsconsole.local.changes import Change
from opsconsole.local.companions import Companions
from opsconsole.local.settings import UpSettings
from opsconsole.local.supervisor import Supervisor
from opsconsole.local.supervisor_api import Api, _Server
from opsconsole.local.supervisor_client import SupervisorClient
from opsconsole.local.workers import Phase

CLOCK = SystemClock()


class StillLife:
    """A worker's life without a process: it starts and goes when the test says so."""

    def __init__(self, worker: Any, workers: Any, *rest: Any) -> None:
        self.worker, self._workers, self._cuts = worker, workers, rest[-1]

    async def tell_bounds(self) -> None:
        return

    def become_ready(self) -> None:
        self._workers.enter(self.worker, Phase.LOAD, 1.0)
        self._workers.enter(self.worker, Phase.READY, 2.0)

    def drain(self, deadline_s: float) -> None:
        self._workers.enter(self.worker, Phase.DRAIN, 3.0)

    def go(self, cut: int = 0) -> None:
        self._cuts[self.worker.name] = cut
        self._workers.gone(self.worker, "gone", 4.0)

    async def undrain(self) -> bool:
        self._workers.returned(self.worker, 3.5)
        return True

    async def stop(self, grace: float) -> None:
        return


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="act-") as made:
        yield Path(made)


@asynccontextmanager
async def world(folder: Path, monkeypatch: pytest.MonkeyPatch, maximum: int = 3) -> AsyncIterator[tuple[Any, Any]]:
    monkeypatch.setattr("opsconsole.local.supervisor.WorkerLife", StillLife)
    settings = UpSettings(str(folder), "run", "model", "m", minimum=1, maximum=maximum)
    with socket.socket() as listener:
        supervisor = Supervisor(
            settings, folder / "up.json", CLOCK, Companions(settings, folder / "up.json", listener, CLOCK)
        )
        supervisor.start()
        supervisor._lives["w1"].become_ready()  # type: ignore[attr-defined]
        app = Api(supervisor, asyncio.Event(), CLOCK.now).app()
        config = uvicorn.Config(app, uds=str(settings.supervisor_socket), log_level="error", lifespan="off")
        server = _Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        async with SupervisorClient(settings.supervisor_socket) as client:
            yield supervisor, LocalActuator(client, CLOCK, 60.0)
        server.should_exit = True
        await serving


async def test_a_plan_changes_nothing_and_its_application_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        plan = await actuator.plan_scale("local", 2, "queue 20 > 8")
        assert (plan.kind, plan.from_count, plan.to_count, plan.effect) == (PlanKind.SCALE, 1, 2, "start 1")
        assert len(supervisor.workers.members) == 1
        outcome = await actuator.apply(plan, "auto")
        assert outcome.status == "running"
        assert (await actuator.follow(plan.plan_id)).detail == "waiting for w2"
        assert supervisor.workers.get("w2").decided_at == plan.made_at
        supervisor._lives["w2"].become_ready()
        done = await actuator.follow(plan.plan_id)
        assert (done.status, done.streams_cut) == ("done", 0)


async def test_a_plan_for_a_world_that_moved_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        plan = await actuator.plan_scale("local", 2, "why")
        supervisor.workers.changed()
        with pytest.raises(PlanRefused, match="the world has moved"):
            await actuator.apply(plan, "auto")
        assert len(supervisor.workers.members) == 1
        with pytest.raises(PlanRefused, match="no change"):
            await actuator.follow(plan.plan_id)


async def test_applying_a_plan_twice_does_it_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        plan = await actuator.plan_scale("local", 2, "why")
        await actuator.apply(plan, "auto")
        assert (await actuator.apply(plan, "auto")).status == "running"
        assert [worker.name for worker in supervisor.workers.members] == ["w1", "w2"]


async def test_shrinking_drains_the_named_and_ends_when_it_is_gone_with_its_cut_streams(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        await actuator.apply(await actuator.plan_scale("local", 2, "up"), "auto")
        supervisor._lives["w2"].become_ready()
        supervisor.workers.get("w1").streams = 3
        plan = await actuator.plan_scale("local", 1, "down", ("w1",))
        assert plan.streams_at_risk == 3
        await actuator.apply(plan, "auto")
        state = await actuator.state("local")
        assert (state.want, state.member("w1").draining) == (1, True)
        supervisor._lives["w1"].go(cut=2)
        assert (await actuator.follow(plan.plan_id)).streams_cut == 2


async def test_wanting_more_takes_back_a_drain_before_it_starts_anything(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        await actuator.apply(await actuator.plan_scale("local", 2, "up"), "auto")
        supervisor._lives["w2"].become_ready()
        await actuator.apply(await actuator.plan_scale("local", 1, "down", ("w2",)), "auto")
        await actuator.apply(await actuator.plan_scale("local", 2, "up again"), "auto")
        assert [(worker.name, worker.phase) for worker in supervisor.workers] == [
            ("w1", Phase.READY),
            ("w2", Phase.READY),
        ]


async def test_minimum_and_maximum_are_held_on_every_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch, maximum=2) as (supervisor, actuator):
        with pytest.raises(PlanRefused, match="9 is outside 1 to 2"):
            await actuator.plan_scale("local", 9, "too many")
        plan = await actuator.plan_scale("local", 2, "as many as may be")
        await actuator.apply(replace(plan, to_count=9), "someone")
        assert len(supervisor.workers.members) == 2
        await actuator.apply(await actuator.plan_drain(("w1", "w2"), "both"), "someone")
        assert len(supervisor.workers.members) == 1 and supervisor.workers.want == 1


async def test_undrain_puts_a_worker_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        await actuator.apply(await actuator.plan_scale("local", 2, "up"), "a")
        supervisor._lives["w2"].become_ready()
        await actuator.apply(await actuator.plan_drain(("w2",), "maintenance"), "a")
        assert supervisor.workers.want == 1
        plan = await actuator.plan_undrain(("w2",), "over")
        await actuator.apply(plan, "a")
        assert supervisor.workers.want == 2 and supervisor.workers.get("w2").is_ready
        assert (await actuator.follow(plan.plan_id)).detail == "w2 serving again"


async def test_unknown_pools_and_workers_are_refused_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (_, actuator):
        with pytest.raises(PlanRefused, match="no pool chat"):
            await actuator.state("chat")
        with pytest.raises(PlanRefused, match="no worker w9 here; there are: w1"):
            await actuator.plan_drain(("w9",), "why")


async def test_a_wish_that_is_none_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        supervisor.is_stopping = True
        with pytest.raises(PlanRefused, match="stopping"):
            await actuator._client.act(Change("scale", "x", want=2))


async def test_a_state_request_waits_for_news_and_comes_back_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(folder, monkeypatch) as (supervisor, actuator):
        version = supervisor.workers.version
        asked = asyncio.create_task(actuator._client.state(after=version, wait=10.0))
        await asyncio.sleep(0.1)
        assert not asked.done()
        supervisor.workers.changed()
        async with asyncio.timeout(3):
            assert (await asked)["version"] == version + 1


async def test_without_a_supervisor_the_error_is_a_sentence(folder: Path) -> None:
    async with SupervisorClient(folder / "none.sock") as client:
        with pytest.raises(AgentUnavailable, match="is `up` running"):
            await client.state()
