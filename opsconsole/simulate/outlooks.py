"""Every forecast a backtest needs, made once: they depend on the load and not on what a law decides.

The forecaster that runs live is walked over the trace and all it says is kept; a law then reads what had been said by
its own time. It must not look ahead: the newest forecast whose minute has ended is the one that counts. The trap: that
forecast is up to a minute old, so its leads are counted from now and shortened by its age.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecaster.backtest import regular, roll
from forecaster.forecast import FINE_LEADS_S, LEVELS
from forecaster.online import BASE_STEP_S
from forecaster.planners import INTERVAL_S, PLANNERS
from forecaster.series import from_values
from opsconsole.simulate.traces import Floats, Trace
from policies.situation import Demand, Outlook

MODEL = "online ensemble"
UNITS = {"requests": "requests/s", "prompt": "prompt tokens/s", "output": "output tokens/s"}
Said = dict[str, Floats]  # by column: [origins, leads, levels]; planners: [origins]


def forecasts(
    trace: Trace, needs: tuple[str, ...] = (), cache: Path | None = None, version: str = "", columns: bool = True
) -> Said:
    """What the forecaster says after each minute of `trace`, by column, and the planners in `needs`.

    Read from `cache` where the same column was walked before, in whichever trace.
    """
    names = [name for name in UNITS if columns and getattr(trace, name) is not None]
    found: Said = {}
    for name in (*names, *needs):
        path = None if cache is None else cache / f"forecast-{_digest(trace, name)}-{version}.npy"
        if path is not None and path.is_file():
            found[name] = np.load(path)
            continue
        found[name] = _planned(trace, name) if name in PLANNERS else _rolled(trace, name)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.part.npy")
            np.save(part, found[name])
            part.rename(path)
    return found


def _digest(trace: Trace, name: str) -> str:
    """Of the series that is forecast, and the planner's name where one does it."""
    planner = name if name in PLANNERS else ""
    values = trace.requests if planner else getattr(trace, name)
    found = hashlib.sha256(f"{trace.step!r} {planner}".encode())
    found.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return found.hexdigest()[:16]


def _rolled(trace: Trace, column: str) -> Floats:
    series = regular(from_values(getattr(trace, column) / trace.step, trace.step))
    return roll(series, FINE_LEADS_S, LEVELS).values.astype(np.float32).astype(np.float64)


def _planned(trace: Trace, name: str) -> Floats:
    """Requests/s of the next interval, after each interval."""
    per = round(INTERVAL_S / trace.step)
    whole = trace.requests[: trace.requests.size // per * per].reshape(-1, per).sum(axis=1)
    return PLANNERS[name](whole) / INTERVAL_S


@dataclass(slots=True)
class Teller:
    """An `OutlookProvider`: says at each time what had been forecast by then, times the load's scale."""

    said: Said
    scale: float
    begins: float  # s of the trace at the simulation's time 0
    _minute: int = -1
    _rows: dict[str, tuple[tuple[float, ...], ...]] | None = None

    def __call__(self, now: float, _: Demand) -> Mapping[str, Outlook]:
        at = self.begins + now
        minute = int(at / 60.0 + 1e-9) - 1
        if minute < 0:
            return {}
        if minute != self._minute or self._rows is None:
            self._minute, self._rows = minute, self._read(minute)
        age = at - (minute + 1) * 60.0
        leads = tuple(lead - age for lead in FINE_LEADS_S)
        found = {
            unit: Outlook(leads, LEVELS, rows, unit, MODEL, step_s=BASE_STEP_S) for unit, rows in self._rows.items()
        }
        return found | self._planned(at)

    def _read(self, minute: int) -> dict[str, tuple[tuple[float, ...], ...]]:
        out = {}
        for column, unit in UNITS.items():
            table = self.said.get(column)
            if table is not None:
                rows = (table[min(minute, len(table) - 1)] * self.scale).tolist()
                out[unit] = tuple(tuple(row) for row in rows)
        return out

    def _planned(self, at: float) -> dict[str, Outlook]:
        out = {}
        place = int(at / INTERVAL_S + 1e-9) - 1
        for name in PLANNERS:
            values = self.said.get(name)
            if values is not None and place >= 0:
                value = float(values[min(place, values.size - 1)]) * self.scale
                out[f"{name}:requests/s"] = Outlook((INTERVAL_S,), (0.5,), ((value,),), "requests/s", name)
        return out
