"""What a file says of a pool reaches the law: thresholds as they are written, hours as windows around the tick."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from opsconsole.config import load
from opsconsole.control.configured import agent_settings
from opsconsole.control.settings import NodeTier, PoolSettings
from opsconsole.control.situation import Surroundings, situation_of
from opsconsole.domain.records import FleetSnapshot, Interval, PoolView, SloView, SourceView
from policies.compose import decide
from policies.memory import Memory
from policies.situation import Thresholds

FILE = """
[pool.chat]
minimum = 1
maximum = 8
cold_start = "10m"
[pool.chat.thresholds]
queue = 4
queue_hold = "30s"
kv = "80%"
preempt = 0.2
calm = "60%"
packed = "75%"
quantile = "99%"
burn = 3
[[pool.chat.schedule]]
begin = "08:00"
end = "18:30"
days = "mon-fri"
minimum = 4
note = "office hours"
[[pool.chat.schedule]]
begin = 2026-11-30T07:00:00Z
end = 2026-11-30T09:00:00Z
maximum = 6
note = "maintenance"
[pool.chat.step_time]
base = "12ms"
per_token = "0.07ms"
per_context = "0.0001ms"
max_batch_tokens = 512
[[pool.chat.tiers]]
name = "pulled"
lead = "45s"
nodes = ["gpu-7", "gpu-8"]
"""


def pool_of(tmp_path: Path) -> PoolSettings:
    path = tmp_path / "fleet.toml"
    path.write_text(FILE)
    return agent_settings(load(path, {})).pools[0]


def decided(pool: PoolSettings, now: datetime, want: int) -> tuple[int, str]:
    seen = FleetSnapshot(
        1, now.timestamp(), "f", "act", (), (PoolView("chat"),), (SourceView("s", "scrape", True),), interval=1.0
    )
    decision, _ = decide(situation_of(seen, pool, Surroundings(want=want)), Memory())
    return decision.target, decision.reason


def test_every_threshold_is_the_laws(tmp_path: Path) -> None:
    assert pool_of(tmp_path).thresholds == Thresholds(4.0, 0.8, 0.2, 0.6, 0.75, 30.0, 0.99, 3.0)


def test_the_step_times_are_those_that_dynamos_laws_predict_from(tmp_path: Path) -> None:
    profile = pool_of(tmp_path).profile
    assert profile is not None
    assert [profile.base_s, profile.per_token_s, profile.per_context_s] == pytest.approx([0.012, 7e-5, 1e-7])
    assert profile.max_batch_tokens == 512


def test_a_tier_is_its_nodes(tmp_path: Path) -> None:
    assert pool_of(tmp_path).tiers == (NodeTier("pulled", 45.0, frozenset({"gpu-7", "gpu-8"})),)


def test_a_file_that_says_nothing_leaves_the_laws_own_defaults(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[pool.chat]\n")
    pool = agent_settings(load(path, {})).pools[0]
    assert (pool.thresholds, pool.schedule, pool.hours) == (Thresholds(), (), ())


def test_a_scheduled_minimum_is_started_one_cold_start_ahead_and_held(tmp_path: Path) -> None:
    pool = pool_of(tmp_path)
    day = datetime(2026, 12, 1, tzinfo=UTC)
    assert decided(pool, day.replace(hour=7, minute=40), 2)[0] == 2
    target, reason = decided(pool, day.replace(hour=7, minute=55), 2)
    assert target == 4 and "schedule office hours begins in 300 s, lead 600 s, wants 4" in reason
    target, reason = decided(pool, day.replace(hour=12), 2)
    assert target == 4 and "schedule office hours 4 holds up 2" in reason
    assert decided(pool, datetime(2026, 12, 5, 12, tzinfo=UTC), 2)[0] == 2  # Saturday


def test_a_window_that_comes_once_bounds_that_once(tmp_path: Path) -> None:
    pool = pool_of(tmp_path)
    target, reason = decided(pool, datetime(2026, 11, 30, 7, 30, tzinfo=UTC), 8)
    assert target == 6 and "schedule maintenance 6 caps 8" in reason
    assert decided(pool, datetime(2026, 11, 30, 9, 30, tzinfo=UTC), 8)[0] == 8


def test_an_slo_below_what_an_idle_replica_does_is_told_to_be_out_of_reach_and_buys_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[slo.fast]\nttft = "200ms"\n[pool.chat]\nmaximum = 8\n[pool.chat.capacity]\nidle_ttft = "0.4s"\n')
    pool = agent_settings(load(path, {})).pools[0]
    slo = SloView("fast", 0.2, attainment=Interval(0.1, 0.2), burn_short=9.0, burn_long=9.0)
    seen = FleetSnapshot(1, 1000.0, "f", "act", (), (PoolView("chat", slos=(slo,)),), (), interval=1.0)
    decision, _ = decide(situation_of(seen, pool, Surroundings(want=2)), Memory())
    told = next(rule.text for rule in decision.rules if rule.rule == "slo")
    assert decision.target == 2
    assert told.startswith(
        "a lone request on an idle replica has TTFT 0.4 s and the bound is 0.2 s: more replicas cannot"
    )
