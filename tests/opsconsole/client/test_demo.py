"""The demo's agent over a real socket, with the real client: what a screen may rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opsconsole.client.agent import AgentClient
from opsconsole.client.demo import serve
from opsconsole.client.demo_agent import DemoAgent
from opsconsole.client.demo_views import forecasts
from opsconsole.clock import SystemClock
from opsconsole.domain.records import FleetSnapshot, PlanKind, ReplicaState
from opsconsole.errors import PlanRefused, UsageError

START = 1_800_000_060.0  # a moment in the script at which a replica is stale


class Moving:
    """Time as the test says."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        return self.at


def run_on(agent: DemoAgent, time: Moving, seconds: float) -> FleetSnapshot:
    for _ in range(int(seconds)):
        time.at += 1.0
        agent.advance()
    assert agent.latest is not None
    return agent.latest


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AgentClient]:
    time = Moving()
    socket = str(tmp_path / "agent.sock")
    stop = asyncio.Event()
    task = asyncio.ensure_future(serve(DemoAgent(time.now), SystemClock(), socket, stop=stop))
    while not Path(socket).exists():
        await asyncio.sleep(0.01)
    async with AgentClient(socket) as made:
        yield made
    stop.set()
    await task


async def test_everything_a_screen_asks_for_is_answered(client: AgentClient) -> None:
    snapshot = await client.snapshot()
    assert snapshot.replicas and "DEMO" in snapshot.notes[0]
    assert await client.ready()
    assert (await client.decisions())[0].trace
    assert (await client.forecast())[0].quantiles
    (then, *_) = await client.forecast(at=START - 300)
    assert then.made_at == START - 300 and then.quantiles and not then.record
    assert await client.journal(limit=5)
    history = await client.history(START - 600, step=60, pools_only=True)
    assert len(history) >= 9 and all(not old.replicas for old in history)
    past = await client.at(START - 300)
    assert past is not None and past.at <= START - 300 and past.replicas
    await client.alerts()
    assert [found["rule"] for found in await client.findings()] == ["PX101"] and await client.holds() == ()
    shared = await client.prefixes()
    assert shared and shared[0].holders and shared[0].requests > shared[0].forks
    name = next(r.replica for r in snapshot.replicas if r.state is ReplicaState.OK)
    assert "made up" in (await client.logs(name))[0] and len(await client.logs(name, 2)) == 2
    with pytest.raises(UsageError, match="no such replica"):
        await client.logs("nobody")
    async for streamed in client.stream():
        assert streamed.tick >= snapshot.tick
        break


def test_decisions_carry_what_the_decisions_screen_draws() -> None:
    time = Moving()
    agent = DemoAgent(time.now)
    decision = agent.decided["chat"]
    assert decision.capacity is not None and decision.capacity.request_rate
    assert decision.lead and not decision.lead_assumed and decision.supply[0].at == decision.at
    told = [entry for entry in agent.journal if entry.kind == "regret"]
    assert told and all(entry.decision is not None and entry.decision.regret is not None for entry in told)
    view = forecasts(agent.world, agent.seed, agent.hindsight)[0]
    assert view.regret is not None and view.regret.decisions > 50 and 0 <= view.regret.right <= 1
    assert view.record and len(view.record[0].coverage) == len(view.levels)


def test_the_slo_screen_gets_its_windows_buckets_and_the_cost_of_starts() -> None:
    time = Moving()
    agent = DemoAgent(time.now)
    snapshot = run_on(agent, time, 5)
    pool = snapshot.pools[0]
    assert pool.ttft_buckets is not None and pool.ttft_buckets.count > 0
    assert list(pool.ttft_buckets.counts) == sorted(pool.ttft_buckets.counts)
    assert pool.slos[0].attainment_short is not None and pool.slos[0].attainment_long is not None
    assert pool.start_s and set(pool.start_s) <= {"schedule", "pull", "load", "compile", "warm"}


async def test_a_stale_replica_keeps_its_values_and_says_why(client: AgentClient) -> None:
    snapshot = await client.snapshot()
    stale = [r for r in snapshot.replicas if r.state is ReplicaState.STALE]
    assert stale and stale[0].waiting is not None and stale[0].error and stale[0].ttft.p95 is None


async def test_a_plan_is_applied_once_and_refused_when_the_fleet_moved(client: AgentClient) -> None:
    size = len((await client.snapshot()).replicas)
    first = await client.plan(PlanKind.SCALE, "chat", to=size + 1)
    second = await client.plan(PlanKind.SCALE, "chat", to=size + 2)
    assert (await client.intent(first.plan_id, "because")).status == "running"
    with pytest.raises(PlanRefused, match="changed since"):
        await client.intent(second.plan_id)
    with pytest.raises(PlanRefused, match="not known"):
        await client.intent(first.plan_id)


@pytest.mark.parametrize("to", [0, 99])
async def test_a_plan_outside_the_limits_is_refused_with_a_sentence(to: int, client: AgentClient) -> None:
    with pytest.raises(UsageError, match="outside 2"):
        await client.plan(PlanKind.SCALE, "chat", to=to)


async def test_standing_orders_and_silences_are_kept(client: AgentClient) -> None:
    assert (await client.hold("pause", "chat", note="night"))[0].kind == "pause"
    assert await client.hold("resume", "chat") == ()
    await client.silence("replica-stale")
    assert all(a.state == "silenced" for a in await client.alerts() if a.rule == "replica-stale")


def test_a_scale_is_followed_through_its_cold_start_to_the_end() -> None:
    time = Moving()
    agent = DemoAgent(time.now)
    size = len(agent.world.live(agent.world.pools[0]))
    plan = agent.plan("scale", "chat", to=size + 1)
    agent.intent(plan.plan_id, "ana")
    snapshot = run_on(agent, time, 2)
    warming = [r for r in snapshot.replicas if r.state is ReplicaState.WARMING]
    assert len(warming) == 1 and warming[0].phase and warming[0].waiting is None
    run_on(agent, time, 120)
    done = [e for e in agent.journal if e.outcome is not None and e.outcome.plan_id == plan.plan_id]
    assert [entry.outcome.status for entry in done if entry.outcome] == ["running", "done"]


def test_a_drained_replica_finishes_its_streams_and_goes() -> None:
    time = Moving()
    agent = DemoAgent(time.now)
    name = agent.world.pools[0].replicas[1].name
    plan = agent.plan("drain", "chat", replicas=(name,))
    assert plan.streams_at_risk is not None
    agent.intent(plan.plan_id, "ana")
    first = run_on(agent, time, 2).replica(name)
    assert first is not None and first.state is ReplicaState.DRAINING
    assert run_on(agent, time, 90).replica(name) is None


def test_the_same_moment_looks_the_same_twice() -> None:
    assert DemoAgent(Moving().now).latest == DemoAgent(Moving().now).latest


def test_a_read_only_demo_lets_nothing_through() -> None:
    agent = DemoAgent(Moving().now, can_act=False)
    plan = agent.plan("scale", "chat", to=9)
    with pytest.raises(PlanRefused, match="allow-intents"):
        agent.intent(plan.plan_id, "ana")


@pytest.mark.parametrize("replicas", [0, 1, 64])
def test_any_size_of_fleet_can_be_pretended(replicas: int) -> None:
    time = Moving()
    agent = DemoAgent(time.now, replicas=replicas)
    assert run_on(agent, time, 30).pools[0].pool == "chat"


def test_a_late_reader_catches_up_with_a_limit() -> None:
    time = Moving()
    agent = DemoAgent(time.now)
    before = agent.latest
    time.at += 3600
    assert before is not None and agent.advance().tick - before.tick <= 11
