"""The simulation against the embedded engine on this machine: fit a step-time model, replay a load in both, compare.

The engine runs in this process, in real time, with the same arrivals the simulation gets. The fit sees one load and the
comparison another, by turns of seconds, because a machine's speed drifts within minutes and both must see the same
drift. Time and sleep come as callables. The trap: what a step takes is the whole of it, planning and sampling included,
not the model's forward alone; and a machine that others use fits and replays their noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.step_time import StepShape, StepTimeFit
from opsconsole.simulate.alone import serve
from opsconsole.simulate.engine_twin import Fate, fate_of, request_of
from opsconsole.simulate.replica import NEVER, Replica
from opsconsole.simulate.score import percentile
from opsconsole.simulate.settings import Arrival, ReplicaModel
from opsconsole.simulate.steptime import StepCurve

if TYPE_CHECKING:
    from engine.core import EngineCore

KNOTS = (1, 8, 32, 64, 128, 256, 512)  # tokens in the batch
STRETCH_S = 12.0  # of replay between two pieces of the fit
FIRST_ID, IDS = 100, 20_000  # token ids that every vocabulary in use has
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure in both worlds, seconds; `bar` is the largest relative error allowed, None where it is only shown."""

    name: str
    real: float
    simulated: float
    error: float
    bar: float | None = None

    @property
    def ok(self) -> bool:
        return self.bar is None or self.error <= self.bar


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What was fitted, from how many steps, how well it explains them, and how the replay compares."""

    curve: StepCurve
    steps: int
    step_error: float  # median relative error of one step's time, on the steps it was fitted to
    drift: float  # by what share the replay's steps took longer, all together, than the fit says of the same steps
    requests: int
    load: float  # share of the time the engine was busy
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)


class CpuTime:
    """The CPU seconds of this process as a clock: what others do on the machine does not count, and idling costs none.

    Right only where one thread computes. `spent` is the process's CPU time, in seconds.
    """

    def __init__(self, spent: Callable[[], float]) -> None:
        self._spent, self._idled = spent, 0.0

    def now(self) -> float:
        return self._spent() + self._idled

    def sleep(self, seconds: float) -> None:
        self._idled += seconds


class _Recorder(StepTimeFit):
    """Takes the shape of every step from the engine's own hook."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: StepShape | None = None

    def observe(self, shape: StepShape, seconds: float) -> None:
        self.shape = shape


def cross_check(
    path: str,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    *,
    seconds: float = 60.0,
    rate: float | None = None,
    seed: int = 1,
    threads: int | None = None,
    say: Say = lambda text: None,
) -> CrossCheck:
    """Fit and replay with the weights at `path`. Takes about twice `seconds`, on all cores or `threads` of them."""
    from engine.assembly import EngineOptions, model_engine

    say("loading the model")
    engine = model_engine(path, EngineOptions("check"), now, dtype="auto", quantize="auto", threads=threads)
    return check_core(engine.core, now, sleep, seconds=seconds, rate=rate, seed=seed, say=say)


def check_core(
    core: EngineCore,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    *,
    seconds: float,
    rate: float | None = None,
    seed: int = 1,
    say: Say = lambda text: None,
) -> CrossCheck:
    """The same for an engine that is there already. `rate` None chooses one at which it is busy and not drowning."""
    model = ReplicaModel(
        "embedded",
        StepCurve(((0.0, 1.0),)),
        kv_blocks=core.config.kv_blocks,
        block_size=core.config.block_size,
        chunk=core.config.chunk,
        max_seqs=core.config.max_seqs,
        hash_tokens=core.config.block_size,
    )
    world = _World(core, now, sleep)
    world.run(varied(seed, 3, 4.0))  # first steps are slow for reasons of their own
    stretches = max(1, round(seconds / STRETCH_S))
    crowds = max(8, int(seconds / (stretches + 1)))
    fitted, replayed, arrivals, real = _Turn(), _Turn(), [], []
    for turn in range(stretches + 1):
        say(f"fitting: a varied load, turn {turn + 1} of {stretches + 1}")
        fitted.run(world, varied(seed + 1 + turn, crowds, 1.2))
        if turn == stretches:
            break
        rate = rate or _moderate(fit(fitted.steps), model)
        arrivals.append(chat(seed + 1000 + turn, rate, seconds / stretches))
        say(f"replaying: {len(arrivals[-1])} requests at {rate:.2f}/s, turn {turn + 1} of {stretches}")
        real += replayed.run(world, arrivals[-1])
    curve = fit(fitted.steps)
    step_error = _median([abs(_seconds(curve, shape) - took) / took for shape, took in fitted.steps])
    ours = [fate for some in arrivals for fate in simulated(replace(model, step=curve), some)]
    drift = sum(took for _, took in replayed.steps) / sum(_seconds(curve, shape) for shape, _ in replayed.steps) - 1.0
    load = replayed.busy_s / max(1e-9, replayed.took_s)
    return CrossCheck(curve, len(fitted.steps), step_error, drift, len(real), load, compare(real, ours))


class _Turn:
    """What the steps of one of the two loads took, over all its turns."""

    def __init__(self) -> None:
        self.steps: list[tuple[StepShape, float]] = []
        self.busy_s = self.took_s = 0.0

    def run(self, world: _World, arrivals: Sequence[Arrival]) -> list[Fate]:
        fates, steps, took_s = world.run(arrivals)
        self.steps += steps
        self.busy_s += sum(took for _, took in steps)
        self.took_s += took_s
        return fates


class _World:
    """The real engine, driven by arrivals in real time."""

    def __init__(self, core: EngineCore, now: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._core, self._now, self._sleep = core, now, sleep
        self._recorder = core.step_time = _Recorder()
        self._asked = 0  # makes every prompt new

    def run(self, arrivals: Sequence[Arrival]) -> tuple[list[Fate], list[tuple[StepShape, float]], float]:
        """Every request to its end, each step with its seconds, and those of the run, from whose start times count."""
        core, began = self._core, self._now()
        steps: list[tuple[StepShape, float]] = []
        size = core.config.block_size
        requests = [request_of(self._asked + i, a, size, IDS, FIRST_ID) for i, a in enumerate(arrivals)]
        self._asked += len(requests)
        for request in requests:
            request.arrival += began
        ahead = 0
        while ahead < len(requests) or core.has_work:
            at = self._now()
            while ahead < len(requests) and requests[ahead].arrival <= at:
                core.add(requests[ahead])
                ahead += 1
            if not core.has_work:
                self._sleep(max(0.0, requests[ahead].arrival - self._now()))
                continue
            core.step()
            took = self._now() - at
            if self._recorder.shape is not None:
                steps.append((self._recorder.shape, took))
                self._recorder.shape = None
        fates = [
            Fate(f.arrived - began, f.first and f.first - began, f.last and f.last - began, f.preemptions, f.cached)
            for f in map(fate_of, requests)
        ]
        return fates, steps, self._now() - began


# -- the fit ---------------------------------------------------------------------------------------------------


def fit(steps: Sequence[tuple[StepShape, float]]) -> StepCurve:
    """Least squares by relative error, nothing negative: a curve over the batch's tokens, and what context costs.

    Relative to what is predicted, not to what was seen, which would favour the fast steps; slow ones count, because a
    replay has them too. Only a step ten times slower than all say is left out.
    """
    features = np.array([_features(shape) for shape, _ in steps])
    took = np.array([seconds for _, seconds in steps])
    expected = took
    for _ in range(6):
        kept = took <= 10.0 * expected
        rows, scale = features[kept], expected[kept]
        weights = _nonnegative(rows / scale[:, None], took[kept] / scale)
        expected = np.maximum(features @ weights, 1e-9)
    bends, slopes = weights[: len(KNOTS)], weights[len(KNOTS) :]
    knots = tuple((float(k), float(sum(bends[: i + 1]))) for i, k in enumerate(KNOTS))  # each bend adds to the last
    decode, context, pair = (float(w) for w in slopes * _SCALE)
    return StepCurve(knots, per_decode_s=decode, per_context_s=context, per_pair_s=pair)


_SCALE = np.array([1.0, 1e-4, 1e-5])


def _features(shape: StepShape) -> list[float]:
    """The curve as a sum of rises between knots, so that it never falls; then decodes, context, pairs."""
    tokens = shape.decodes + shape.prefill
    rises = [1.0]
    for left, right in itertools.pairwise(KNOTS):
        rises.append(min(1.0, max(0.0, (tokens - left) / (right - left))))
    slopes = np.array([shape.decodes, shape.context, shape.attention]) * _SCALE
    return [*rises, *slopes.tolist()]


def _nonnegative(features: npt.NDArray[np.float64], targets: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Coordinate descent on the normal equations."""
    products, wanted = features.T @ features, features.T @ targets
    products += 1e-9 * np.trace(products) / len(products) * np.eye(len(products))
    weights = np.zeros(len(wanted))
    for _ in range(5000):
        before = weights.copy()
        for i in range(len(weights)):
            rest = wanted[i] - products[i] @ weights + products[i, i] * weights[i]
            weights[i] = max(0.0, rest / products[i, i])
        if np.abs(weights - before).max() <= 1e-10 * (1e-12 + np.abs(weights).max()):
            break
    return weights


def _seconds(curve: StepCurve, shape: StepShape) -> float:
    return curve.seconds(shape.decodes, shape.context, shape.prefill, shape.attention)


# -- the loads -------------------------------------------------------------------------------------------------


def varied(seed: int, count: int, rate: float) -> tuple[Arrival, ...]:
    """Lone requests and crowds, short prompts and long ones: every kind of step."""
    out: list[Arrival] = []
    draw, at = Random(f"{seed}:varied"), 0.0
    for _ in range(count):
        at += draw.expovariate(rate)
        crowd = draw.choice((1, 1, 1, 2, 4))
        for _ in range(crowd):
            out.append(Arrival(at, round(8 * 2 ** draw.uniform(0.0, 6.5)), draw.randint(2, 96)))
    return tuple(out)


def chat(seed: int, rate: float, seconds: float) -> tuple[Arrival, ...]:
    """Independent users: prompts of 32 to 512 tokens, answers of 16 to 128."""
    out: list[Arrival] = []
    draw, at = Random(f"{seed}:chat"), 0.0
    while True:
        at += draw.expovariate(rate)
        if at > seconds:
            return tuple(out)
        out.append(Arrival(at, round(32 * 2 ** draw.uniform(0.0, 4.0)), draw.randint(16, 128)))


def _moderate(curve: StepCurve, model: ReplicaModel) -> float:
    """Requests/s of that load at which batches of four decode beside each other: busy, and not drowning."""
    prompt, output, together = 173.0, 72.0, 4
    step = curve.seconds(together, int(together * (prompt + output / 2)))
    each = curve.seconds(0, 0, int(prompt), int(prompt * prompt / 2)) + output * step / together
    return 0.5 / each


# -- the comparison --------------------------------------------------------------------------------------------


def simulated(model: ReplicaModel, arrivals: Sequence[Arrival]) -> list[Fate]:
    """The same arrivals through the simulated replica."""
    requests = serve(Replica(model), arrivals)
    return [Fate(r.arrived, r.first, r.last, r.preemptions, r.cached) for r in requests]


def compare(real: Sequence[Fate], ours: Sequence[Fate]) -> tuple[Row, ...]:
    """Median E2E and TTFT p99 have bars; the rest is shown."""
    one, other = [_latencies(fates) for fates in (real, ours)]
    rows = []
    for place, name in enumerate(("TTFT", "E2E")):
        for share in (0.5, 0.9, 0.99):
            a, b = (percentile([times[place] for times in world], share) or NEVER for world in (one, other))
            bar = {("E2E", 0.5): 0.10, ("TTFT", 0.99): 0.30}.get((name, share))
            rows.append(Row(f"{name} p{100 * share:g}", a, b, abs(b - a) / a, bar))
    each = _median([abs(b[1] - a[1]) / a[1] for a, b in zip(one, other, strict=True)])
    medians = [_median([times[1] for times in world]) for world in (one, other)]
    rows.append(Row("E2E of single requests, median error", medians[0], medians[1], each, 0.10))
    return tuple(rows)


def _latencies(fates: Sequence[Fate]) -> list[tuple[float, float]]:
    return [((f.first or NEVER) - f.arrived, (f.last or NEVER) - f.arrived) for f in fates]


def _median(values: Sequence[float]) -> float:
    return percentile(values, 0.5) or 0.0
