"""One demand series of one pool: ticks in, steps out, a forecaster fed a step at a time.

It knows readings, steps and the forecaster, and nothing of fleets or laws. The traps: a rate read from counters is a
mean over its own window, so with a window as long as the step the last reading of a step *is* the step, and averaging
the readings would smear two steps into one; and a forecaster that was warmed elsewhere is older than it arrives, so
the steps closed meanwhile are kept and fed to it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from forecaster.ets import EtsMember
from forecaster.forecast import FINE_LEADS_S, Forecast
from forecaster.online import BASE_STEP_S, OnlineForecaster

FEWEST_KNOWN = 3  # steps until anything is forecast
QUIET_MIN = 10.0  # minutes of model time without a reading until a forecast is withheld
LONGEST_GAP = 20_000  # steps; after a longer one the series begins anew
KEPT_FOR_WARMING = 5_000
EVENTS_FROM_S = 10.0  # a step must be this long for finding events at each to be cheap
STRETCH = 1.5


@dataclass(frozen=True, slots=True)
class SeriesOptions:
    """How demand is cut into steps and how far ahead is looked. Seconds."""

    time_scale: float = 1.0  # 360 makes a day of the model four minutes
    interval_s: float = 1.0  # between ticks
    window_s: float = 60.0  # over which the readings' rates are counted
    reach_s: float = 600.0  # leads are given up to here at least

    @property
    def step_s(self) -> float:
        return max(BASE_STEP_S / self.time_scale, self.interval_s)

    @property
    def leads(self) -> tuple[float, ...]:
        """In model time: the usual ones, and more where the reach lies beyond them."""
        found = list(FINE_LEADS_S)
        while found[-1] < self.reach_s * self.time_scale:
            found.append(found[-1] * STRETCH)
        return tuple(found)

    def slot(self, at: float) -> int:
        """The step an instant lies in; steps are aligned to the clock."""
        return math.floor(at / self.step_s)

    def forecaster(self, slot: int, ets: EtsMember | None = None) -> OnlineForecaster:
        """A new one whose first step is `slot`."""
        return OnlineForecaster(self.step_s, slot * self.step_s, self.time_scale, ets, self.leads)

    @property
    def step_min(self) -> float:
        """Minutes of model time a step."""
        return self.step_s * self.time_scale / 60.0


class DemandSeries:
    """Feeds one forecaster; `forecast` is the newest, None while too little is known."""

    def __init__(self, options: SeriesOptions, ets: EtsMember | None = None) -> None:
        self._options, self._ets = options, ets
        self._open: int | None = None  # the step that readings go into now
        self._readings: list[float] = []
        self._forecaster: OnlineForecaster | None = None
        self._known, self._quiet = 0, 0  # steps with a value; steps without one since the last
        self._closed: deque[tuple[int, float | None]] | None = deque(maxlen=KEPT_FOR_WARMING)
        self.forecast: Forecast | None = None

    def add(self, at: float, rate: float | None) -> bool:
        """One tick's reading, None where it is unknown. Whether a step was closed by it."""
        slot = self._options.slot(at)
        far_back = self._open is not None and (self._open - slot) * self._options.step_min > QUIET_MIN
        if self._open is None or far_back or slot - self._open > LONGEST_GAP:
            self._begin(slot)
            self._open = slot
        closed = slot > self._open
        while self._open < slot:
            self._close(self._open, self._value())
            self._open += 1
        if rate is not None and slot == self._open:  # a clock that stepped back a little adds nothing
            self._readings.append(max(0.0, rate))
        if closed:
            self._say()
        return closed

    def adopt(self, warmed: OnlineForecaster) -> None:
        """Go on with one that knows the history; what was seen since it was made is told to it first."""
        if self._closed is None:
            return
        step = self._options.step_s
        ahead = round(warmed.end / step)
        for slot, value in self._closed:
            while ahead < slot:
                warmed.observe(None)
                ahead += 1
            if slot == ahead:
                warmed.observe(value)
                ahead += 1
        while self._open is not None and ahead < self._open:
            warmed.observe(None)
            ahead += 1
        self._open = ahead
        if self._ets is not None:
            warmed.attach(self._ets)
        self._forecaster, self._closed = warmed, None
        self._known = max(self._known, FEWEST_KNOWN)
        self._say()

    def settle(self) -> None:
        """No history will come."""
        self._closed = None

    def _begin(self, slot: int) -> None:
        self._readings = []
        self._forecaster = self._options.forecaster(slot, self._ets)
        self._known, self._quiet, self.forecast = 0, 0, None
        if self._closed:
            self._closed.clear()

    def _value(self) -> float | None:
        readings, self._readings = self._readings, []
        if not readings:
            return None
        return readings[-1] if self._options.window_s >= self._options.step_s else sum(readings) / len(readings)

    def _close(self, slot: int, value: float | None) -> None:
        assert self._forecaster is not None
        self._forecaster.observe(value)
        self._known += value is not None
        self._quiet = 0 if value is not None else self._quiet + 1
        if self._closed is not None:
            self._closed.append((slot, value))

    def _say(self) -> None:
        assert self._forecaster is not None
        spoken = self._known >= FEWEST_KNOWN and self._quiet * self._options.step_min <= QUIET_MIN
        has_time = self._options.step_s >= EVENTS_FROM_S
        self.forecast = self._forecaster.forecast(events=has_time) if spoken else None


def fed(options: SeriesOptions, pairs: Sequence[tuple[int, float | None]], until: int) -> OnlineForecaster | None:
    """A forecaster that has seen `pairs` of (step, rate) and gaps up to step `until`; None with too few known."""
    known = [slot for slot, value in pairs if value is not None and slot < until]
    if len(known) < FEWEST_KNOWN:
        return None
    values = {slot: value for slot, value in pairs if value is not None}
    first = max(known[0], until - LONGEST_GAP)
    made = options.forecaster(first)
    for slot in range(first, until):
        made.observe(values.get(slot))
    return made
