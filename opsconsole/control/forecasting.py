"""The place where a forecast enters the loop: quantiles of demand at every lead, for the policies and the screens.

It knows what the loop asks of a forecaster and none of how one works. The trap: a forecast may only raise a floor, so
one that fails or is late is simply not there; it must never hold a tick up or stop it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from opsconsole.domain.records import FleetSnapshot, ForecastView
from policies.situation import Outlook

log = logging.getLogger(__name__)


class Forecasting(Protocol):
    """What the loop asks. All of it returns at once; fits that take long happen elsewhere."""

    def observe(self, snapshot: FleetSnapshot) -> None:
        """See one more tick."""
        ...

    def outlooks(self, pool: str, now: float) -> Mapping[str, Outlook]:
        """The newest forecasts of the pool by unit; empty while there are none."""
        ...

    def views(self) -> tuple[ForecastView, ...]:
        """The same for screens, every pool."""
        ...

    def close(self) -> None:
        """Let go of what it holds: the end of the agent."""
        ...


class NoForecast:
    """Nothing is forecast."""

    def observe(self, snapshot: FleetSnapshot) -> None:
        return None

    def outlooks(self, pool: str, now: float) -> Mapping[str, Outlook]:
        return {}

    def views(self) -> tuple[ForecastView, ...]:
        return ()

    def close(self) -> None:
        return None


class Guarded:
    """A forecaster that may fail without anybody noticing but the log."""

    def __init__(self, inner: Forecasting) -> None:
        self._inner = inner

    def observe(self, snapshot: FleetSnapshot) -> None:
        try:
            self._inner.observe(snapshot)
        except Exception:
            log.exception("the forecaster failed to take a tick")

    def outlooks(self, pool: str, now: float) -> Mapping[str, Outlook]:
        try:
            return self._inner.outlooks(pool, now)
        except Exception:
            log.exception("the forecaster failed for pool %s", pool)
            return {}

    def views(self) -> tuple[ForecastView, ...]:
        try:
            return self._inner.views()
        except Exception:
            log.exception("the forecaster failed to show its forecasts")
            return ()

    def close(self) -> None:
        try:
            self._inner.close()
        except Exception:
            log.exception("the forecaster failed to end")
