"""Who goes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policies import drain
from policies.situation import ReplicaFacts, Situation

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]


def test_nobody_who_serves_goes_before_one_who_cannot(situation: Make, replica: MakeReplica) -> None:
    scene = situation(
        replicas=(
            replica("stale", state="stale"),
            replica("idle", streams=0),
            replica("warming", state="warming"),
            replica("down", state="down"),
            replica("gone", state="draining"),
            replica("unplaced", state="warming", unschedulable=True),
            replica("falls", state="warming", falling=True),
        )
    )
    ranked = drain.rank(scene)
    assert [v.name for v in ranked] == ["down", "falls", "unplaced", "warming", "idle", "stale"]
    assert [v.reason for v in ranked[1:3]] == ["falls again and again", "cannot be placed"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"streams": 1, "cache_tokens": 9e9}, {"streams": 2, "cache_tokens": 0.0}, id="streams before cache"
        ),
        pytest.param({"streams": 9}, {"streams": None, "running": None}, id="unknown streams are many"),
        pytest.param({"cache_tokens": 10.0}, {"cache_tokens": 99.0}, id="least cache"),
        pytest.param({"cache_tokens": 10.0}, {}, id="unknown cache is precious"),
        pytest.param({"cost": 4.0}, {"cost": 1.0}, id="dearest"),
        pytest.param({"started_at": 500.0}, {"started_at": 100.0}, id="newest"),
    ],
)
def test_order_among_those_who_serve(
    situation: Make, replica: MakeReplica, one: dict[str, float], other: dict[str, float]
) -> None:
    scene = situation(replicas=(replica("z", **one), replica("a", **other)))
    assert drain.choose(scene, 1) == ("z",)


def test_among_equals_the_one_goes_that_empties_its_node(situation: Make, replica: MakeReplica) -> None:
    nodes = {"a": "n1", "b": "n1", "c": "n2", "d": "n3", "e": "n3", "f": "n3"}
    scene = situation(replicas=tuple(replica(name, node=node, streams=0) for name, node in nodes.items()))
    assert [v.name for v in drain.rank(scene)] == ["c", "a", "b", "d", "e", "f"]


def test_running_requests_stand_in_for_streams(situation: Make, replica: MakeReplica) -> None:
    scene = situation(replicas=(replica("a", streams=None, running=7.0), replica("b", streams=6)))
    assert [(v.name, v.streams) for v in drain.rank(scene)] == [("b", 6), ("a", 7)]


def test_the_choice_is_said_in_words(situation: Make, replica: MakeReplica) -> None:
    scene = situation(
        replicas=(
            replica("a", streams=3, cache_tokens=1200.0),
            replica("b", state="down"),
            replica("c", state="warming"),
            replica("d", state="warming", unschedulable=True),
            replica("e", streams=None, running=None),
        )
    )
    assert drain.sentence(scene, ("a", "b", "c", "d", "e")) == (
        "drain 5 replicas: a (3 streams at risk, 1200 cached tokens), b (is down), "
        "c (still starting, carries nothing), d (cannot be placed), e (streams at risk unknown)"
    )


def test_none_or_fewer_than_none_is_nobody(situation: Make) -> None:
    assert drain.choose(situation(3), 0) == drain.choose(situation(3), -2) == ()
