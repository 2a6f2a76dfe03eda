"""Pools that share GPUs: decided together, capped with the reason, and checked when the configuration is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opsconsole.config import load
from opsconsole.control.configured import agent_settings
from opsconsole.control.deciding import Decider
from opsconsole.control.settings import Budget, PoolSettings
from opsconsole.domain.fleet import PoolSpec
from opsconsole.errors import ConfigError
from policies.decision import Decision, Policy
from policies.memory import Memory
from policies.registry import policy
from policies.situation import Limits, ReplicaFacts, Situation

SHARED = Budget("cluster", 8, ("prefill", "decode"))


def hungry(pool: str, gpus: int = 1) -> tuple[Situation, PoolSettings]:
    """A pool of two replicas with long queues."""
    members = tuple(
        ReplicaFacts(f"{pool}-{i}", "ok", waiting=60.0, running=8.0, kv_usage=0.5, preempt_rate=0.0) for i in range(2)
    )
    limits = Limits(1, 20)
    settings = PoolSettings(PoolSpec(pool, None, 1, 20, gpus_per_replica=gpus), limits, "reactive")
    return Situation(1000.0, pool, None, 2, members, limits=limits, covered=True), settings


def test_pools_of_one_budget_get_what_it_holds_and_are_told_why() -> None:
    alone = Decider(policy).decide([hungry("prefill", 2), hungry("decode")])
    assert [d.view.target for d in alone] == [4, 4]
    prefill, decode = Decider(policy).decide([hungry("prefill", 2), hungry("decode")], (SHARED,))
    assert 2 * prefill.view.target + decode.view.target <= 8
    assert decode.view.binding == "joint budget" and "8 GPUs" in decode.view.reason
    assert decode.view.trace[-1].rule == "joint budget"


def test_a_pool_outside_the_budget_is_left_alone() -> None:
    (other,) = Decider(policy).decide([hungry("chat")], (SHARED,))
    assert other.view.target == 4


class Broken:
    name = "broken"
    needs: tuple[str, ...] = ()
    period_s = 15.0

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        raise RuntimeError("no")


def test_a_law_that_fails_keeps_its_pool_where_it_is_and_its_gpus_from_the_others() -> None:
    def laws(name: str) -> Policy:
        return Broken() if name == "broken" else policy(name)

    situation, pool = hungry("prefill")
    broken = PoolSettings(pool.spec, pool.limits, "broken")
    failed, decode = Decider(laws).decide([(situation, broken), hungry("decode")], (Budget("b", 5, SHARED.pools),))
    assert (failed.view.target, failed.error is not None) == (2, True)
    assert decode.view.target == 3


@pytest.mark.parametrize("still", [{"paused_until": 2000.0}, {"frozen_reason": "an HPA owns the scale of prefill"}])
def test_a_pool_that_is_held_gives_nothing_up_to_hungry_neighbours(still: dict[str, Any]) -> None:
    situation, pool = hungry("prefill")
    held = replace(situation, want=6, replicas=situation.replicas * 3, **still)
    for_all = Budget("b", 9, SHARED.pools)
    asked = [(held, pool), hungry("decode")]
    prefill, decode = Decider(policy).decide(asked, (for_all,))
    assert (prefill.view.target, prefill.view.drain) == (6, ())
    assert decode.view.target == 3 and "3 GPUs" in decode.view.reason


def test_a_pool_that_a_pause_found_outside_its_bounds_keeps_what_they_give_it() -> None:
    situation, pool = hungry("prefill")
    paused = replace(situation, want=2, paused_until=2000.0, limits=Limits(4, 20))
    prefill, decode = Decider(policy).decide([(paused, pool), hungry("decode")], (Budget("b", 6, SHARED.pools),))
    assert (prefill.view.target, decode.view.target) == (4, 2)


FILE = """
[pool.prefill]
minimum = 2
gpus_per_replica = 4
[pool.decode]
minimum = 1
"""


def settings_of(folder: Path, more: str) -> tuple[Budget, ...]:
    path = folder / "fleet.toml"
    path.write_text(FILE + more)
    return agent_settings(load(path, {}), {"HOME": str(folder)}).budgets


def test_a_budget_is_read(tmp_path: Path) -> None:
    more = '[budget.cluster]\ngpus = 16\npools = ["prefill", "decode"]\n'
    assert settings_of(tmp_path, more) == (Budget("cluster", 16, ("prefill", "decode")),)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[budget.a]\ngpus = 9\npools = ["chat"]', r"budget\.a\.pools: there is no \[pool\.chat\]"),
        ('[budget.a]\ngpus = 8\npools = ["prefill", "decode"]', "8 is less than the 9 that the pools' minimums take"),
        (
            '[budget.a]\ngpus = 9\npools = ["decode"]\n[budget.b]\ngpus = 9\npools = ["decode"]',
            "decode is in budget.a already",
        ),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_of(tmp_path, more)
