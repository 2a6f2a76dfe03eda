"""Start times learned from pods, and workloads as operators name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsconsole.cluster.pods import PodFacts
from opsconsole.cluster.starts import Like, Span, StartTimes, words
from opsconsole.cluster.workload import workload
from opsconsole.errors import ConfigError


def pod(
    name: str, node: str, created: float, schedule: float, pull: float, load: float, node_type: str | None = None
) -> PodFacts:
    scheduled = created + schedule
    return PodFacts(
        name, name, node, node_type, ready=True, image="vllm", created_at=created, scheduled_at=scheduled,
        running_at=scheduled + pull, ready_at=scheduled + pull + load,
    )  # fmt: skip


def test_phases_are_learned_once_a_pod_and_apart_for_warm_nodes() -> None:
    cold, warm = pod("a", "n1", 0.0, 2.0, 100.0, 60.0), pod("b", "n1", 200.0, 1.0, 5.0, 50.0)
    times = StartTimes().learn([cold]).learn([cold, warm]).learn([cold, warm])
    assert times.span("pull", Like("vllm")) == Span(5.0, 100.0, 2)
    assert times.span("pull", Like("vllm", warm=False)) == Span(100.0, 100.0, 1)
    assert times.span("pull", Like("vllm", warm=True)) == Span(5.0, 5.0, 1)
    assert times.span("total", Like("vllm", warm=True)) == Span(56.0, 56.0, 1)
    assert times.span("pull", Like("another")) is None


def test_phases_are_learned_apart_for_node_types_and_told_with_them() -> None:
    big, small = pod("a", "n1", 0.0, 1.0, 10.0, 20.0, "p5"), pod("b", "n2", 0.0, 1.0, 30.0, 200.0, "g6")
    lost = pod("c", "n3", 0.0, 1.0, 10.0, 70.0)
    times = StartTimes().learn([big, small, lost])
    assert times.span("load", Like("vllm", "p5")) == Span(20.0, 20.0, 1)
    assert times.span("load", Like("vllm")) == Span(70.0, 200.0, 3)
    assert words(times, "vllm") == (
        "231 s on g6 (p90 of 1; schedule 1 s, pull 30 s, load 200 s), "
        "31 s on p5 (p90 of 1; schedule 1 s, pull 10 s, load 20 s), "
        "81 s (p90 of 1; schedule 1 s, pull 10 s, load 70 s)"
    )
    told = words(StartTimes().learn([lost]), "vllm", "nodes may not be read")
    assert told is not None and told.startswith("81 s on nodes of unknown type, as nodes may not be read (p90 of 1; ")
    assert words(times, "another") is None


def test_phases_are_told_from_half_to_nine_of_ten_and_pulling_apart_where_the_image_was() -> None:
    seen = [
        pod("a", "n1", 0.0, 2.0, 100.0, 60.0),
        pod("b", "n2", 0.0, 1.0, 90.0, 50.0),
        pod("c", "n1", 200.0, 1.0, 5.0, 50.0),
    ]
    assert words(StartTimes().learn(seen), "vllm") == (
        "162 s (p90 of 3; schedule 1 to 2 s, pull 90 to 100 s, 5 s where the image was, load 50 to 60 s)"
    )


def test_the_same_image_with_another_model_is_another_start() -> None:
    small = replace(pod("a", "n1", 0.0, 1.0, 10.0, 20.0), model="small")
    big = replace(pod("b", "n1", 0.0, 1.0, 10.0, 400.0), model="big")
    times = StartTimes().learn([small, big])
    assert times.span("load", Like("vllm small")) == Span(20.0, 20.0, 1)
    assert times.span("load", Like("vllm big")) == Span(400.0, 400.0, 1)


@pytest.mark.parametrize(
    ("node", "node_type", "expected"),
    [
        ("n1", "p5", 5.0 + 20.0),
        ("n2", "g6", 5.0 + 200.0),
        ("n9", "p5", 30.0 + 20.0),
        ("n9", "g6", 30.0 + 200.0),
        ("n9", "a1", 30.0 + 200.0),
        ("n9", None, 30.0 + 200.0),
    ],
    ids=["warm, known", "warm by another start", "cold, its type known", "cold, known", "a new type", "type unknown"],
)
def test_pulling_is_expected_by_warmth_and_loading_by_node_type(
    node: str, node_type: str | None, expected: float
) -> None:
    seen = [
        pod("a", "n1", 0.0, 1.0, 30.0, 20.0, "p5"),
        pod("b", "n1", 100.0, 1.0, 5.0, 20.0, "p5"),
        pod("c", "n2", 0.0, 1.0, 30.0, 200.0, "g6"),
    ]
    facts = PodFacts("x", node=node, node_type=node_type, image="vllm", created_at=0.0, scheduled_at=1000.0)
    assert StartTimes().learn(seen).expected_ready_at(facts) == 1000.0 + expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (PodFacts("x", image="vllm", created_at=1000.0), 1000.0 + 2 + 100 + 60),
        (PodFacts("x", node="n9", image="vllm", created_at=1000.0, scheduled_at=1007.0), 1007.0 + 100 + 60),
        (PodFacts("x", node="n1", image="vllm", created_at=1000.0, scheduled_at=1007.0), 1007.0 + 5 + 50),
        (PodFacts("x", node="n9", image="vllm", created_at=0.0, scheduled_at=1.0, running_at=1100.0), 1100.0 + 60),
        (PodFacts("x", image="never seen", created_at=1000.0), None),
    ],
    ids=["no node yet", "on a cold node", "on a warm node", "loading", "another image"],
)
def test_a_pod_on_its_way_is_expected_when_nine_of_ten_like_it_were_ready(
    facts: PodFacts, expected: float | None
) -> None:
    times = StartTimes().learn([pod("a", "n1", 0.0, 2.0, 100.0, 60.0), pod("b", "n1", 200.0, 1.0, 5.0, 50.0)])
    assert times.expected_ready_at(facts) == expected


def test_a_pod_that_fell_and_came_back_teaches_nothing() -> None:
    fell = PodFacts(
        "a", "a", "n", ready=True, image="vllm", created_at=0, scheduled_at=1, running_at=900, ready_at=950, restarts=1
    )
    assert StartTimes().learn([fell]) == StartTimes()


@pytest.mark.parametrize(
    ("text", "path", "by_ordinal"),
    [
        ("deployment/vllm", "/apis/apps/v1/namespaces/ns/deployments/vllm", False),
        ("deploy/vllm", "/apis/apps/v1/namespaces/ns/deployments/vllm", False),
        ("StatefulSets/vllm", "/apis/apps/v1/namespaces/ns/statefulsets/vllm", True),
        ("lws/vllm", "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets/vllm", True),
        ("widgets.v1beta1.example.com/w", "/apis/example.com/v1beta1/namespaces/ns/widgets/w", False),
    ],
)
def test_a_workload_is_named_as_kubectl_names_it(text: str, path: str, by_ordinal: bool) -> None:
    found = workload(text, "ns")
    assert (found.path, found.by_ordinal) == (path, by_ordinal)


@pytest.mark.parametrize("text", ["vllm", "/vllm", "deployment/", "pod/vllm", "a.b/c", "deployment/a/b"])
def test_what_names_no_workload_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"KIND/NAME|PLURAL\.VERSION\.GROUP"):
        workload(text, "ns")
