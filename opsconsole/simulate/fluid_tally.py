"""Counts what a fluid run comes to, in the same record as the request level.

It decides nothing. TTFT is kept in logarithmic buckets, so its p99 is good to 5 %. The trap: shortage is judged by
whole minutes, and a minute without arrivals is none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from opsconsole.simulate.latency import Latency, rounded
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.settings import FleetSettings

if TYPE_CHECKING:
    from opsconsole.simulate.fluid import Fleet

BUCKETS = np.geomspace(0.01, 10_000.0, 280)
MINUTE_S = 60.0


class Tally:
    """Sums over a run, after the warm-up."""

    def __init__(self, latency: Latency, settings: FleetSettings) -> None:
        self._latency, self._settings = latency, settings
        lengths = latency.lengths
        streams = max(1.0, latency.running(0.8))
        longest = _quantile(lengths.output, lengths.output_cv, 1.0 - 1.0 / (streams + 1.0)) * latency.step(0.8)
        self.drain_s = min(settings.limits.drain_deadline_s, longest)
        self._cut_share = _share_beyond(lengths.output, lengths.output_cv, settings.limits.drain_deadline_s
                                        / latency.step(0.8))  # fmt: skip
        self._streams = streams
        self._offered = self._met = self._cut = self._shortage = 0.0
        self._ready = self._starting = self._draining = 0.0
        self._ups = self._downs = 0
        self._minute: tuple[int, float, float] = (0, 0.0, 0.0)
        self._points: dict[tuple[int, int, int, int, int], float] = {}

    def add(
        self, now: float, seconds: float, fleet: Fleet, arrived: float, met: float, used: float, before: float,
        after: float, scale: int,
    ) -> None:  # fmt: skip
        if now < self._settings.warm_up_s - 1e-9:
            return
        self._ready += fleet.ready * seconds
        self._starting += len(fleet.warming) * seconds
        self._draining += len(fleet.draining) * seconds
        self._offered += arrived
        self._met += met
        minute, offered, inside = self._minute
        if now >= (minute + 1) * MINUTE_S - 1e-9:
            self._close()
            minute, offered, inside = int(now / MINUTE_S + 1e-9), 0.0, 0.0
        self._minute = (minute, offered + arrived, inside + met)
        ready = fleet.ready
        delays = (before / ready, after / ready) if ready else (9e3, 9e3)
        key = (rounded(ready), int(used * 50.0 + 0.5), scale, _bucket(delays[0]), _bucket(delays[1]))
        self._points[key] = self._points.get(key, 0.0) + arrived

    def _close(self) -> None:
        _, offered, inside = self._minute
        if offered > 0 and inside < self._settings.slo.target * offered - 1e-9:
            self._shortage += MINUTE_S

    def decided(self, now: float, before: int, after: int) -> None:
        if now >= self._settings.warm_up_s - 1e-9:
            self._ups += after > before
            self._downs += after < before

    def drained(self, now: float, count: int) -> None:
        if now >= self._settings.warm_up_s - 1e-9:
            self._cut += count * self._streams * self._cut_share

    def outcome(self, policy: str, end: float) -> RunOutcome:
        self._close()
        offered = round(self._offered)
        return RunOutcome(
            fidelity="fluid",
            policy=policy,
            offered=offered,
            met=min(offered, round(self._met)),
            failed=round(self._cut),
            gpu_hours_ready=self._ready / 3600.0,
            gpu_hours_starting=self._starting / 3600.0,
            gpu_hours_draining=self._draining / 3600.0,
            scale_ups=self._ups,
            scale_downs=self._downs,
            streams_cut=round(self._cut),
            ttft_p99=self._ttft(0.99),
            tpot_p99=None,
            shortage_s=self._shortage,
            span_s=end - self._settings.warm_up_s,
        )

    def _ttft(self, share: float) -> float | None:
        """A quantile of TTFT over all offered, from the operating points they met."""
        if self._offered <= 0:
            return None
        under = np.zeros(BUCKETS.size)
        for (ready, place, scale, first, last), weight in self._points.items():
            under += weight * self._latency.share_under(ready, place, scale, (_delay(first), _delay(last)), BUCKETS)
        place = int(np.searchsorted(under, share * self._offered))
        return float(BUCKETS[min(place, BUCKETS.size - 1)])


def _bucket(delay: float) -> int:
    """A delay in steps of a seventh; 0 is none."""
    return 0 if delay <= 1e-3 else 1 + max(0, round(math.log(delay / 1e-3) * 7.0))


def _delay(bucket: int) -> float:
    return 0.0 if bucket == 0 else 1e-3 * math.exp((bucket - 1) / 7.0)


def _quantile(mean: float, cv: float, share: float) -> float:
    from statistics import NormalDist

    variance = math.log1p(cv * cv)
    return mean * math.exp(NormalDist(-variance / 2, math.sqrt(variance)).inv_cdf(share))


def _share_beyond(mean: float, cv: float, value: float) -> float:
    """Share of a stream population whose remaining tokens exceed `value`: those seen running are length-biased."""
    from statistics import NormalDist

    variance = math.log1p(cv * cv)
    biased = NormalDist(math.log(mean) + variance / 2, math.sqrt(variance))
    return 1.0 - biased.cdf(math.log(max(value, 1e-9)))
