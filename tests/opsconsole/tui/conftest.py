"""A fleet written by hand and a client that answers from it: the same moment on every screen, in every test.

It must not move by itself: the clock is manual and the zone is UTC. The trap: the stream gives one snapshot and then
waits for ever, so a test that wants another tick pushes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import pytest

from opsconsole.clock import ManualClock
from opsconsole.domain.beside import Turn
from opsconsole.domain.records import (
    AlertView,
    Buckets,
    BudgetView,
    CapacityView,
    DecisionView,
    FleetSnapshot,
    ForecastView,
    HoldView,
    Interval,
    JournalEntry,
    LatencyView,
    LeadRecord,
    Outcome,
    Plan,
    PlanKind,
    PoolView,
    PrefixView,
    RegretTally,
    RegretView,
    ReplicaState,
    ReplicaView,
    RuleTrace,
    Sample,
    SloView,
    SourceView,
    SupplyPoint,
)
from opsconsole.errors import OpsConsoleError
from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.world import Link, LinkState, Look, Trends, World

AT = 1_764_504_271.0  # 2025-11-30 12:04:31 UTC
HOURS = 10_800.0


def replica(name: str, state: ReplicaState, why: str, **facts: Any) -> ReplicaView:
    base: dict[str, Any] = {
        "url": "http://10.4.2.17:8000", "engine": "vllm", "engine_version": "0.11.0", "model": "llama-8b",
        "node": "gpu-7", "gpu": "H100-80G", "gpus": 1, "started_at": AT - HOURS, "seen_at": AT - 0.4, "age": 0.4,
    }  # fmt: skip
    return ReplicaView(f"llama-8b-7d9-{name}", "chat", state, why, **(base | facts))


def serving(name: str, state: ReplicaState, why: str, facts: Sequence[float]) -> ReplicaView:
    waiting, running, kv, preempt, ttft, tpot, slo, hit, came, went = facts
    return replica(
        name, state, why, waiting=waiting, running=running, kv_usage=kv, preempt_rate=preempt / 60, hit_rate=hit,
        prompt_rate=came, output_rate=went, request_rate=went / 200, goodput=went / 200 * slo, streams=int(running),
        ttft=LatencyView(ttft / 3.5, ttft, ttft * 1.9, 200), tpot=LatencyView(tpot / 1.8, tpot, tpot * 1.3, 200),
        queue_time=LatencyView(ttft / 6, ttft * 0.74, ttft * 1.5, 200), e2e=LatencyView(6.0, 5 + 4 * ttft, 31.0, 200),
        attainment=Interval(slo, slo), ttft_ok=Interval(slo, slo), tpot_ok=Interval(0.99, 0.99),
        sample=Sample(f"llama-8b-7d9-{name}", AT, kv_capacity_tokens=131_072.0, max_running=16.0,
                      finished_by_reason={"stop": 90.0, "length": 10.0}),
    )  # fmt: skip


def fleet_replicas() -> tuple[ReplicaView, ...]:
    states = ReplicaState
    return (
        serving("x2k", states.SATURATED, "waiting 16 > 0 for 3m10s and KV 99%",
                (16, 16, 0.99, 2.1, 4.75, 0.072, 0.813, 0.62, 7100, 970)),
        serving("p4m", states.HOT, "KV 94% > 85%; waiting 4", (4, 16, 0.94, 0.4, 0.70, 0.045, 0.981, 0.60, 3400, 1080)),
        serving("q8t", states.HOT, "KV 91% > 85%; waiting 2", (2, 16, 0.91, 0.0, 0.48, 0.024, 0.994, 0.61, 2600, 330)),
        serving("aa1", states.OK, "nothing waits", (0, 10, 0.53, 0.0, 0.46, 0.048, 0.999, 0.62, 5400, 350)),
        serving("bc7", states.OK, "nothing waits", (0, 7, 0.41, 0.0, 0.24, 0.047, 1.0, 0.62, 14_200, 1660)),
        replica("dz9", states.STALE, "no good page for 41s", waiting=0.0, running=5.0, kv_usage=0.31, age=41.0,
                seen_at=AT - 41, error="scrape timed out 3x, last good 41s ago (values shown are stale)"),
        replace(serving("ee4", states.DRAINING, "draining: 3 streams", (0, 3, 0.12, 0.0, 0.21, 0.031, 1.0, 0.71, 400,
        80)),
                started_at=AT - 2400),
        replica("8f1", states.WARMING, "starting: load", phase="load", started_at=AT - 51, expected_ready_at=AT + 42),
    )  # fmt: skip


def ttft_buckets(slow: float) -> Buckets:
    """A minute's TTFT, the slower the larger `slow`."""
    bounds = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))
    shares = (0.3 - 0.3 * slow, 0.7 - 0.5 * slow, 0.9 - 0.4 * slow, 0.98 - 0.2 * slow, 1 - 0.1 * slow, 1.0, 1.0, 1.0)
    return Buckets(bounds, tuple(round(200 * share) for share in shares))


def chat_pool(**facts: Any) -> PoolView:
    base: dict[str, Any] = {
        "model": "llama-8b", "want": 9, "ready": 6, "warming": 1, "draining": 1, "stale": 1, "minimum": 2,
        "maximum": 16, "waiting": 22.0, "running": 68.0, "kv_usage": 0.71, "preempt_rate": 0.05, "request_rate": 33.1,
        "hit_rate": 0.62,
        "prompt_rate": 33_100.0, "output_rate": 4470.0, "ttft": LatencyView(0.19, 2.87, 5.0, 1900),
        "tpot": LatencyView(0.03, 0.069, 0.09, 1900), "goodput": 31.4, "gpus": 9, "price_per_hour": 22.4,
        "slos": (SloView("default", 1.0, 0.05, 0.98, Interval(0.968, 1.0), Interval(0.972, 0.972),
                         Interval(0.996, 0.996), 2.9, 1.5, 0.41, attainment_short=Interval(0.936, 0.942),
                         attainment_long=Interval(0.965, 0.97)),),
        "ttft_buckets": ttft_buckets(0.5), "start_s": {"pull": 90.0, "load": 240.0, "compile": 120.0, "warm": 30.0},
        "start_since": AT - 86_400,
    }  # fmt: skip
    return PoolView("chat", **(base | facts))


def fleet_snapshot(replicas: Sequence[ReplicaView] | None = None, **facts: Any) -> FleetSnapshot:
    shown = fleet_replicas() if replicas is None else tuple(replicas)
    return FleetSnapshot(
        facts.pop("tick", 7), facts.pop("at", AT), facts.pop("fleet", "prod-eu"), facts.pop("mode", "advise"), shown,
        facts.pop("pools", (chat_pool(),)), (SourceView("scrape", "scrape", True, 0.4),), facts.pop("can_act", True),
        **facts,
    )  # fmt: skip


def decision(current: int = 8, target: int = 9, at: float = AT - 11) -> DecisionView:
    trace = (
        RuleTrace("reactive", "queue 27 > 24 for 45s", 9, "fired", "queue 27 > 24 for 45s"),
        RuleTrace("forecast", "p90(+5m) 271 / 28 per replica", 10, "fired", "p90 271 > capacity 224"),
        RuleTrace("step limit", "+1 per 60s", 9, "binding", "+1 per 60s"),
        RuleTrace("cooldown", "last change 6m08s ago >= 3m", None, "ok", "ok"),
    )
    return DecisionView(
        at, "chat", current, target, "step limit", "queue 27>24 for 45s; forecast p90 271>cap 224", trace,
        counterfactual={"without the step limit": 10, "with a queue below 24": 8},
        capacity=CapacityView(4.4, 6600.0, 880.0, 0.9, 1.1, "learned", 12), lead=105.0, lead_assumed=False,
        supply=(SupplyPoint(at, 6), SupplyPoint(AT + 42, 7), SupplyPoint(AT + 300, 9)),
    )  # fmt: skip


REGRET = RegretView("chat", AT - 230, AT - 130, 105.0, 8, 9, 8.6, 37.8, "requests/s")


def fleet_journal() -> tuple[JournalEntry, ...]:
    plan = Plan("p1", PlanKind.SCALE, "chat", 7, 8, reason="queue 26", version="81", made_at=AT - 380)
    return (
        JournalEntry(1, AT - 1971, "replica", "chat", "llama-8b-7d9-x2k: OK -> SAT, waiting 16"),
        JournalEntry(2, AT - 380, "plan", "chat", "scale 7->8", who="ana", plan=plan),
        JournalEntry(3, AT - 379, "outcome", "chat", "ttft p95 1.9s -> 0.6s in 2m40s", who="ana",
                     outcome=Outcome("p1", "done", AT - 379, "ttft p95 1.9s -> 0.6s", by="ana")),
        JournalEntry(4, AT - 206, "decision", "chat", "cooldown 180s left 43s", decision=decision(8, 8, AT - 206)),
        JournalEntry(7, AT - 130, "regret", "chat", "chat decided 8; 8.6 replicas' worth came: 9 were needed",
                     decision=replace(decision(7, 8, AT - 230), regret=REGRET)),
        JournalEntry(5, AT - 41, "replica", "chat", "llama-8b-7d9-dz9: OK -> STALE, scrape timed out 3x"),
        JournalEntry(6, AT - 11, "decision", "chat", "queue 27>24", decision=decision()),
    )  # fmt: skip


def fleet_history() -> tuple[FleetSnapshot, ...]:
    out = []
    for index in range(60):
        at = AT - 60 * (60 - index)
        rate = 20 + 8 * (index / 60) + (index % 7) * 0.5
        slow = max(0.0, index / 60 - 0.3)
        pool = chat_pool(
            request_rate=rate, goodput=rate * 0.97, hit_rate=0.5 + index / 500, ttft_buckets=ttft_buckets(slow)
        )
        out.append(fleet_snapshot((), at=at, tick=index, pools=(pool,)))
    return tuple(out)


def forecast() -> ForecastView:
    leads = tuple(float(60 * i) for i in range(1, 16))
    middle = [28 + i * 0.6 for i in range(15)]
    quantiles = tuple((m * 0.9, m, m * 1.12) for m in middle)
    record = tuple(
        LeadRecord(60.0 * i, 200 - i, 0.29 - i / 60, (0.11, 0.52, 0.91 - i / 200)) for i in (1, 2, 5, 10, 15)
    )
    return ForecastView(
        "chat", "requests/s", AT - 31, leads, (0.1, 0.5, 0.9), quantiles, "holt-winters(60s)", step=60.0, bought=0.9,
        weights={"ets": 0.62, "seasonal": 0.38}, record=record, regret=RegretTally(42, 0.93, 0.1, 0.4, AT - 3600),
    )  # fmt: skip


def fleet_trends() -> Trends:
    trends = Trends()
    for index in range(30):
        part = index / 29
        grown = tuple(
            replace(r, running=r.running and r.running * part, kv_usage=r.kv_usage and r.kv_usage * part)
            for r in fleet_replicas()
        )
        pool = chat_pool(waiting=22 * part, kv_usage=0.71 * part)
        trends.add(fleet_snapshot(grown, at=AT - 29 + index, tick=index, pools=(pool,)))
    return trends


def fleet_alerts() -> tuple[AlertView, ...]:
    return (
        AlertView("replica-saturated", "llama-8b-7d9-x2k", "firing", AT - 190, "SAT for 3m10s", "critical"),
        AlertView(
            "replica-stale", "llama-8b-7d9-dz9", "silenced", AT - 41, "scrape timeout x3", "warning", AT + 99, "ana"
        ),
    )


FINDINGS: tuple[dict[str, Any], ...] = (
    {"rule": "PX101", "message": "a clock time stands before 1,790 tokens that never change; move it behind them",
     "reuse_before": 0.02, "reuse_after": 0.91, "requests_touched": 214, "requests_total": 230},
)  # fmt: skip
PREFIXES = (
    PrefixView("9f3c21aa", 1824, 912, 214, ("llama-8b-7d9-x2k", "llama-8b-7d9-p4m", "llama-8b-7d9-aa1"), AT - 1),
    PrefixView("77b10d4e", 3410, 130, 12, ("llama-8b-7d9-q8t",), AT - 38),
)


def whole_world(**changes: Any) -> World:
    base = World(
        Link(LinkState.LIVE, "/run/agent.sock", "", AT - 100), fleet_snapshot(), AT, fleet_trends(), fleet_journal(),
        fleet_alerts(), (decision(),), (forecast(),), (), FINDINGS, fleet_history(),
        PREFIXES,
    )  # fmt: skip
    return replace(base, **changes)


@pytest.fixture
def world() -> World:
    return whole_world()


@pytest.fixture
def look() -> Look:
    return Look(zone=UTC, now=AT + 0.4)


@pytest.fixture
def make_world() -> Callable[..., World]:
    return whole_world


@pytest.fixture
def make_snapshot() -> Callable[..., FleetSnapshot]:
    return fleet_snapshot


@pytest.fixture
def make_replica() -> Callable[..., ReplicaView]:
    return replica


@dataclass
class PretendAgent:
    """The client's methods over the world above; every mutation is kept."""

    world: World = field(default_factory=whole_world)
    plans: list[Plan] = field(default_factory=list)
    intents: list[tuple[str, str]] = field(default_factory=list)
    held: list[tuple[str, str, int | None]] = field(default_factory=list)
    silences: list[tuple[str, str]] = field(default_factory=list)
    silenced_for: float | None = None
    refuse_plan: OpsConsoleError | None = None
    refuse_intent: OpsConsoleError | None = None
    refuse_log: OpsConsoleError | None = None
    warnings: tuple[str, ...] = ()
    tells: bool = True  # what changes beside the ticks; an agent of an older version has to be asked
    pushed: asyncio.Queue[FleetSnapshot | Turn | OpsConsoleError] = field(default_factory=asyncio.Queue)
    closed: bool = False

    async def follow(self, topics: Sequence[str]) -> AsyncGenerator[Turn]:
        told = frozenset(topics) if self.tells else frozenset()
        if self.world.snapshot is not None:
            yield Turn(self.world.snapshot, {name: getattr(self.world, name) for name in told}, told)
        while True:
            item = await self.pushed.get()
            if isinstance(item, OpsConsoleError):
                raise item
            yield item if isinstance(item, Turn) else Turn(item, {}, told)

    async def snapshot(self) -> FleetSnapshot:
        assert self.world.snapshot is not None
        return self.world.snapshot

    async def history(
        self, since: float | None = None, until: float | None = None, **more: Any
    ) -> tuple[FleetSnapshot, ...]:
        if more.get("pools_only"):
            return self.world.history
        return tuple(s for s in self.world.history if (since or 0) <= s.at <= (until or AT))

    async def at(self, at: float) -> FleetSnapshot | None:
        if at < AT - 3000:
            return None
        return fleet_snapshot(at=at, tick=3)

    async def decisions(self, at: float | None = None) -> tuple[DecisionView, ...]:
        return self.world.decisions if at is None else tuple(d for d in self.world.decisions if d.at <= at)

    async def forecast(self, pool: str | None = None, *, at: float | None = None) -> tuple[ForecastView, ...]:
        return self.world.forecasts if at is None else tuple(f for f in self.world.forecasts if f.made_at <= at)

    async def journal(self, *, after: int | None = None, **more: Any) -> tuple[JournalEntry, ...]:
        return tuple(entry for entry in self.world.journal if entry.seq > (after or 0))

    async def alerts(self) -> tuple[AlertView, ...]:
        return self.world.alerts

    async def findings(self) -> tuple[Mapping[str, Any], ...]:
        return self.world.findings

    async def prefixes(self) -> tuple[PrefixView, ...]:
        return self.world.prefixes

    async def budgets(self) -> tuple[BudgetView, ...]:
        return self.world.budgets

    async def logs(self, replica: str, lines: int = 200) -> tuple[str, ...]:
        if self.refuse_log is not None:
            raise self.refuse_log
        return (f"{replica} started", "[/red] \x1b[31mnot a colour", "ready")

    async def holds(self) -> tuple[HoldView, ...]:
        return self.world.holds

    async def plan(
        self, kind: PlanKind, pool: str = "", *, to: int | None = None, replicas: Sequence[str] = (), reason: str = ""
    ) -> Plan:
        if self.refuse_plan is not None:
            raise self.refuse_plan
        made = Plan(
            f"plan-{len(self.plans)}", PlanKind(kind), pool, 9 if to is not None else None, to, tuple(replicas), reason,
            "81827", AT, 3 if replicas else 0, 120.0, "22.4 -> 24.9 $/h", True, self.warnings,
        )  # fmt: skip
        self.plans.append(made)
        return made

    async def intent(self, plan_id: str, note: str = "") -> Outcome:
        if self.refuse_intent is not None:
            raise self.refuse_intent
        self.intents.append((plan_id, note))
        return Outcome(plan_id, "running", AT, note)

    async def silence(self, rule: str, subject: str = "", *, for_s: float = 3600.0, note: str = "") -> AlertView | None:
        self.silences.append((rule, subject))
        self.silenced_for = for_s
        return None

    async def hold(
        self, kind: str, pool: str = "", *, minimum: int | None = None, for_s: float | None = None, note: str = ""
    ) -> tuple[HoldView, ...]:
        self.held.append((kind, pool, minimum))
        return ()

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def agent() -> PretendAgent:
    return PretendAgent()


@pytest.fixture
def make_app(agent: PretendAgent) -> Callable[..., ConsoleApp]:
    """A console on the pretended agent, with a clock that stands still."""

    def make(theme: str = "dark", look: Look | None = None, settings: TuiSettings | None = None) -> ConsoleApp:
        async def connect(address: str) -> PretendAgent:
            return agent

        return ConsoleApp(
            "/run/agent.sock", settings=settings, look=look or Look(zone=UTC, now=AT), theme_name=theme,
            clock=ManualClock(AT + 0.4), make=connect,
        )  # fmt: skip

    return make
