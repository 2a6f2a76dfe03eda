"""A pretended world with a source that reads it, settings for it, and a loop over both on a manual clock."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from opsconsole.act.actuator import Actuator
from opsconsole.act.pretend import PretendWorld
from opsconsole.clock import Clock, ManualClock
from opsconsole.control.agent import Parts, compose
from opsconsole.control.forecasting import Forecasting
from opsconsole.control.loop import Loop
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import Sample, SourceView
from opsconsole.domain.replica import Observation, ReplicaRef
from opsconsole.history.store import Store
from policies.decision import Decision, Policy, RuleResult, Verdict
from policies.memory import Memory
from policies.situation import Limits, Situation


@dataclass(slots=True)
class WorldSource:
    """Pages of a pretended world's replicas: `waiting` requests each, one arriving a second."""

    world: PretendWorld
    clock: Clock
    waiting: float = 0.0
    fault: Callable[[], None] | None = None  # called at every observe; may raise
    ok: bool = True
    name: str = "world"

    async def observe(self, now: float) -> tuple[Observation, ...]:
        if self.fault is not None:
            self.fault()
        found = []
        for member in (await self.world.state(self.world.pool)).members:
            ref = ReplicaRef(member.name, self.world.pool, started_at=member.started_at)
            page = Sample(
                member.name, now, engine="opsconsole", process_start=member.started_at, waiting=self.waiting,
                running=1.0, kv_usage=0.1, requests_started=now - 1.6e9, requests_finished=now - 1.6e9, ready=True,
            )  # fmt: skip
            starting = member.phase is not None
            found.append(
                Observation(
                    ref,
                    None if starting else page,
                    ready=member.ready,
                    draining=member.draining,
                    phase=member.phase,
                    expected_ready_at=member.expected_ready_at if starting else None,
                )
            )
        return tuple(found)

    def status(self) -> SourceView:
        return SourceView(self.name, "test", self.ok, age=0.0, error=None if self.ok else "down")

    async def close(self) -> None:
        return None


@dataclass(slots=True)
class Wanted:
    """A law that wants what the test says, and counts how often it was asked."""

    target: int | None = None  # None: what there is
    fails: Exception | None = None
    name: str = "wanted"
    needs: tuple[str, ...] = ()
    period_s: float = 1.0
    seen: list[Situation] = field(default_factory=list)

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        self.seen.append(situation)
        if self.fails is not None:
            raise self.fails
        target = situation.want if self.target is None else self.target
        if situation.paused_until is not None or situation.frozen_reason is not None:
            target = situation.want
        target = max(target, situation.pinned_minimum or 0)
        rule = RuleResult("wanted", (), target, Verdict.AGREES, f"the test wants {target}")
        live = sorted(r.name for r in situation.replicas if r.state == "ok")
        drain = tuple(live[target:]) if target < situation.want else ()
        after = memory.push("asked", (situation.now, float(target)), keep_s=60.0)
        return Decision(
            situation.pool, situation.want, target, "wanted", f"the test wants {target}", (rule,), drain
        ), after


@dataclass(slots=True)
class Stage:
    """Everything a test of the loop moves."""

    clock: ManualClock
    world: PretendWorld
    source: WorldSource
    law: Wanted
    settings: AgentSettings
    store: Store
    loop: Loop

    async def ticks(self, count: int = 1, every: float = 1.0) -> None:
        for _ in range(count):
            await self.loop.tick()
            await self.clock.advance(every)

    def journal(self, kind: str | None = None) -> list[str]:
        from opsconsole.history.reader import Reader

        reader = Reader(self.settings.database)
        try:
            return [entry.text for entry in reader.journal(kind=kind, limit=1000)]
        finally:
            reader.close()

    async def restarted(self, **settings: Any) -> Stage:
        """The same world and file under a new process's loop."""
        self.store.close()
        changed = replace(self.settings, **settings)
        store = Store(changed.database)
        loop = await _loop(changed, self.clock, self.world, self.source, self.law, store)
        return replace_stage(self, changed, store, loop)


def replace_stage(stage: Stage, settings: AgentSettings, store: Store, loop: Loop) -> Stage:
    return Stage(stage.clock, stage.world, stage.source, stage.law, settings, store, loop)


async def _loop(
    settings: AgentSettings,
    clock: Clock,
    world: Actuator,
    source: WorldSource,
    law: Policy,
    store: Store,
    forecasting: Forecasting | None = None,
) -> Loop:
    parts = Parts([source], {"chat": world}, lambda name: law, forecasting)
    return await compose(settings, parts, store, clock, threaded=False)


MakeStage = Callable[..., Any]


@pytest.fixture
async def make_stage(tmp_path: Path) -> AsyncIterator[MakeStage]:
    """`await make_stage(want=2, mode=Mode.ACT, ...)`: a loop over a pretended world."""
    stores: list[Stage] = []

    async def make(
        want: int = 2, law: Policy | None = None, forecasting: Forecasting | None = None, **settings: Any
    ) -> Stage:
        clock = ManualClock()
        world = PretendWorld(clock)
        world.create(want)
        source = WorldSource(world, clock)
        asked = law or Wanted()
        pool = PoolSettings(PoolSpec("chat", "model", 1, 8), Limits(1, 8), policy="wanted")
        made = AgentSettings(
            **{"data_dir": tmp_path, "mode": Mode.ACT, "allow_intents": True, "pools": (pool,), **settings}
        )
        store = Store(made.database)
        loop = await _loop(made, clock, world, source, asked, store, forecasting)
        stage = Stage(clock, world, source, asked, made, store, loop)  # type: ignore[arg-type]
        stores.append(stage)
        return stage

    yield make
    for stage in stores:
        stage.store.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, made by openssl where it is installed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, "-keyout", key, "-out", cert, *subject], check=True, capture_output=True)
    return cert, key
