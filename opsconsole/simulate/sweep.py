"""A law's knob turned until its curve crosses the wanted attainment: its published value first, then where the line
through what is known crosses.

Cells come from the drawer where they were run before. The trap: the search takes attainment to rise with generosity; a
law that swings does not keep to that, and its best point found is then only a point found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opsconsole.simulate.backtest import Bounds, Fidelity, Stage, run, settings_for
from opsconsole.simulate.cells import Drawer, code_version
from opsconsole.simulate.knobs import KNOBS
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.pareto import Point
from opsconsole.simulate.settings import SloBounds

STEP = 3  # values further, where only one side of the target is known
HINDSIGHT = frozenset({"oracle", "bound"})  # they know the future and have no knob


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: the law, its knob (None: as published), and what it came to."""

    policy: str
    knob: float | None
    outcome: Mapping[str, Any]

    @property
    def point(self) -> Point:
        return Point(self.outcome["attainment"] or 0.0, self.outcome["gpu_hours"], self.knob)


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything of a cell but the law and its knob."""

    stage: Stage
    cold_s: float
    slo: SloBounds
    fidelity: Fidelity = "fluid"
    seed: int = 1
    drawer: Drawer = Drawer(None)  # noqa: RUF009  holds no state but its folder
    bounds: Bounds = Bounds()  # noqa: RUF009  frozen

    def cell(self, name: str, knob: float | None = None) -> Cell:
        """Run it, or read it where it has been run with the same inputs."""
        knobs = {} if knob is None else {KNOBS[name].field: knob}
        inputs = self._inputs(name, knobs)
        outcome = self.drawer.read(inputs)
        if outcome is None:
            found = run(
                self.stage, name, self.cold_s, knobs, fidelity=self.fidelity, slo=self.slo, seed=self.seed,
                bounds=self.bounds,
            )  # fmt: skip
            outcome = plain(found)
            self.drawer.keep(inputs, outcome)
        return Cell(name, knob, outcome)

    def _inputs(self, name: str, knobs: Mapping[str, float]) -> dict[str, Any]:
        stage = self.stage
        return {
            "trace": stage.trace.digest(),
            "scale": stage.scale,
            "lengths": repr(stage.load.lengths),
            "policy": name,
            "knobs": dict(knobs),
            "cold_start_s": self.cold_s,
            "settings": repr(settings_for(stage, self.cold_s, self.slo, self.seed, self.bounds)),
            "fidelity": self.fidelity,
            "code": code_version(name, self.fidelity),
        }


def plain(outcome: RunOutcome) -> dict[str, Any]:
    """The outcome for tables: numbers only, no timeline and no rows."""
    return {k: v for k, v in outcome.to_json().items() if k not in ("replica_timeline", "request_rows")}


def sweep(bench: Bench, name: str, told: Callable[[Cell], None] = lambda _: None) -> tuple[Cell, ...]:
    """Published value first; then the two neighbouring values between which the target lies."""
    if name in HINDSIGHT:
        cells = {None: bench.cell(name)}
        told(cells[None])
        return tuple(cells.values())
    values = static_values(bench) if name == "static" else KNOBS[name].values
    found: dict[float | None, Cell] = {}

    def attained(knob: float | None) -> float:
        if knob not in found:
            found[knob] = bench.cell(name, knob)
            told(found[knob])
        return found[knob].point.attainment

    at_first = attained(None)
    bracket = _around(values, KNOBS[name].published, at_first, bench.slo.target)
    while (place := bracket.next()) is not None:
        bracket = bracket.after(place, attained(values[place]))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Bracket:
    """The last value that misses the target and the first that meets it, as far as known, with what they attain."""

    target: float
    count: int  # of values
    low: int  # -1: none is known to miss
    high: int  # count: none is known to meet it
    at_low: float | None = None
    at_high: float | None = None
    tried: int = 0

    def next(self) -> int | None:
        """Which value to try: where a line through the logarithms of the misses crosses the target; None at the end."""
        wide = self.high - self.low
        if wide <= 1:
            return None
        if self.at_low is None and self.at_high is None:
            return (self.low + self.high) // 2
        if self.at_high is None:  # some steps up, and where that does not do, the most generous
            return min(self.low + STEP, self.high - 1) if self.tried == 0 else self.high - 1
        if self.at_low is None:
            return max(self.high - STEP * (1 + self.tried), self.low + 1)
        low, high, wanted = (math.log(max(1e-6, 1.0 - at)) for at in (self.at_low, self.at_high, self.target))
        share = (low - wanted) / (low - high) if low > high else 0.5
        return self.low + max(1, min(wide - 1, round(share * wide)))

    def after(self, place: int, attained: float) -> Bracket:
        if attained >= self.target:
            return replace(self, high=place, at_high=attained, tried=self.tried + 1)
        return replace(self, low=place, at_low=attained, tried=self.tried + 1)


def _around(values: tuple[float, ...], published: float | None, attained: float, target: float) -> Bracket:
    """What the first cell says, with the published value."""
    plain = Bracket(target, len(values), -1, len(values))
    if published is None:
        return plain
    place = sum(1 for value in values if _before(value, published, values))
    if attained >= target:
        return replace(plain, high=place, at_high=attained)
    return replace(plain, low=place if published in values else place - 1, at_low=attained)


def _before(value: float, published: float, values: tuple[float, ...]) -> bool:
    """Whether `value` is stingier than the published one, in the order of the list."""
    rising = values[-1] > values[0]
    return value < published if rising else value > published


def static_values(bench: Bench) -> tuple[float, ...]:
    """Counts from half the mean need to the peak, about a tenth apart."""
    worth = bench.stage.worth
    least, most = max(1.0, float(worth.mean()) / 2), float(bench.stage.oracle(0.0).max())
    found = {round(least)}
    while least < most:
        least *= 1.08
        found.add(min(round(least), round(most)))
    return tuple(float(n) for n in sorted(found))
