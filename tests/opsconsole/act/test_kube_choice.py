"""Who goes when a scale shrinks, and what stands against it: pure tables."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.act.kube_choice import at_risk, budget_words, choose, crash_words, is_rolling, revision_words, selects
from opsconsole.cluster.pods import PodFacts


def ready(name: str, **more: Any) -> PodFacts:
    return PodFacts(name, ready=True, **{"revision": "1", **more})


STREAMS = {"a": 5, "b": 1, "c": 3}.get


@pytest.mark.parametrize(
    ("asked", "count", "expected"),
    [
        ((), 1, ("b",)),
        ((), 2, ("b", "c")),
        (("a",), 1, ("a",)),
        (("a",), 2, ("a", "b")),
        (("unknown",), 1, ("b",)),
        ((), 0, ()),
    ],
)
def test_who_was_asked_for_goes_first_then_the_fewest_streams(
    asked: tuple[str, ...], count: int, expected: tuple[str, ...]
) -> None:
    pods = [ready("a"), ready("b"), ready("c")]
    assert choose(pods, count, asked, STREAMS, by_ordinal=False).names == expected


def test_among_equals_the_one_goes_that_empties_its_node_and_then_the_newest() -> None:
    nodes = {"a": "n1", "b": "n1", "c": "n2", "d": "n2", "e": "n3"}
    pods = [ready(name, node=node, ready_at=0.0 if name == "e" else float(ord(name))) for name, node in nodes.items()]
    idle = dict.fromkeys(nodes, 0).get
    assert choose(pods, 2, (), idle, by_ordinal=False).names == ("e", "d")


def test_unknown_streams_are_many_streams() -> None:
    pods = [ready("a"), ready("x"), ready("c")]
    assert choose(pods, 2, (), STREAMS, by_ordinal=False).names == ("c", "a")
    assert at_risk(("a", "x"), pods, STREAMS) is None
    assert at_risk(("a", "c"), pods, STREAMS) == 8


def test_a_pod_that_is_not_ready_goes_before_the_one_that_was_named() -> None:
    pods = [ready("a"), PodFacts("pending"), ready("b", deleting=True)]
    choice = choose(pods, 1, ("a",), STREAMS, by_ordinal=False)
    assert choice.names == ("pending",)
    assert choice.warnings == ("a stays: pending not ready and taken first by the cluster",)
    assert at_risk(choice.names, pods, STREAMS) == 0


def test_ordinals_are_numbers_and_the_highest_goes() -> None:
    pods = [ready("m-2"), ready("m-10"), ready("m-9")]
    choice = choose(pods, 2, ("m-2",), STREAMS, by_ordinal=True)
    assert choice.names == ("m-10", "m-9")
    assert "takes its highest ordinal" in choice.warnings[0]


@pytest.mark.parametrize(
    ("pods", "status", "rolling"),
    [
        ([ready("a"), ready("b")], {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}, False),
        ([ready("a"), ready("b", revision="2")], {}, True),
        ([ready("a"), ready("b", revision="2", deleting=True)], {}, False),
        ([ready("a")], {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 1}, True),
        ([ready("a")], {"observedGeneration": 0, "replicas": 3, "updatedReplicas": 1}, False),
        ([PodFacts("a", ready=True)], {}, False),
    ],
    ids=["settled", "two revisions", "the old one goes", "half updated", "status is behind", "no revisions at all"],
)
def test_a_rollout_is_seen_by_its_pods_or_its_status(
    pods: list[PodFacts], status: dict[str, int], rolling: bool
) -> None:
    assert is_rolling({"metadata": {"generation": 1}, "status": status}, pods) is rolling


def test_supply_is_told_by_revision_while_two_are_there() -> None:
    pods = [
        PodFacts("c", revision="new", created_at=9.0),
        ready("a", revision="old", created_at=1.0),
        ready("b", revision="old", created_at=2.0),
        ready("d", revision="gone", created_at=0.0, deleting=True),
    ]
    assert revision_words(pods) == "revision old: 2 of 2 ready, new: 0 of 1 ready"
    assert revision_words([]) == "no pod is there"


def test_a_revision_falls_only_while_none_of_it_is_ready() -> None:
    falling = PodFacts("x", revision="2", phase="failing", why="CrashLoopBackOff", created_at=9.0)
    old = ready("a", created_at=1.0)
    assert crash_words([old, falling]) == "1 of 1 pods of the newest revision fall (CrashLoopBackOff) and none is ready"
    assert crash_words([old, falling, ready("b", revision="2", created_at=8.0)]) is None
    assert crash_words([old]) is None
    assert crash_words([]) is None


def test_a_budget_counts_only_ready_pods_that_it_selects() -> None:
    budget = {
        "metadata": {"name": "two"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 1},
    }
    mine, other, pending = ready("a", labels={"app": "x"}), ready("b", labels={"app": "y"}), PodFacts("p")
    assert budget_words([budget], [mine, other, pending]) is None
    words = budget_words([budget], [mine, ready("c", labels={"app": "x"})])
    assert words == "the PodDisruptionBudget two allows 1 pods to go now, and 2 would"


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "app", "operator": "In", "values": ["x", "y"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["x"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "gone", "operator": "DoesNotExist"}, True),
        ({"key": "gone", "operator": "In", "values": ["x"]}, False),
        ({"key": "app", "operator": "Nonsense"}, False),
    ],
)
def test_selectors_are_evaluated_as_the_server_does(expression: dict[str, Any], matches: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"app": "x"}) is matches
    assert selects({}, {"app": "x"})
