"""The simulated replica against the engine's own scheduler, and against itself one step at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.step_time import StepTimeModel
from opsconsole.simulate.alone import serve
from opsconsole.simulate.engine_twin import Fate, run_twin
from opsconsole.simulate.replica import Replica
from opsconsole.simulate.settings import DEFAULT_REPLICA, Arrival, ReplicaModel
from opsconsole.simulate.steptime import StepCurve

BLOCK = 4
STEP = StepTimeModel(0.01, 0.001, 1e-5, 2e-4, 1e-6)


@dataclass(frozen=True, slots=True)
class Load:
    """A small machine and a load that presses on every limit of it."""

    seed: int
    kv_blocks: int = 40
    chunk: int = 24
    max_seqs: int = 6
    count: int = 40
    rate: float = 8.0
    openings: int = 3
    caching: bool = True

    def model(self) -> ReplicaModel:
        return ReplicaModel(
            "small",
            StepCurve.of_engine(STEP),
            kv_blocks=self.kv_blocks,
            block_size=BLOCK,
            chunk=self.chunk,
            max_seqs=self.max_seqs,
            hash_tokens=BLOCK,
            prefix_cache=self.caching,
        )

    def arrivals(self) -> list[Arrival]:
        draw = Random(self.seed)
        at, out = 0.0, []
        for _ in range(self.count):
            at += draw.expovariate(self.rate)
            shared = draw.randrange(0, 9)
            opening = draw.randrange(self.openings)
            blocks = tuple(1000 * opening + i for i in range(shared))
            out.append(Arrival(at, shared * BLOCK + draw.randrange(1, 30), draw.randrange(1, 40), blocks))
        return out


def by_engine(load: Load) -> list[Fate]:
    """The engine's core on a virtual clock."""
    return run_twin(load.model(), STEP, load.arrivals())


def by_replica(model: ReplicaModel, arrivals: list[Arrival], fast: bool = True) -> list[Fate]:
    """The simulated replica alone, its books checked at every event."""
    replica = Replica(model, fast)
    requests = serve(replica, arrivals, lambda at: replica.check())
    assert replica.kv.free == replica.kv.total, "blocks are still held after the last request"
    assert sum(r.output for r in requests) == replica.output_tokens
    return [Fate(r.arrived, r.first, r.last, r.preemptions, r.cached) for r in requests]


def assert_same(one: list[Fate], other: list[Fate]) -> None:
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        assert a.first == pytest.approx(b.first, abs=1e-9), f"first token of {number}"
        assert a.last == pytest.approx(b.last, abs=1e-9), f"last token of {number}"
        assert (a.preemptions, a.cached) == (b.preemptions, b.cached), f"fate of {number}"


LOADS = st.builds(
    Load,
    seed=st.integers(0, 10_000),
    kv_blocks=st.integers(26, 70),
    chunk=st.integers(8, 40),
    max_seqs=st.integers(1, 8),
    rate=st.floats(1.0, 30.0),
    openings=st.integers(1, 4),
    caching=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(LOADS)
def test_the_replica_is_the_engines_scheduler_to_the_nanosecond(load: Load) -> None:
    assert_same(by_replica(load.model(), load.arrivals()), by_engine(load))


@settings(max_examples=40, deadline=None)
@given(LOADS)
def test_closed_form_equals_step_by_step(load: Load) -> None:
    assert_same(by_replica(load.model(), load.arrivals()), by_replica(load.model(), load.arrivals(), fast=False))


def test_the_loads_press_on_every_limit() -> None:
    fates = [fate for seed in range(8) for fate in by_engine(Load(seed))]
    assert sum(f.preemptions for f in fates) > 10
    assert sum(f.cached or 0 for f in fates) > 100


def test_closed_form_equals_step_by_step_on_the_default_replica_under_pressure() -> None:
    draw, at, arrivals = Random(5), 0.0, []
    for _ in range(300):
        at += draw.expovariate(9.0)
        arrivals.append(Arrival(at, draw.randrange(50, 6000), draw.randrange(1, 400)))
    model = replace(DEFAULT_REPLICA, kv_blocks=4000)
    fast, slow = by_replica(model, arrivals), by_replica(model, arrivals, fast=False)
    assert_same(fast, slow)
    assert sum(f.preemptions for f in fast) > 0


def test_a_lone_request_takes_its_prefill_and_its_decodes() -> None:
    (fate,) = by_replica(DEFAULT_REPLICA, [Arrival(1.0, 1000, 3)])
    step = DEFAULT_REPLICA.step
    first = 1.0 + step.seconds(0, 0, 512) + step.seconds(0, 0, 488)
    assert fate.first == pytest.approx(first)
    assert fate.last == pytest.approx(first + step.seconds(1, 1001) + step.seconds(1, 1002))
