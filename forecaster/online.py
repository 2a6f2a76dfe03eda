"""The forecaster that is shipped: members, ensemble and conformal quantiles, one step at a time.

`observe` takes the rate of each step (or `None`), `forecast` answers at any moment. It reads nothing later than the
last observed step. It watches itself: while its loss is worse than last value's it says so and answers with last value.
Trap: a daily hole or an outage is a run of zeros in a series that is otherwise never zero; it must not be learned from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forecaster.bursts import Bursts
from forecaster.conformal import COLD_MIN, Conformal
from forecaster.ensemble import Ensemble, Loss
from forecaster.experts import BURSTS, ETS, EWMA_3, NAMES, Expertise
from forecaster.forecast import LEADS_S, LEVELS, Forecast, LeadRecord, sane
from forecaster.schedule import announce, choose_period, find_period
from forecaster.series import Series
from forecaster.window import Windows

if TYPE_CHECKING:
    from forecaster.ets import EtsMember

Floats = NDArray[np.float64]

BASE_STEP_S = 60.0
OUTAGE_HOLD_MIN = 30.0
ZEROS_RARE, RUNS_RARE = 0.05, 0.02  # shares of the steps: zeros, and beginnings of a run of them (about one an hour)
DEMOTE_HOURS = 24.0
HISTORY_DAYS = 15
PERIOD_EVERY_MIN = 360.0
GROWN = 30.0  # times the load a forecast was made at: what comes from nothing is no test of who forecasts best
FURTHEST = 5.0  # times the highest rate seen: beyond that nothing is known, and nothing is said


class OnlineForecaster:
    """One series' forecaster. `time_scale` compresses every time constant: 60 makes an hour of model time a minute.

    `leads` are in seconds of model time, like all its constants; steps and start are in real ones.
    """

    def __init__(
        self,
        step: float = BASE_STEP_S,
        start: float = 0.0,
        time_scale: float = 1.0,
        ets: EtsMember | None = None,
        leads: Sequence[float] = LEADS_S,
    ) -> None:
        if step <= 0 or time_scale <= 0:
            raise ValueError("step and time scale must be positive")
        self.step, self.time_scale = step, time_scale
        self._minutes = step * time_scale / 60.0
        steps = sorted({max(1, round(lead / 60.0 / self._minutes)) for lead in leads})
        self._leads = np.array(steps, dtype=np.int64)
        leads_min = np.asarray(self._leads * self._minutes, dtype=np.float64)
        per_hour = 60.0 / self._minutes
        self._bank = Expertise(self._leads, self._minutes, period=max(2, round(1440 / self._minutes)))
        self._bursts = Bursts(self._leads, self._minutes)
        self._ensemble = Ensemble(len(steps), len(NAMES), per_hour)
        self._conformal = Conformal(leads_min, per_hour)
        self._duel = Loss((len(steps), 2), DEMOTE_HOURS * per_hour)  # mix against last value
        self._inside = Loss((len(steps), len(LEVELS)), DEMOTE_HOURS * per_hour)  # targets at or under each quantile
        self._scored = np.zeros(len(steps), dtype=np.int64)
        self._scale = Loss((len(steps), 1), 0.5 * per_hour)
        depth = int(self._leads.max()) + 1
        self._ring: list[_Said | None] = [None] * depth
        self._time = start
        self._n = 0
        self._zeros = _Zeros(self._minutes)
        self._usual = 0.0  # a day's average rate
        self._highest = 0.0  # rate seen, halved in a week
        self._outage = 0
        self._gaps = 0
        self._now: _Said | None = None
        self._history: deque[float] = deque(maxlen=round(HISTORY_DAYS * 1440 / self._minutes))
        self._windows = Windows(self._leads, np.array(LEVELS))
        self._ets = ets
        self._look = max(1, round(PERIOD_EVERY_MIN / self._minutes))

    def observe(self, rate: float | None) -> None:
        """One step on. `None` is a gap; a zero where zeros are rare is taken for an outage for half an hour."""
        if rate is not None and (not np.isfinite(rate) or rate < 0):
            raise ValueError(f"a rate must be finite and not negative, got {rate}")
        held = rate is None or self._is_outage(rate)
        self._windows.step(None if held else rate)
        self._learn(None if held else rate)
        self._bank.update(None if held else rate)
        self._bursts.observe(None if held else rate, self._bank.base)
        if rate is not None and not held:
            gain = max(1 / (self._n + 1), 1 - 0.5 ** (self._minutes / 1440))
            self._usual += gain * (rate - self._usual)
            self._highest = max(rate, self._highest * 0.5 ** (self._minutes / 10_080))
        self._history.append(float("nan") if held or rate is None else rate)
        if self._ets is not None:
            self._ets.observe(None if held else rate)
        self._gaps += rate is None
        self._time += self.step
        self._n += 1
        if self._n % self._look == 0:
            self._bank.period = choose_period(np.array(self._history), self._minutes)
        self._now = self._say()
        self._ring[self._n % len(self._ring)] = self._now

    def _is_outage(self, rate: float) -> bool:
        """Whether a zero is not to be believed: one of a run that began when zeros were rare, and not for long."""
        is_zero = rate <= 0.0
        self._outage = self._outage + 1 if is_zero and (self._outage or self._zeros.are_rare) else 0
        is_held = 0 < self._outage <= self._longest_hold
        self._zeros.count(is_zero, is_held)
        return is_held

    @property
    def _longest_hold(self) -> float:
        """Steps for which an outage is held."""
        return OUTAGE_HOLD_MIN / self._minutes

    def _learn(self, rate: float | None) -> None:
        if rate is None or self._n == 0:
            return
        rows = [self._ring[(self._n + 1 - int(h)) % len(self._ring)] if h <= self._n else None for h in self._leads]
        truth = np.array([rate if said is not None else np.nan for said in rows])
        some = next((said for said in rows if said is not None), None)
        if some is None:
            return

        def gather(name: str) -> Floats:
            return np.stack([getattr(said or some, name)[i] for i, said in enumerate(rows)])

        predictions, heads, centres = gather("predictions"), gather("heads"), gather("centres")
        scale, level = gather("scale"), gather("level")
        fair = np.where(rate > GROWN * level, np.nan, truth)
        self._ensemble.learn(predictions, heads, fair, level)
        quantiles = gather("quantiles")
        self._conformal.learn(gather("candidates"), centres, scale, quantiles, truth)
        due = np.isfinite(truth)
        self._inside.update(np.where(due[:, None], truth[:, None] <= quantiles + 1e-12, np.nan))
        self._scored += due
        self._duel.update(np.abs(np.stack([centres[:, 0], centres[:, 2]], axis=1) - fair[:, None]) / level[:, None])
        self._scale.update(np.abs(centres[:, :1] - truth[:, None]))
        windows = np.stack([(said or some).windows[:, i] for i, said in enumerate(rows)], axis=1)
        self._windows.learn(windows, np.isfinite(truth), self._conformal.width)

    def _say(self) -> _Said:
        predictions = self._bank.predict()
        bursts = self._bursts.quantiles(self._conformal.levels)
        if bursts is not None:
            predictions[:, BURSTS] = bursts[:, LEVELS.index(0.5)]
        if self._ets is not None and (ahead := self._ets.predict(self._leads)) is not None:
            predictions[:, ETS] = ahead
        heads = self._ensemble.heads(predictions)
        mix = np.nan_to_num(self._ensemble.mix(heads))
        ewma = np.nan_to_num(predictions[:, EWMA_3])
        last = np.nan_to_num(predictions[:, 0])
        centres = np.stack([mix, ewma, last], axis=1)
        # Errors are weighed against the load now, but not against the nothing of a long outage.
        level = np.full(len(mix), max(self._bank.level, 0.2 * self._usual, 1e-9))
        known = self._scale.mass[:, 0] > 0
        scale = np.where(known, self._scale.mean()[:, 0], 0.3 * level)
        scale = np.maximum(scale, 0.01 * level)
        candidates = self._conformal.candidates(centres, scale, bursts)
        quantiles = self._conformal.quantiles(candidates, mix)
        if self._outage:
            # What has lasted d is likely to last another d: up to there the middle is zero, and the top holds,
            # since load comes back at once when an outage ends.
            short = self._leads <= self._outage
            quantiles[np.ix_(short, np.array(LEVELS) <= 0.5)] = 0.0
            centres[short, 0] = 0.0
        quantiles = sane(np.minimum(quantiles, FURTHEST * self._highest))
        windows = self._windows.said(quantiles)
        return _Said(predictions, heads, centres, scale, level, candidates, quantiles, windows)

    @property
    def end(self) -> float:
        """When the last step that was observed ended."""
        return self._time

    def attach(self, ets: EtsMember) -> None:
        """Give it the fitted member, which is told the recent history first."""
        for rate in list(self._history)[-ets.memory :]:
            ets.observe(None if np.isnan(rate) else float(rate))
        self._ets = ets

    @property
    def demoted(self) -> bool:
        """Whether the mix has lost to last value over the last day, at most leads."""
        if self._n * self._minutes < 120:
            return False
        loss = self._duel.mean()
        return bool((loss[:, 0] > loss[:, 1] * 1.01).mean() > 0.5)

    def forecast(self, *, events: bool = True) -> Forecast:
        """Quantiles for every lead, from what was observed so far; finding `events` costs a millisecond."""
        said = self._now
        leads = tuple(float(h) * self.step for h in self._leads)
        warnings = list(self._warnings())
        if said is None:
            return Forecast(self._time, leads, LEVELS, np.zeros((len(leads), len(LEVELS))), "none", self._time,
                            ("no history: nothing is known of the load",))  # fmt: skip
        values, model = said.quantiles, "online ensemble"
        if self.demoted:
            values = sane(values - said.centres[:, :1] + said.centres[:, 2:])
            model = "last value"
            warnings.append("demoted to last value: the ensemble lost to it over the last day")
        middle = len(leads) // 2
        speaking = self._ensemble.weights[middle] * np.isfinite(said.predictions[middle])
        speaking /= max(float(speaking.sum()), 1e-300)
        shown = {name: float(w) for name, w in zip(NAMES, speaking, strict=True) if w >= 0.01}
        found = announce(np.array(self._history), self._minutes) + self._bursts.words() if events else ()
        peaks, means = said.windows
        return Forecast(
            self._time, leads, LEVELS, values, model, self._time, tuple(warnings), shown, found, peaks, means,
            self.step, self.demoted, self.record(),
        )  # fmt: skip

    def record(self) -> tuple[LeadRecord, ...]:
        """What became of the forecasts so far, by lead."""
        loss, covered = self._duel.mean(), self._inside.mean()
        return tuple(
            LeadRecord(
                float(lead) * self.step,
                int(scored),
                float(1.0 - own / last) if last > 0 else None,
                tuple(round(float(share), 4) for share in shares),
            )
            for lead, scored, (own, last), shares in zip(self._leads, self._scored, loss, covered, strict=True)
            if scored
        )

    def _warnings(self) -> list[str]:
        out = []
        minutes = self._n * self._minutes
        if minutes < COLD_MIN:
            out.append(
                f"short history ({minutes:.0f} min of {COLD_MIN:.0f}): shipped growth ratios widen the upper quantiles"
            )
        if self._outage:
            so_far = f"outage: {self._outage} steps of zero where zeros are rare"
            holding = self._outage <= self._longest_hold
            out.append(f"{so_far}; " + ("holding the forecast from before" if holding else "taken for the load by now"))
        if self._n and self._gaps / self._n > 0.05:
            out.append(f"{100 * self._gaps / self._n:.0f} % of the history is missing")
        return out

    @property
    def period_min(self) -> float | None:
        """The period found in the history, in minutes of model time; `None` while there is none to be seen."""
        return find_period(np.array(self._history), self._minutes)


class _Zeros:
    """How usual zeros are: by their share, and by how often a run of them begins, for thin traffic is no outage.

    Zeros that were held are not in the share, or the first outage would make the next one usual.
    """

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._keep = 0.5 ** (minutes / 720.0)
        self._share = self._begun = self._mass = 0.0
        self._seen = 0
        self._before = False

    def count(self, is_zero: bool, is_held: bool) -> None:
        self._seen += 1
        gain = 1.0 - self._keep
        if not is_held:
            self._share = self._keep * self._share + gain * is_zero
        self._begun = self._keep * self._begun + gain * (is_zero and not self._before)
        self._mass = self._keep * self._mass + gain
        self._before = is_zero

    @property
    def are_rare(self) -> bool:
        known = self._seen * self._minutes >= 10
        return known and self._share < ZEROS_RARE and self._begun < RUNS_RARE * self._mass


class _Said:
    """What was said at one step, kept until its targets have arrived."""

    __slots__ = ("candidates", "centres", "heads", "level", "predictions", "quantiles", "scale", "windows")

    def __init__(
        self, predictions: Floats, heads: Floats, centres: Floats, scale: Floats, level: Floats, candidates: Floats,
        quantiles: Floats, windows: Floats,
    ) -> None:  # fmt: skip
        self.predictions, self.heads, self.centres = predictions, heads, centres
        self.scale, self.level, self.candidates, self.quantiles = scale, level, candidates, quantiles
        self.windows = windows


def fit(series: Series, time_scale: float = 1.0) -> OnlineForecaster:
    """A forecaster that has seen all of `series`, resampled to steps of one minute of model time."""
    step = max(series.step, BASE_STEP_S / time_scale)
    regular = series.resample(round(step / series.step) * series.step)
    forecaster = OnlineForecaster(regular.step, regular.start, time_scale)
    for value, known in zip(regular.values, regular.known, strict=True):
        forecaster.observe(float(value) if known else None)
    return forecaster


__all__ = ["OnlineForecaster", "fit"]
