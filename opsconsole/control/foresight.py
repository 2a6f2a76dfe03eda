"""The live forecast: one online forecaster a pool and demand series, fed at each tick, warmed from the history.

A tick costs a few array operations when a step closes and nothing otherwise; reading the history and fitting run in
one worker process and are taken when they are there. It decides nothing. The trap: a forecast is made when a step
closes and grows old until the next, so its leads are told from now, not from when it was made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forecaster.ets import EtsMember
from forecaster.forecast import Forecast
from forecaster.online import OnlineForecaster
from forecaster.worker import Worker
from opsconsole.clock import Clock
from opsconsole.control.demand import DemandSeries, SeriesOptions
from opsconsole.control.planned import UNIT as PLANNED_UNIT
from opsconsole.control.planned import Planned
from opsconsole.control.settings import AgentSettings
from opsconsole.control.situation import forecast_view, outlook_of
from opsconsole.control.warming import UNITS, rate_of, warm
from opsconsole.domain.records import FleetSnapshot, ForecastView
from policies.registry import REGISTRY
from policies.situation import Outlook

log = logging.getLogger(__name__)
HISTORY_S = 7 * 86400.0
WARM_LIMIT_S = 300.0
REACH_LEADS = 3.0  # cold starts ahead: what is kept looks two ahead, and a learned lead may be longer than the given


@dataclass(frozen=True, slots=True)
class ForesightOptions:
    """How to cut the series, and which past to know."""

    series: SeriesOptions = field(default_factory=SeriesOptions)
    database: Path | None = None  # history to begin from
    since: float | None = None  # nothing older is read; None is a week
    fits: bool = True  # whether the fitted member takes part, in the worker
    needs: tuple[str, ...] = ()  # forecasts that laws ask for by name
    waits: bool = False  # the history is read at once, in the tick: for a single decision, never for a daemon


def foresight_options(
    settings: AgentSettings, *, time_scale: float = 1.0, since: float | None = None
) -> ForesightOptions:
    """As an agent's settings need it."""
    lead = max((pool.lead_s for pool in settings.pools), default=0.0)
    series = SeriesOptions(
        time_scale, settings.interval_s, settings.options.window_s, REACH_LEADS * lead + settings.interval_s
    )
    laws = [*(pool.policy for pool in settings.pools), *settings.baselines]
    needs = {need for name in laws if name in REGISTRY for need in REGISTRY[name].needs}
    return ForesightOptions(series, settings.database, since, needs=tuple(sorted(needs)))


class Foresight:
    """The forecasts of every pool. Implements `control.forecasting.Forecasting`."""

    def __init__(self, options: ForesightOptions, clock: Clock, worker: Worker | None = None) -> None:
        self._options = options
        self._worker = worker or Worker(clock.monotonic)
        self._pools: dict[str, dict[str, DemandSeries]] = {}
        self._planned: dict[str, Planned] = {}
        self._warming: set[str] = set()

    def observe(self, snapshot: FleetSnapshot) -> None:
        """Feed every pool of the tick; one that is no longer there is forgotten."""
        for gone in self._pools.keys() - {view.pool for view in snapshot.pools}:
            del self._pools[gone], self._planned[gone]
            self._warming.discard(gone)
        for view in snapshot.pools:
            found = self._pools.get(view.pool) or self._begin(view.pool, snapshot.at)
            for unit, series in found.items():
                series.add(snapshot.at, rate_of(view, unit))
            self._planned[view.pool].add(snapshot.at, rate_of(view, PLANNED_UNIT))
            if view.pool in self._warming:
                self._take_history(view.pool, found)

    def outlooks(self, pool: str, now: float) -> Mapping[str, Outlook]:
        """The newest forecasts of the pool, leads counted from `now`."""
        found = {unit: outlook_of(made, unit, now) for unit, made in self._made(pool)}
        return {**found, **self._planned[pool].outlooks()} if pool in self._planned else found

    def views(self) -> tuple[ForecastView, ...]:
        step = self._options.series.step_s
        return tuple(forecast_view(made, pool, unit, step) for pool in self._pools for unit, made in self._made(pool))

    @property
    def late(self) -> int:
        """Jobs of the worker that were given up."""
        return self._worker.late

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()

    def _made(self, pool: str) -> list[tuple[str, Forecast]]:
        found = self._pools.get(pool, {})
        return [(unit, series.forecast) for unit, series in found.items() if series.forecast is not None]

    def _begin(self, pool: str, now: float) -> dict[str, DemandSeries]:
        options = self._options
        made = {
            unit: DemandSeries(options.series, self._member(f"{pool}/{unit}") if options.fits else None)
            for unit in UNITS
        }
        self._pools[pool] = made
        self._planned[pool] = Planned(pool, options.needs, self._worker)
        if options.database is not None and options.database.is_file():
            since = max(now - HISTORY_S, options.since or 0.0)
            arguments = (str(options.database), pool, options.series, since, now)
            if options.waits:
                self._adopt(made, warm(*arguments))
            else:
                self._worker.ask(f"warm/{pool}", warm, *arguments, deadline_s=WARM_LIMIT_S)
                self._warming.add(pool)
        return made

    def _member(self, key: str) -> EtsMember:
        return EtsMember(self._options.series.step_min, self._worker, f"ets/{key}")

    def _take_history(self, pool: str, found: dict[str, DemandSeries]) -> None:
        answer = self._worker.take(f"warm/{pool}")
        if answer is None:
            return
        self._warming.discard(pool)
        if answer.error is not None:
            log.warning("forecasts of %s begin without history: %s", pool, answer.error)
        self._adopt(found, answer.value or {})

    @staticmethod
    def _adopt(found: Mapping[str, DemandSeries], warmed: Mapping[str, OnlineForecaster]) -> None:
        for unit, series in found.items():
            if unit in warmed:
                series.adopt(warmed[unit])
            series.settle()
