"""The only place that turns a FleetSnapshot and a Forecast into what a policy and a screen may look at.

It translates and decides nothing. Unknown stays unknown. The trap: demand is what arrives, and the snapshot's rates
are arrivals already (started + change of waiting + rejected); the queue's growth is told beside them and must not be
added a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opsconsole.control.hours import windows
from opsconsole.control.mode import Holds
from opsconsole.control.settings import NodeTier, PoolSettings
from opsconsole.domain.records import (
    FleetSnapshot,
    ForecastView,
    LeadRecord,
    PoolView,
    ReplicaState,
    ReplicaView,
    SloView,
)
from policies.situation import Demand, Outlook, ReplicaFacts, Situation, SloFacts, State, Tier

if TYPE_CHECKING:  # numpy, which who forecasts nothing need not load
    from forecaster.forecast import Forecast

STATES: Mapping[ReplicaState, State] = {
    ReplicaState.OK: "ok",
    ReplicaState.HOT: "hot",
    ReplicaState.SATURATED: "saturated",
    ReplicaState.WARMING: "warming",
    ReplicaState.DRAINING: "draining",
    ReplicaState.STALE: "stale",
    ReplicaState.DOWN: "down",
}
GROWTH_WINDOW_S = 30.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts about a pool that are not in the snapshot."""

    want: int
    frozen_reason: str | None = None
    holds: Holds = field(default_factory=Holds)
    outlooks: Mapping[str, Outlook] = field(default_factory=dict)
    queue: Sequence[tuple[float, float | None]] = ()  # (time, waiting) of the last minutes
    interval_s: float = 1.0


def situation_of(snapshot: FleetSnapshot, pool: PoolSettings, around: Surroundings) -> Situation:
    """One pool at this tick, as a policy sees it."""
    view = snapshot.pool(pool.name) or PoolView(pool.name)
    members = tuple(r for r in snapshot.replicas if r.pool == pool.name)
    return Situation(
        now=snapshot.at,
        pool=pool.name,
        model=view.model or pool.spec.model,
        want=around.want,
        replicas=tuple(_facts(r, snapshot.interval, view.price_per_hour) for r in members),
        demand=_demand(view, around),
        slo=_slo(view),
        limits=pool.limits,
        lead_s=pool.lead_s,  # the policy's own memory knows better once it has seen a start
        capacity=pool.capacity,
        outlooks=around.outlooks,
        covered=view.covered and all(s.ok for s in snapshot.sources),
        paused_until=around.holds.paused_until(pool.name, snapshot.at),
        pinned_minimum=around.holds.pinned_minimum(pool.name, snapshot.at),
        frozen_reason=around.frozen_reason,
        thresholds=pool.thresholds,
        profile=pool.profile,
        schedule=(*pool.schedule, *windows(pool.hours, snapshot.at)),
        interval_s=around.interval_s,
        tiers=_tiers(snapshot, pool.tiers),
        role=pool.role,
        kind=_kind(members),
    )


def _tiers(snapshot: FleetSnapshot, tiers: Sequence[NodeTier]) -> tuple[Tier, ...]:
    """How many more each faster tier could take: its nodes less what runs there, and less whoever's node is not known.

    While a source fails nobody knows who runs where, and a start that is counted on too much comes too late.
    """
    if not tiers or not all(source.ok for source in snapshot.sources):
        return ()
    unknown = sum(replica.node is None for replica in snapshot.replicas)
    found = []
    for tier in tiers:
        taken = sum(replica.node in tier.nodes for replica in snapshot.replicas)
        found.append(Tier(tier.name, tier.lead_s, max(0, len(tier.nodes) * tier.per_node - taken - unknown)))
    return tuple(found)


def _kind(members: Sequence[ReplicaView]) -> str | None:
    """The accelerator most of the pool runs on; what is learned is kept by it."""
    kinds = Counter(m.gpu for m in members if m.gpu)
    return min(kinds, key=lambda kind: (-kinds[kind], kind), default=None)


def _facts(view: ReplicaView, interval: float, gpu_price: float | None) -> ReplicaFacts:
    cost = None if gpu_price is None or view.gpus is None else gpu_price * view.gpus
    phase = (view.phase or "").lower()
    answered = view.age is not None and view.age <= 1.5 * interval and view.error is None
    return ReplicaFacts(
        name=view.replica,
        state=STATES[view.state],
        waiting=view.waiting,
        running=view.running,
        kv_usage=view.kv_usage,
        preempt_rate=view.preempt_rate,
        prompt_rate=view.prompt_rate,
        output_rate=view.output_rate,
        request_rate=view.request_rate,
        started_at=view.started_at,
        expected_ready_at=view.expected_ready_at,
        streams=view.streams,
        age=view.age,
        seen=answered,
        cost=cost,
        kv_capacity_tokens=view.sample.kv_capacity_tokens if view.sample else None,
        unschedulable="unschedulable" in phase or phase.startswith("insufficient"),
        falling=phase.startswith("failing"),
        frozen=view.state is ReplicaState.STALE and answered,  # it answers, and what it says cannot be believed
        node=view.node,
    )


def _demand(view: PoolView, around: Surroundings) -> Demand:
    return Demand(
        request_rate=view.request_rate,
        prompt_rate=view.prompt_rate,
        output_rate=view.output_rate,
        waiting_growth=growth(around.queue),
        gateway_waiting=view.gateway_waiting,
        mean_prompt=_ratio(view.prompt_rate, view.request_rate),
        mean_output=_ratio(view.output_rate, view.request_rate),
        hit_rate=view.hit_rate,
    )


def growth(queue: Sequence[tuple[float, float | None]]) -> float | None:
    """Requests a second by which the queue grew over the last half minute; None with fewer than two readings."""
    if not queue:
        return None
    horizon = queue[-1][0] - GROWTH_WINDOW_S
    known = [(at, value) for at, value in queue if at >= horizon and value is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])


def _ratio(amount: float | None, count: float | None) -> float | None:
    return None if amount is None or not count else amount / count


def _slo(view: PoolView) -> SloFacts:
    slo = _binding(view.slos)
    if slo is None:
        return SloFacts(ttft_p95=view.ttft.p95, tpot_p95=view.tpot.p95)
    return SloFacts(
        target=slo.target,
        attainment_low=slo.attainment.low if slo.attainment else None,
        attainment_high=slo.attainment.high if slo.attainment else None,
        burn_short=slo.burn_short,
        burn_long=slo.burn_long,
        ttft=slo.ttft,
        tpot=slo.tpot,
        ttft_p95=view.ttft.p95,
        tpot_p95=view.tpot.p95,
    )


def _binding(slos: Sequence[SloView]) -> SloView | None:
    """The class in most trouble: furthest below its target at the lower end, unknown ones last."""

    def margin(slo: SloView) -> float:
        return 1.0 if slo.attainment is None else slo.attainment.low - slo.target

    return min(slos, key=margin, default=None)


def outlook_of(forecast: Forecast, unit: str, now: float) -> Outlook:
    """A forecast as a policy reads it: leads from `now`, those that have passed included, for they bound the next."""
    age = now - forecast.at
    leads = tuple(lead - age for lead in forecast.leads)
    return Outlook(leads, forecast.levels, _table(forecast), unit, forecast.model, forecast.warnings, forecast.step)


def forecast_view(forecast: Forecast, pool: str, unit: str, step: float) -> ForecastView:
    """A forecast as a screen reads it: leads from when it was made."""
    return ForecastView(
        pool=pool,
        unit=unit,
        made_at=forecast.at,
        leads=forecast.leads,
        levels=forecast.levels,
        quantiles=_table(forecast),
        model=forecast.model,
        warnings=forecast.warnings,
        step=step,
        demoted=forecast.demoted,
        weights={name: round(share, 4) for name, share in forecast.weights.items()},
        events=forecast.events,
        record=tuple(LeadRecord(*row) for row in forecast.record),
    )


def _table(forecast: Forecast) -> tuple[tuple[float, ...], ...]:
    """The quantiles to five digits: they are journalled at every tick, and the rest is noise."""
    return tuple(tuple(float(f"{value:.5g}") for value in row) for row in forecast.values)
