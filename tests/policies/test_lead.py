"""The lead is learned from starts that were seen, and called assumed before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policies import lead
from policies.compose import picture_of
from policies.memory import Memory
from policies.situation import ReplicaFacts, Situation

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]
NAME = lead.key("chat", "m", None)


@pytest.mark.parametrize(
    ("weights", "bandwidth", "configured", "expected"),
    [
        pytest.param(None, None, 300.0, 300.0, id="configured wins"),
        pytest.param(16e9, 1e9, None, 76.0, id="weights over bandwidth plus a minute"),
        pytest.param(None, 1e9, None, 120.0, id="nothing known"),
        pytest.param(16e9, 0.0, None, 120.0, id="no bandwidth"),
    ],
)
def test_before_the_first_start_the_lead_is_assumed(
    weights: float | None, bandwidth: float | None, configured: float | None, expected: float
) -> None:
    fallback = lead.assumed(weights, bandwidth, configured)
    found = lead.lead(Memory(), NAME, fallback, 15.0)
    assert (found.seconds, found.assumed, found.samples) == (expected, True, 0)
    assert "is assumed: no start has been seen" in found.text


def test_with_few_starts_the_slowest_counts() -> None:
    memory = Memory()
    for at, took in ((1.0, 40.0), (2.0, 90.0), (3.0, 50.0)):
        memory = lead.observe(memory, NAME, at, took)
    found = lead.lead(memory, NAME, 300.0, 15.0)
    assert (found.seconds, found.assumed, found.samples) == (105.0, False, 3)
    assert found.text == "lead 105 s: p90 of 3 starts is 90 s, plus one interval 15 s"


def test_with_many_starts_one_outlier_does_not_count() -> None:
    memory = Memory()
    for at in range(20):
        memory = lead.observe(memory, NAME, float(at), 600.0 if at == 7 else 40.0)
    assert lead.lead(memory, NAME, 300.0, 15.0).seconds == 55.0


@pytest.mark.parametrize("took", [-1.0, float("nan"), float("inf")])
def test_an_impossible_start_is_not_remembered(took: float) -> None:
    assert lead.observe(Memory(), NAME, 1.0, took) == Memory()


def test_a_start_is_learned_from_created_to_serving(situation: Make, replica: MakeReplica) -> None:
    memory = Memory()
    for now, state in ((1000.0, "warming"), (1050.0, "warming"), (1100.0, "ok"), (1150.0, "ok")):
        scene = situation(replicas=(replica("a", state=state, started_at=990.0),), now=now)
        memory = lead.learn(scene, memory)
    assert memory.series(NAME) == ((1100.0, 110.0),)
    assert memory.since == {}


def test_a_start_that_never_served_teaches_nothing(situation: Make, replica: MakeReplica) -> None:
    memory = Memory()
    for state in ("warming", "down", "ok"):
        memory = lead.learn(situation(replicas=(replica("a", state=state, started_at=990.0),)), memory)
    assert memory.series(NAME) == ()


def test_a_learned_lead_replaces_an_assumed_one_but_not_a_measured_one(situation: Make) -> None:
    memory = lead.observe(Memory(), NAME, 1.0, 40.0)
    assumed = picture_of(situation(lead_s=300.0, lead_assumed=True), memory)
    measured = picture_of(situation(lead_s=300.0, lead_assumed=False), memory)
    assert (assumed.lead_s, assumed.lead_assumed) == (50.0, False)
    assert (measured.lead_s, measured.lead_assumed) == (300.0, False)
