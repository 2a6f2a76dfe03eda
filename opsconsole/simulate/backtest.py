"""One cell of a backtest: a law with its knob, on a load, at a cold start, in either fidelity.

The first 40 % of a trace teach the forecaster and are not scored, as in the forecaster's own backtest; the fleet warms
up for two hours before scoring begins. It must not print. The trap: demand is scaled once per trace, so that the
clairvoyant schedule needs the wanted number of replicas at the reference start of 120 s, whatever start the cell has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from opsconsole.errors import UsageError
from opsconsole.simulate.fluid import simulate_fluid
from opsconsole.simulate.knobs import TELLS_BOUNDS
from opsconsole.simulate.latency import Latency
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.outlooks import Said, Teller, forecasts
from opsconsole.simulate.settings import DEFAULT_REPLICA, Arrival, ColdStart, FleetSettings, PolicyHandle, SloBounds
from opsconsole.simulate.traces import ASSUMED, BIN_S, FEWEST_S, Floats, Lengths, Load, Trace, draw_requests, load_of
from policies.baselines.static import Static
from policies.decision import Decision, Policy
from policies.memory import Memory
from policies.registry import names, policy
from policies.situation import CapacityFacts, Limits, Situation

Fidelity = Literal["fluid", "request"]

REFERENCE_START_S = 120.0
ORACLE_TICK_S = 10.0
WARM_SHARE = 0.4
RUN_UP_S = 7200.0
FLEET = 20.0  # replicas the clairvoyant schedule needs on average
SCALINGS = 5
HEADROOM = 1.5  # of the clairvoyant peak: the laws' maximum


@dataclass(frozen=True, slots=True)
class Told:
    """A law that is told tighter bounds than the ones it is judged by."""

    law: Policy
    share: float

    @property
    def name(self) -> str:
        return self.law.name

    @property
    def needs(self) -> tuple[str, ...]:
        return self.law.needs

    @property
    def period_s(self) -> float:
        return self.law.period_s

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        slo = situation.slo
        tight = replace(
            slo,
            ttft=None if slo.ttft is None else slo.ttft * self.share,
            tpot=None if slo.tpot is None else slo.tpot * self.share,
        )
        return self.law.decide(replace(situation, slo=tight), memory)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A trace made ready: scaled, cut to the part that is simulated, with all that was forecast over it."""

    trace: Trace  # whole, in bins
    load: Load  # the simulated part
    latency: Latency
    capacity: CapacityFacts
    worth: Floats  # replicas' worth of demand inside the SLO, by bin of the simulated part
    begins: float  # s of the trace at which the simulation starts
    warm_up_s: float
    said: Said

    @property
    def scale(self) -> float:
        return self.load.scale

    def oracle(self, cold_s: float) -> Floats:
        """Replicas the clairvoyant schedule holds, by bin."""
        return _schedule(self.worth, cold_s, self.load.trace.step)


def stage(
    trace: Trace,
    *,
    scale: float | None = None,
    fleet: float = FLEET,
    lengths: Lengths = ASSUMED,
    slo: SloBounds | None = None,
    needs: tuple[str, ...] = (),
    cache: Path | None = None,
    version: str = "",
    forecast: bool = True,
) -> Stage:
    """Make a trace ready for cells; `scale` None is found so that the clairvoyant schedule needs `fleet` replicas."""
    if trace.seconds < FEWEST_S:
        raise UsageError(f"{trace.name} spans {trace.seconds:g} s: a backtest needs {FEWEST_S:g} s or more.")
    binned = trace.in_bins(BIN_S)
    scored = math.floor(WARM_SHARE * binned.seconds / 60.0) * 60.0
    begins = max(0.0, scored - RUN_UP_S)
    part = binned.window(begins, binned.seconds)
    bounds = slo or SloBounds()
    base = load_of(part, 1.0, lengths)
    latency = Latency(DEFAULT_REPLICA, base.lengths, bounds)
    capacity = latency.capacity(max(2, round(fleet)))
    each = (capacity.request_rate or latency.rate) / latency.rate  # of saturation that is inside the SLO
    skip = round((scored - begins) / part.step)
    load = load_of(part, 1.0 if scale is None else scale, lengths)
    for _ in range(SCALINGS if scale is None else 0):  # chance evens out with scale, so the factor is found in turns
        factor = _scale_for(latency.work_rate(load) / each, skip, fleet, part.step)
        load = load_of(part, float(f"{load.scale * factor:.6g}"), lengths)
    said = forecasts(binned, needs, cache, version) if forecast else {}
    return Stage(binned, load, latency, capacity, latency.work_rate(load) / each, begins, scored - begins, said)


def _scale_for(worth: Floats, skip: int, fleet: float, step: float) -> float:
    """The factor on demand at which the clairvoyant schedule holds `fleet` replicas on average."""
    low, high = 0.0, fleet / max(1e-12, float(worth[skip:].mean()))
    for _ in range(40):
        middle = (low + high) / 2
        mean = float(_schedule(worth * middle, REFERENCE_START_S, step)[skip:].mean())
        low, high = (middle, high) if mean < fleet else (low, middle)
    return float(f"{high:.6g}")


def _schedule(worth: Floats, cold_s: float, step: float) -> Floats:
    """ceil of the highest demand from now to one start and one tick ahead, at least one."""
    ahead = math.floor((cold_s + ORACLE_TICK_S) / step + 1e-9) + 1
    highest, reach = worth.copy(), 1
    while reach < ahead:  # doubling windows, the last one overlapping
        hop = min(reach, ahead - reach)
        highest[:-hop] = np.maximum(highest[:-hop], highest[hop:])
        reach += hop
    return np.maximum(1.0, np.ceil(highest - 1e-9))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an operator would set for the fleet; `maximum` None is half again the clairvoyant peak."""

    minimum: int = 1
    maximum: int | None = None
    down_window_s: float = 300.0


def settings_for(
    found: Stage, cold_s: float, slo: SloBounds | None = None, seed: int = 1, bounds: Bounds = Bounds()
) -> FleetSettings:
    """The fleet all laws are given."""
    schedule = found.oracle(cold_s)
    most = bounds.maximum or max(4, bounds.minimum, math.ceil(HEADROOM * float(schedule.max())))
    return FleetSettings(
        cold_start=ColdStart.of(cold_s),
        limits=Limits(bounds.minimum, most, step_down=None, drains_at_once=1000, stabilise_down_s=bounds.down_window_s),
        slo=slo or SloBounds(),
        initial=max(bounds.minimum, min(most, int(schedule[0]))),
        warm_up_s=found.warm_up_s,
        seed=seed,
    )


def handle_for(found: Stage, name: str, knobs: Mapping[str, float], settings: FleetSettings) -> PolicyHandle:
    """The live law by its name, with the forecasts it reads and, for oracles, the future."""
    if name not in names():
        raise UsageError(f"policy {name!r} is unknown: use one of {', '.join(names())}.")
    told = knobs.get(TELLS_BOUNDS)
    law = policy(name, **{field: value for field, value in knobs.items() if field != TELLS_BOUNDS})
    if isinstance(law, Static):
        law = replace(law, replicas=round(law.replicas or found.oracle(0.0).max()))
    future: tuple[tuple[float, float], ...] = ()
    if name in ("oracle", "bound"):
        step = found.load.trace.step
        future = tuple((i * step, float(worth)) for i, worth in enumerate(found.worth))
    reads = bool(law.needs) or name == "predictive"
    teller = Teller(found.said, found.scale, found.begins) if reads and found.said else None
    return PolicyHandle(law if told is None else Told(law, told), teller, future, capacity=found.capacity)


def run(
    found: Stage, name: str, cold_s: float, knobs: Mapping[str, float] | None = None, *, fidelity: Fidelity = "fluid",
    slo: SloBounds | None = None, seed: int = 1, bounds: Bounds = Bounds(),
) -> RunOutcome:  # fmt: skip
    """One cell. The perfect-system bound is what it says only where starts take no time."""
    settings = settings_for(found, 0.0 if name == "bound" else cold_s, slo, seed, bounds)
    handle = handle_for(found, name, knobs or {}, settings)
    if fidelity == "fluid":
        return simulate_fluid(found.load, handle, settings, found.latency)
    from opsconsole.simulate.run import simulate

    ends = replace(settings, until_s=found.load.trace.seconds)
    return simulate(arrivals(found.load, seed), handle, ends)


def arrivals(load: Load, seed: int) -> list[Arrival]:
    """Single requests, drawn from the bins where the trace has none."""
    drawn = draw_requests(load, seed)
    blocks = drawn.blocks or ((),) * len(drawn)
    rows = zip(drawn.times.tolist(), drawn.prompt.tolist(), drawn.output.tolist(), blocks, strict=True)
    return [Arrival(at, prompt, output, ids) for at, prompt, output, ids in rows]
