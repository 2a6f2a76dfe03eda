"""The reactive law, rule by rule: what it wants and the sentence it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policies import reactive
from policies.compose import picture_of
from policies.decision import Verdict
from policies.memory import Memory
from policies.situation import CapacityFacts, Demand, ReplicaFacts, Situation, Thresholds

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]


@pytest.mark.parametrize(
    ("live", "waiting", "threshold", "wants"),
    [
        pytest.param(3, 8.0, 8.0, None, id="at the threshold is not above it"),
        pytest.param(3, 9.0, 8.0, 4, id="27 waiting over 8 each is 4"),
        pytest.param(8, 3.375, 3.0, 9, id="27 waiting over 3 each is 9"),
        pytest.param(1, 80.0, 8.0, 2, id="no more than twice what serves"),
        pytest.param(4, 40.0, 8.0, 8, id="four become eight"),
    ],
)
def test_queue_wants_what_keeps_it_below_the_threshold(
    situation: Make, live: int, waiting: float, threshold: float, wants: int | None
) -> None:
    picture = picture_of(situation(live, each={"waiting": waiting}, thresholds=Thresholds(queue=threshold)), Memory())
    result, _ = reactive.queue(picture, Memory())
    assert result.wants == wants


def test_queue_says_numbers_units_and_how_long(situation: Make) -> None:
    memory = Memory()
    told = ""
    for now in (1000.0, 1045.0):
        scene = situation(8, now=now, each={"waiting": 3.375}, thresholds=Thresholds(queue=3.0))
        result, memory = reactive.queue(picture_of(scene, memory), memory)
        told = result.text
    assert told == "queue 27 > 24 for 45 s wants 9"


def test_queue_counts_only_after_its_hold(situation: Make) -> None:
    memory = Memory()
    wants = []
    for now in (1000.0, 1010.0, 1020.0):
        scene = situation(1, now=now, each={"waiting": 20.0}, thresholds=Thresholds(queue_hold_s=20.0))
        result, memory = reactive.queue(picture_of(scene, memory), memory)
        wants.append(result.wants)
    assert wants == [None, None, 2]


def test_queue_in_front_of_the_pool_counts(situation: Make) -> None:
    picture = picture_of(situation(2, demand=Demand(gateway_waiting=30.0)), Memory())
    result, _ = reactive.queue(picture, Memory())
    assert result.wants == 4


@pytest.mark.parametrize(
    ("rate", "growth", "capacity", "wants"),
    [
        # 200 wait, 1 more a second for 60 s leaves 260; (9 + 260 / 60) / 2 = 6.7
        pytest.param(9.0, None, 2.0, 7, id="known capacity: what arrives and what is left within the window"),
        pytest.param(9.0, 1.0, None, 7, id="what leaves the queue says the capacity: (9 - 1) / 4 = 2"),
        pytest.param(40.0, 32.0, None, 8, id="... but no more than twice what serves is bought on that"),
        pytest.param(9.0, None, None, 8, id="nothing known: twice what serves"),
        pytest.param(40.0, None, 2.0, 25, id="known capacity may buy more: by the queue's length at most"),
    ],
)
def test_how_much_a_queue_buys(
    situation: Make, rate: float, growth: float | None, capacity: float | None, wants: int
) -> None:
    scene = situation(
        4,
        each={"waiting": 50.0},
        lead_s=60.0,
        demand=Demand(request_rate=rate, waiting_growth=growth),
        capacity=None if capacity is None else CapacityFacts(request_rate=capacity),
    )
    result, _ = reactive.queue(picture_of(scene, Memory()), Memory())
    assert result.wants == wants


def test_a_queue_that_is_gone_before_help_could_come_buys_nothing(situation: Make, replica: MakeReplica) -> None:
    scene = situation(4, each={"waiting": 10.0}, lead_s=60.0, demand=Demand(request_rate=7.0, waiting_growth=-1.0))
    result, _ = reactive.queue(picture_of(scene, Memory()), Memory())
    assert (result.wants, result.verdict) == (4, Verdict.AGREES)
    assert result.text == "queue 40 > 32 for 0 s, gone in 40 s, before a replica started now would help"
    starting = replica("new", state="warming", expected_ready_at=1010.0)
    serving = tuple(replica(f"r{i}", waiting=10.0) for i in range(2))
    helped = situation(
        replicas=(*serving, starting),
        lead_s=60.0,
        demand=Demand(request_rate=4.0),
        capacity=CapacityFacts(request_rate=2.0),
    )
    result, _ = reactive.queue(picture_of(helped, Memory()), Memory())
    assert result.text == "queue 20 > 16 for 0 s, gone in 20 s, before a replica started now would help"


@pytest.mark.parametrize(
    ("kv", "live", "wants"),
    [
        pytest.param(0.85, 4, None, id="at the limit"),
        pytest.param(0.9, 4, 5, id="3.6 over 0.85 is 5"),
        pytest.param(1.0, 10, 12, id="10 over 0.85 is 12"),
    ],
)
def test_kv_is_summed_and_never_averaged_away(situation: Make, kv: float, live: int, wants: int | None) -> None:
    result, _ = reactive.kv(picture_of(situation(live, each={"kv_usage": kv}), Memory()), Memory())
    assert result.wants == wants


def test_preemption_wants_one_more_than_serves(situation: Make) -> None:
    result, _ = reactive.preemption(picture_of(situation(3, each={"preempt_rate": 0.5}), Memory()), Memory())
    assert (result.wants, result.verdict) == (4, Verdict.RAISES)
    assert result.text == "preemptions 1.5/s > 0.3/s wants 4"


@pytest.mark.parametrize(
    ("demand", "capacity", "wants"),
    [
        pytest.param(Demand(request_rate=9.9), CapacityFacts(request_rate=2.0), 5, id="requests"),
        pytest.param(Demand(request_rate=4.0), CapacityFacts(request_rate=2.0), 2, id="served by what is there"),
        pytest.param(
            Demand(request_rate=1.0, output_rate=700.0),
            CapacityFacts(request_rate=2.0, output_rate=100.0),
            7,
            id="the scarcer measure counts",
        ),
        pytest.param(
            Demand(request_rate=6.0), CapacityFacts(request_rate=2.0, low=0.5), 6, id="unsure capacity counts low"
        ),
        pytest.param(Demand(), CapacityFacts(request_rate=2.0), None, id="unknown demand"),
        pytest.param(Demand(request_rate=9.0), None, None, id="unknown capacity"),
    ],
)
def test_demand_is_counted_in_replicas_worth(
    situation: Make, demand: Demand, capacity: CapacityFacts | None, wants: int | None
) -> None:
    result, _ = reactive.demand(picture_of(situation(2, demand=demand, capacity=capacity), Memory()), Memory())
    assert result.wants == wants


def test_one_noisy_reading_buys_nothing_and_a_real_jump_buys_at_once(situation: Make) -> None:
    """At 4 requests/s over 10 s a reading of 6 is chance (6 - 2 x 0.77 = 4.5); one of 30 is not (30 - 3.5 = 26.5)."""
    memory, told = Memory(), []
    for tick, rate in enumerate((4.0, 4.0, 4.0, 6.0, 4.0, 30.0, 30.0)):
        scene = situation(
            2, now=1000.0 + 10 * tick, demand=Demand(request_rate=rate), capacity=CapacityFacts(request_rate=2.25)
        )
        result, memory = reactive.demand(picture_of(scene, memory), memory)
        told.append(result.wants)
    assert told == [2, 2, 2, 2, 2, 12, 14]


@pytest.mark.parametrize("rule", [reactive.queue, reactive.kv, reactive.preemption], ids=lambda r: str(r.__name__))
def test_unknown_signals_are_unknown_and_not_zero(situation: Make, rule: Any) -> None:
    blind = {"waiting": None, "kv_usage": None, "preempt_rate": None}
    result, _ = rule(picture_of(situation(2, each=blind), Memory()), Memory())
    assert (result.wants, result.verdict) == (None, Verdict.UNKNOWN)


def test_a_starting_replica_answers_for_what_it_was_started_for(situation: Make, replica: MakeReplica) -> None:
    starting = replica("new", state="warming", expected_ready_at=1030.0, waiting=None, running=None, kv_usage=None)
    scene = situation(replicas=(replica("old", waiting=12.0), starting), want=2)
    result, _ = reactive.queue(picture_of(scene, Memory()), Memory())
    assert (result.wants, result.verdict) == (2, Verdict.AGREES)
    assert result.text.endswith("wants 2: 1 serve and 1 start, the last in 30 s")


def test_a_queue_in_front_counts_while_no_replica_is_ready(situation: Make, replica: MakeReplica) -> None:
    starting = replica("new", state="warming", expected_ready_at=1030.0, waiting=None, running=None, kv_usage=None)
    for members, verdict in (((), Verdict.RAISES), ((starting,), Verdict.AGREES)):
        scene = situation(replicas=members, want=len(members), demand=Demand(gateway_waiting=30.0))
        result, _ = reactive.queue(picture_of(scene, Memory()), Memory())
        assert (result.wants, result.verdict) == (1, verdict)
