"""From a pool's table to its settings: limits, thresholds, capacity, hours and objectives.

It maps tables to values and starts nothing. The trap: limits that are possible one by one may be impossible together
(a window shorter than the measurement lag), so they are checked as the law would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import time

from opsconsole.config import Config, Loaded
from opsconsole.config_pool import DAYS, CapacityTable, PoolTable, ScheduleTable, StepTimeTable, ThresholdsTable
from opsconsole.control.credentials import where
from opsconsole.control.hours import Hours
from opsconsole.control.settings import NodeTier, PoolSettings
from opsconsole.domain.fleet import PoolSpec, SloSpec
from opsconsole.errors import ConfigError
from policies.situation import CapacityFacts, Limits, ScheduleWindow, StepProfile, Thresholds
from policies.worth import prompt_share


def pool_settings(name: str, table: PoolTable, loaded: Loaded) -> PoolSettings:
    """One pool; what is impossible is a ConfigError that names file and key."""
    config = loaded.config
    limits = _limits(table)
    problems = limits.problems(measurement_lag_s=2 * config.agent.interval)
    if problems:
        raise ConfigError(f"{where(loaded, f'pool.{name}')}: pool.{name}: {problems[0]}.")
    slos = slos_of(config, table.slo or tuple(config.slo))
    return PoolSettings(
        spec=PoolSpec(
            name, table.model, table.minimum, table.maximum, slos, table.gpu_price_per_hour, table.gpus_per_replica
        ),
        limits=limits,
        policy=table.policy,
        lead_s=table.cold_start,
        thresholds=_thresholds(table.thresholds),
        capacity=_capacity(table.capacity),
        profile=_profile(table.step_time),
        schedule=tuple(_once(table.schedule)),
        hours=tuple(_again(table.schedule)),
        tiers=tuple(NodeTier(t.name, t.lead, frozenset(t.nodes), t.replicas_per_node) for t in table.tiers),
        role=table.role,
    )


def slos_of(config: Config, names: Iterable[str]) -> tuple[SloSpec, ...]:
    return tuple(SloSpec(name, config.slo[name].ttft, config.slo[name].tpot, config.slo[name].target) for name in names)


def _limits(table: PoolTable) -> Limits:
    return Limits(
        minimum=table.minimum,
        maximum=table.maximum,
        step_up=table.step_up,
        step_down=table.step_down,
        stabilise_up_s=table.stabilise_up,
        stabilise_down_s=table.stabilise_down,
        drains_at_once=table.drains_at_once,
        drain_deadline_s=table.drain_deadline,
        to_zero_after_s=table.to_zero_after,
    )


def _thresholds(table: ThresholdsTable) -> Thresholds:
    return Thresholds(
        queue=table.queue,
        kv=table.kv,
        preempt=table.preempt,
        calm=table.calm,
        packed=table.packed,
        queue_hold_s=table.queue_hold,
        quantile=table.quantile,
        burn=table.burn,
    )


def _capacity(told: CapacityTable | None) -> CapacityFacts | None:
    if told is None:
        return None
    share = told.prompt_share
    if share is None and told.prompt_tokens is not None and told.output_tokens is not None:
        share = prompt_share(told.prompt_tokens, told.output_tokens)
    return CapacityFacts(
        told.requests,
        told.prompt_tokens,
        told.output_tokens,
        idle_ttft=told.idle_ttft,
        idle_tpot=told.idle_tpot,
        prompt_share=share,
    )


def _profile(told: StepTimeTable | None) -> StepProfile | None:
    if told is None:
        return None
    return StepProfile(
        told.base, told.per_token, told.per_context, told.kv_tokens, told.max_running, told.max_batch_tokens
    )


def _once(tables: Iterable[ScheduleTable]) -> Iterator[ScheduleWindow]:
    for table in tables:
        if table.span is not None:
            begin, end = (at.timestamp() for at in table.span)
            yield ScheduleWindow(begin, end, table.minimum, table.maximum, table.note)


def _again(tables: Iterable[ScheduleTable]) -> Iterator[Hours]:
    for table in tables:
        if isinstance(table.begin, time) and isinstance(table.end, time):
            days = frozenset(DAYS.index(day) for day in table.days)
            yield Hours(table.begin, table.end, days, table.timezone, table.minimum, table.maximum, table.note)
