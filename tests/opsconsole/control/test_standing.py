"""Which pools there are, and what is decided where a count is not known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from opsconsole.act.actuator import PoolState
from opsconsole.config import load
from opsconsole.control.configured import agent_settings
from opsconsole.control.settings import AgentSettings, Budget, PoolSettings
from opsconsole.control.standing import WATCHED, Standing, undecidable, with_pools_seen
from opsconsole.domain.fleet import PoolSpec
from opsconsole.errors import OpsConsoleError

Make = Callable[..., Awaitable[Any]]
SILENT = "the actuator did not answer within 10 s"


def _without_pools(folder: Path) -> AgentSettings:
    path = folder / "fleet.toml"
    path.write_text('[slo.chat]\nttft = "1s"\n[sources.kubernetes]\nselector = "app=vllm"\n')
    return agent_settings(load(path, {}), {"HOME": str(folder)})


def test_without_a_configured_pool_the_pools_are_those_seen(tmp_path: Path) -> None:
    settings = with_pools_seen(_without_pools(tmp_path), ["vllm", "embed", "vllm"])
    assert [pool.name for pool in settings.pools] == ["embed", "vllm"]
    assert [pool.spec.slos[0].name for pool in settings.pools] == ["chat", "chat"]
    assert with_pools_seen(settings, ["vllm", "embed"]) is settings
    assert with_pools_seen(settings, []).pools == (), "a pool that nobody has seen is not decided for"


def test_configured_pools_stay_whatever_is_seen(tmp_path: Path) -> None:
    settings = AgentSettings(tmp_path, pools=(PoolSettings(PoolSpec("chat")),))
    assert with_pools_seen(settings, ["vllm"]) is settings


async def test_a_loop_without_configured_pools_decides_for_what_it_sees(make_stage: Make, tmp_path: Path) -> None:
    usual = PoolSettings(PoolSpec("default"), policy="wanted")
    stage = await make_stage(pools=(usual,), any_pool=usual)
    record = await stage.loop.tick()
    assert [(d.pool, d.current) for d in record.decisions] == [("chat", 2)]
    assert [(p.pool, p.ready) for p in record.snapshot.pools] == [("chat", 2)]


async def test_a_count_that_is_not_known_is_not_0_and_nothing_is_decided(make_stage: Make) -> None:
    stage = await make_stage(want=0)
    real = stage.loop.hands.state

    async def silent(pool: str) -> PoolState:
        raise OpsConsoleError(SILENT)

    stage.loop.hands.state = silent
    record = await stage.loop.tick()
    await stage.ticks(3)
    words = f"chat: how many replicas it should have is unknown, so nothing is decided: {SILENT}"
    assert record.decisions == () and stage.law.seen == [] and stage.world.applied == 0
    assert record.snapshot.notes == (words,)
    assert stage.journal("error") == [words], "told once, not every tick"
    assert stage.journal("decision") == []
    stage.loop.hands.state = real
    record = await stage.loop.tick()
    assert [d.current for d in record.decisions] == [0] and record.snapshot.notes == ()


def test_who_shares_a_budget_with_an_unknown_count_waits_with_it(tmp_path: Path) -> None:
    settings = AgentSettings(tmp_path, budgets=(Budget("gpus", 8, ("prefill", "decode")),))
    told = undecidable(settings, {"prefill": Standing(None, SILENT), "decode": WATCHED, "chat": WATCHED})
    assert sorted(told) == ["decode", "prefill"]
    assert told["decode"] == "decode: nothing is decided: it shares budget gpus with prefill, whose count is unknown"
